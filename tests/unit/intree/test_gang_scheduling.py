"""GangScheduling: gating in PreEnqueue, waiting in Permit, and the events that requeue members."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import pytest
from msgspec.structs import replace

from pyscheduler.api import (
    ASSIGNED_POD,
    UNSCHEDULED_POD,
    Action,
    ClusterEvent,
    DisruptionMode,
    PodGroup,
    PodGroupKey,
    QueueingHint,
    Rejection,
    ResourceKind,
    StatusError,
    TopologyConstraint,
    Wait,
)
from pyscheduler.core.framework.handle import empty_handle
from pyscheduler.core.framework.pod_indexer import PodIndexer
from pyscheduler.core.framework.waiting_pods import WaitingPodState
from pyscheduler.core.state import ClusterState
from pyscheduler.core.state.node import NodeRow
from pyscheduler.intree.gang_scheduling import POD_GROUPS, GangScheduling
from pyscheduler.testing import PodBuilder, pod
from tests.unit.intree.cluster import cycle

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


class GangFixture:
    """The plugin with PodGroups, their members, and the members that are placed and wait in Permit."""

    def __init__(
        self,
        *groups: dict[str, Any],
        members: Iterable[PodBuilder] = (),
        placed: Iterable[str] = (),
        version: ResourceKind = POD_GROUPS[0],
    ) -> None:
        state, by_uid = ClusterState(), {m.build().uid: m.build() for m in members}
        self.handle = replace(empty_handle(), nodes=state, pods=PodIndexer(state, ["default-scheduler"]))
        for group in groups:
            self.handle.objects.set(version, group)
        for each in by_uid.values():
            self.handle.pods.set_pod(None, each)
        for uid in placed:
            state.place(by_uid[uid], "n1")
            waiting = WaitingPodState(by_uid[uid], "n1", 0.0, {"GangScheduling": 300.0})
            self.handle.waiting_pods.by_uid[uid] = waiting
        self.plugin = GangScheduling(GangScheduling.Args(), self.handle)

    def is_decided(self, uid: str) -> bool:
        return self.handle.waiting_pods.by_uid[uid].is_decided


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
    assert GangFixture(*groups, members=known).plugin.pre_enqueue(of.build()) == rejection


def test_permit_waits_for_min_count() -> None:
    fixture = GangFixture(policy(gang={"minCount": 3}), members=THREE, placed=["a", "b"])
    assert fixture.plugin.permit(cycle(), THREE[1].build(), NODE) == Wait(300.0, QUORUM)
    assert not fixture.is_decided("a")


def test_permit_allows_all_waiting_members_at_min_count() -> None:
    fixture = GangFixture(policy(gang={"minCount": 2}), members=THREE, placed=["a", "b"])
    assert fixture.plugin.permit(cycle(), THREE[1].build(), NODE) is None
    assert fixture.is_decided("a")


@pytest.mark.parametrize(
    ("of", "groups"),
    [(pod("alone"), []), (member("a"), [policy(basic={})]), (member("a"), [policy(gang={"minCount": 0})])],
)
def test_permit_passes_pods_without_gang(of: PodBuilder, groups: list[dict[str, Any]]) -> None:
    assert GangFixture(*groups).plugin.permit(cycle(), of.build(), NODE) is None


def test_permit_raises_if_pod_group_is_deleted() -> None:
    message = 'failed to get podGroup default/team: podgroup.scheduling.k8s.io "team" not found'
    with pytest.raises(StatusError) as caught:
        GangFixture(members=THREE, placed=["a"]).plugin.permit(cycle(), THREE[0].build(), NODE)
    assert str(caught.value) == message


@pytest.mark.parametrize("resource", [ASSIGNED_POD, UNSCHEDULED_POD])
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
    [(UNSCHEDULED_POD, Action.UPDATE_POD_LABEL), (ASSIGNED_POD, Action.DELETE)],
)
def test_other_events_do_not_requeue_members(resource: str, action: Action) -> None:
    event = ClusterEvent(resource, action, member("b").build(), member("b").build())
    assert not any(interest.covers(event) for interest in GangFixture().plugin.events_to_register())


@pytest.mark.parametrize("version", POD_GROUPS, ids=lambda kind: kind.version)
def test_pod_groups_are_read_in_every_version(version: ResourceKind) -> None:
    fixture = GangFixture(policy(gang={"minCount": 2}), members=THREE[:1], version=version)
    assert fixture.plugin.pre_enqueue(THREE[0].build()) == Rejection(
        "waiting for minCount pods from a gang to appear in scheduling queue", resolvable=False
    )


def hints(event: ClusterEvent, waits: PodBuilder) -> list[QueueingHint]:
    """Return the results of the hints that cover the event."""
    relevant = [i.hint for i in GangFixture().plugin.events_to_register() if i.covers(event) and i.hint is not None]
    return [hint(waits.build(), event) for hint in relevant]


# -- requirements ------------------------------------------------------------------------------------------------------

KEY = PodGroupKey("default", "team", "scheduling.k8s.io")


def group_with(members: Iterable[PodBuilder] = THREE, version: ResourceKind = POD_GROUPS[0], **spec: Any) -> Any:
    """Return the requirements of a group of three with these fields."""
    whole = policy(gang={"minCount": 3})
    whole["metadata"] |= {"uid": "u1", "creationTimestamp": "2026-01-01T00:00:00Z"}
    fixture = GangFixture(whole | {"spec": whole["spec"] | spec}, members=members, version=version)
    return fixture.plugin.pod_group(KEY, [each.build() for each in members])


def test_requirements_are_those_of_the_pod_group() -> None:
    topology = {"topology": [{"key": "rack"}]}
    assert group_with(schedulingConstraints=topology, disruptionMode={"all": {}}) == PodGroup(
        KEY,
        3,
        priority=0,
        disruption_mode=DisruptionMode.ALL,
        topology=(TopologyConstraint("rack"),),
        created="2026-01-01T00:00:00Z",
        uid="u1",
        kind=POD_GROUPS[0],
        condition_type="PodGroupInitiallyScheduled",
        has_kubernetes_messages=True,
    )


@pytest.mark.parametrize(
    ("spec", "field", "value"),
    [
        ({}, "disruption_mode", DisruptionMode.POD),
        ({"disruptionMode": {"single": {}}}, "disruption_mode", DisruptionMode.POD),
        ({"disruptionMode": "PodGroup"}, "disruption_mode", DisruptionMode.ALL),
        ({"disruptionMode": "Pod"}, "disruption_mode", DisruptionMode.POD),
        ({"schedulingPolicy": {"basic": {}}}, "min_count", 1),
        ({}, "may_preempt", True),
    ],
)
def test_field_of_the_pod_group(spec: dict[str, Any], field: str, value: object) -> None:
    assert getattr(group_with(**spec), field) == value


def test_condition_of_the_old_version_has_its_old_type() -> None:
    assert group_with(version=POD_GROUPS[2]).condition_type == "PodGroupScheduled"


SAME = "all pods in a single pod group should have the same"


@pytest.mark.parametrize(
    ("members", "text"),
    [
        (
            [member("a"), member("b").scheduler("b")],
            f'{SAME} .spec.schedulerName set, got: "b" and "default-scheduler"',
        ),
        ([member("a").priority(7)], f"{SAME} priority as the pod group's priority, got 7 and 0"),
        (
            [member("a"), member("b").spec(preemptionPolicy="Never")],
            f"{SAME} preemption policy, got Never and PreemptLowerPriority",
        ),
    ],
    ids=["scheduler", "priority", "preemption policy"],
)
def test_group_of_different_pods_has_the_error_of_kube_scheduler(members: list[PodBuilder], text: str) -> None:
    assert group_with(members).error == text


@pytest.mark.parametrize(
    ("spec", "text"),
    [
        ({"priority": "high"}, "spec.priority: Invalid value: high"),
        ({"schedulingConstraints": {"topology": 3}}, "spec.schedulingConstraints.topology: Invalid value: 3"),
        ({"schedulingConstraints": {"topology": [{}]}}, "spec.schedulingConstraints.topology: Invalid value: [{}]"),
        (
            {"schedulingConstraints": {"topology": ["rack"]}},
            "spec.schedulingConstraints.topology: Invalid value: ['rack']",
        ),
    ],
)
def test_field_that_only_a_custom_resource_may_have_is_named(spec: dict[str, Any], text: str) -> None:
    assert group_with(**spec) == unresolvable(f"PodGroup default/team: {text}")


@pytest.mark.parametrize("spec", [None, {}, {"schedulingPolicy": 3}, {"schedulingPolicy": {"gang": {"minCount": "3"}}}])
def test_group_without_a_valid_policy_needs_one_pod(spec: object) -> None:
    broken = {"metadata": {"namespace": "default", "name": "team"}, "spec": spec}
    found = GangFixture(broken, members=THREE).plugin.pod_group(KEY, [THREE[0].build()])
    assert isinstance(found, PodGroup)
    assert found.min_count == 1


def test_members_of_a_missing_group_wait() -> None:
    assert GangFixture().plugin.pod_group(KEY, [THREE[0].build()]) == unresolvable(NO_GROUP)


def test_group_is_read_again_if_its_spec_changes_only() -> None:
    changed = GangFixture().plugin.changed_groups
    old = policy(gang={"minCount": 3})
    status = old | {"status": {"conditions": []}}
    assert list(changed(ClusterEvent("PodGroup", Action.UPDATE, old, status))) == []
    assert list(changed(ClusterEvent("PodGroup", Action.UPDATE, old, policy(gang={"minCount": 2})))) == [KEY]
    assert list(changed(ClusterEvent("PodGroup", Action.DELETE, old, None))) == [KEY]
