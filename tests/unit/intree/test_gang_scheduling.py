"""GangScheduling: gating in PreEnqueue, waiting in Permit, and the events that requeue members."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

import pytest

from pyscheduler.api import (
    ASSIGNED_POD,
    UNSCHEDULABLE_POD,
    Action,
    ClusterEvent,
    Pod,
    QueueingHint,
    Rejection,
    ResourceKind,
    StatusError,
    Wait,
)
from pyscheduler.core.framework.handle import WaitingPodState
from pyscheduler.core.state.node import NodeRow
from pyscheduler.intree.gang_scheduling import POD_GROUP, GangScheduling
from pyscheduler.testing import PodBuilder, pod
from tests.unit.intree.cluster import NoHandle, cycle

NO_GROUP = 'waiting for pods\'s pod group "team" to appear in scheduling queue'
TOO_FEW = "waiting for minCount pods from a gang to appear in scheduling queue"
QUORUM = "waiting for minCount pods from a gang to be scheduled"
NODE = NodeRow("n1")


def member(name: str, group: Any = "team") -> PodBuilder:
    made = pod(name)
    made.manifest["spec"]["schedulingGroup"] = {"podGroupName": group} if group is not None else {}
    return made


def policy(**policy: Any) -> dict[str, Any]:
    """Return a PodGroup named team with this scheduling policy."""
    return {"metadata": {"namespace": "default", "name": "team"}, "spec": {"schedulingPolicy": policy}}


class GangHandle(NoHandle):
    """Handle with PodGroups, their members, and the members that are placed or waiting."""

    def __init__(self, *groups: dict[str, Any], members: Iterable[PodBuilder] = (), placed: Iterable[str] = ()) -> None:
        self.groups = {(g["metadata"]["namespace"], g["metadata"]["name"]): g for g in groups}
        self.members = {m.build().uid: m.build() for m in members}
        self.placed = set(placed)
        self.waiting = {
            uid: WaitingPodState(self.members[uid], "n1", 0.0, {"GangScheduling": 300.0}) for uid in self.placed
        }
        self.activated: list[str] = []

    def objects(self, kind: ResourceKind) -> Mapping[tuple[str, str], dict[str, Any]]:
        assert kind == POD_GROUP
        return self.groups

    def pods_by_pod_group(self, namespace: str, name: str) -> Mapping[str, Pod]:
        return self.members if (namespace, name) == ("default", "team") else {}

    def is_assigned_or_assumed(self, uid: str) -> bool:
        return uid in self.placed

    def waiting_pod(self, uid: str) -> Any:
        return self.waiting.get(uid)

    def activate(self, pods: Iterable[Pod]) -> None:
        self.activated += [p.name for p in pods]

    @property
    def plugin(self) -> GangScheduling:
        return GangScheduling(GangScheduling.Args(), self)


def unresolvable(text: str) -> Rejection:
    return Rejection(text, resolvable=False)


THREE = [member("a"), member("b"), member("c")]


@pytest.mark.parametrize(
    ("of", "groups", "known", "rejection"),
    [
        (pod("alone"), [], [], None),
        (member("a", None), [], [], None),
        (member("a"), [], THREE, unresolvable(NO_GROUP)),
        (member("a").namespace("other"), [policy(gang={"minCount": 1})], THREE, unresolvable(NO_GROUP)),
        (member("a"), [policy(gang={"minCount": 4})], THREE, unresolvable(TOO_FEW)),
        (member("a"), [policy(gang={"minCount": 3})], THREE, None),
        (member("a"), [policy(basic={})], [], None),
        (member("a"), [policy(gang=None)], [], None),
        (member("a"), [policy(gang={})], [], None),
        (member("a"), [policy(gang={"minCount": "lots"})], [], None),
        (member("a"), [{"metadata": {"namespace": "default", "name": "team"}}], [], None),
        (member("a"), [policy() | {"spec": "odd"}], [], None),
    ],
    ids=[
        "of no group", "of a group without a name", "no PodGroup", "PodGroup elsewhere", "too few", "enough", "basic",
        "null policy", "no minCount", "odd minCount", "no spec", "odd spec",
    ],
)  # fmt: skip
def test_pre_enqueue_gates_members_until_group_and_min_count_exist(
    of: PodBuilder, groups: list[dict[str, Any]], known: list[PodBuilder], rejection: Rejection | None
) -> None:
    assert GangHandle(*groups, members=known).plugin.pre_enqueue(of.build()) == rejection


def test_permit_waits_for_min_count_and_activates_unplaced_members() -> None:
    handle = GangHandle(policy(gang={"minCount": 3}), members=THREE, placed=["a", "b"])
    assert handle.plugin.permit(cycle(), THREE[1].build(), NODE) == Wait(300.0, QUORUM)
    assert handle.activated == ["c"]
    assert not handle.waiting["a"].is_decided


def test_permit_allows_all_waiting_members_at_min_count() -> None:
    handle = GangHandle(policy(gang={"minCount": 2}), members=THREE, placed=["a", "b"])
    assert handle.plugin.permit(cycle(), THREE[1].build(), NODE) is None
    assert handle.waiting["a"].is_decided
    assert handle.activated == []


@pytest.mark.parametrize(
    ("of", "groups"),
    [(pod("alone"), []), (member("a"), [policy(basic={})]), (member("a"), [policy(gang={"minCount": 0})])],
)
def test_permit_passes_pods_without_gang(of: PodBuilder, groups: list[dict[str, Any]]) -> None:
    handle = GangHandle(*groups)
    assert handle.plugin.permit(cycle(), of.build(), NODE) is None
    assert handle.activated == []


def test_permit_raises_if_pod_group_is_deleted() -> None:
    message = 'failed to get podGroup default/team: podgroup.scheduling.k8s.io "team" not found'
    with pytest.raises(StatusError) as caught:
        GangHandle(members=THREE, placed=["a"]).plugin.permit(cycle(), THREE[0].build(), NODE)
    assert str(caught.value) == message


@pytest.mark.parametrize("resource", [ASSIGNED_POD, UNSCHEDULABLE_POD])
@pytest.mark.parametrize(
    ("waits", "came", "hint"),
    [
        (member("a"), member("b"), QueueingHint.QUEUE),
        (member("a"), member("b", "others"), QueueingHint.SKIP),
        (member("a"), member("b").namespace("other"), QueueingHint.SKIP),
        (member("a"), pod("b"), QueueingHint.SKIP),
        (pod("a"), pod("b"), QueueingHint.SKIP),
    ],
)
def test_new_member_requeues_its_group(resource: str, waits: PodBuilder, came: PodBuilder, hint: QueueingHint) -> None:
    assert hints(ClusterEvent(resource, Action.ADD, None, came.build()), waits) == [hint]


@pytest.mark.parametrize(
    ("waits", "hint"),
    [(member("a"), QueueingHint.QUEUE), (member("a", "others"), QueueingHint.SKIP), (pod("a"), QueueingHint.SKIP)],
)
def test_new_pod_group_requeues_its_members(waits: PodBuilder, hint: QueueingHint) -> None:
    assert hints(ClusterEvent("PodGroup", Action.ADD, None, policy()), waits) == [hint]
    assert hints(ClusterEvent("PodGroup", Action.ADD, None, {}), waits) == [QueueingHint.SKIP]


@pytest.mark.parametrize(
    ("resource", "action"),
    [(UNSCHEDULABLE_POD, Action.UPDATE_POD_LABEL), (ASSIGNED_POD, Action.DELETE), ("PodGroup", Action.UPDATE_OTHER)],
)
def test_other_events_do_not_requeue_members(resource: str, action: Action) -> None:
    event = ClusterEvent(resource, action, member("b").build(), member("b").build())
    assert not any(interest.covers(event) for interest in GangHandle().plugin.events_to_register())


def hints(event: ClusterEvent, waits: PodBuilder) -> list[QueueingHint]:
    """Return the results of the hints that cover the event."""
    relevant = [i.hint for i in GangHandle().plugin.events_to_register() if i.covers(event) and i.hint is not None]
    return [hint(waits.build(), event) for hint in relevant]
