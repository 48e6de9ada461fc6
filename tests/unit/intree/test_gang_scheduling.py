"""GangScheduling: who may enter the queue, who waits in Permit, whom the last one lets go, and what wakes them."""

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
    """A PodGroup named team with this scheduling policy."""
    return {"metadata": {"namespace": "default", "name": "team"}, "spec": {"schedulingPolicy": policy}}


class Books(NoHandle):
    """What the plugin finds: PodGroups, their members, who has a place and who waits."""

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
    ("of", "groups", "known", "says"),
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
def test_a_member_may_enter_once_its_group_and_enough_members_are_there(
    of: PodBuilder, groups: list[dict[str, Any]], known: list[PodBuilder], says: Rejection | None
) -> None:
    assert Books(*groups, members=known).plugin.pre_enqueue(of.build()) == says


def test_a_member_waits_for_the_quorum_and_calls_those_without_a_place() -> None:
    books = Books(policy(gang={"minCount": 3}), members=THREE, placed=["a", "b"])
    assert books.plugin.permit(cycle(), THREE[1].build(), NODE) == Wait(300.0, QUORUM)
    assert books.activated == ["c"]
    assert not books.waiting["a"].is_decided


def test_the_member_that_makes_the_quorum_lets_all_go() -> None:
    books = Books(policy(gang={"minCount": 2}), members=THREE, placed=["a", "b"])
    assert books.plugin.permit(cycle(), THREE[1].build(), NODE) is None
    assert books.waiting["a"].is_decided
    assert books.activated == []


@pytest.mark.parametrize(
    ("of", "groups"),
    [(pod("alone"), []), (member("a"), [policy(basic={})]), (member("a"), [policy(gang={"minCount": 0})])],
)
def test_others_do_not_wait(of: PodBuilder, groups: list[dict[str, Any]]) -> None:
    books = Books(*groups)
    assert books.plugin.permit(cycle(), of.build(), NODE) is None
    assert books.activated == []


def test_a_group_that_went_meanwhile_is_an_error() -> None:
    said = 'failed to get podGroup default/team: podgroup.scheduling.k8s.io "team" not found'
    with pytest.raises(StatusError) as caught:
        Books(members=THREE, placed=["a"]).plugin.permit(cycle(), THREE[0].build(), NODE)
    assert str(caught.value) == said


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
def test_a_new_member_wakes_its_own_group(
    resource: str, waits: PodBuilder, came: PodBuilder, hint: QueueingHint
) -> None:
    assert hints(ClusterEvent(resource, Action.ADD, None, came.build()), waits) == [hint]


@pytest.mark.parametrize(
    ("waits", "hint"),
    [(member("a"), QueueingHint.QUEUE), (member("a", "others"), QueueingHint.SKIP), (pod("a"), QueueingHint.SKIP)],
)
def test_a_new_pod_group_wakes_its_members(waits: PodBuilder, hint: QueueingHint) -> None:
    assert hints(ClusterEvent("PodGroup", Action.ADD, None, policy()), waits) == [hint]
    assert hints(ClusterEvent("PodGroup", Action.ADD, None, {}), waits) == [QueueingHint.SKIP]


@pytest.mark.parametrize(
    ("resource", "action"),
    [(UNSCHEDULABLE_POD, Action.UPDATE_POD_LABEL), (ASSIGNED_POD, Action.DELETE), ("PodGroup", Action.UPDATE_OTHER)],
)
def test_nothing_else_wakes_them(resource: str, action: Action) -> None:
    event = ClusterEvent(resource, action, member("b").build(), member("b").build())
    assert not any(interest.covers(event) for interest in Books().plugin.events_to_register())


def hints(event: ClusterEvent, waits: PodBuilder) -> list[QueueingHint]:
    """What the plugin's hints say of an event, as far as they are about such events."""
    asked = [i.hint for i in Books().plugin.events_to_register() if i.covers(event) and i.hint is not None]
    return [hint(waits.build(), event) for hint in asked]
