"""Results and messages of Gang at each extension point."""

from __future__ import annotations

from typing import Any

import pytest

from pyscheduler.api import (
    NODE,
    UNSCHEDULED_POD,
    Action,
    ClusterEvent,
    Cycle,
    Diagnosis,
    NodeTable,
    QueueingHint,
    Rejection,
    Wait,
)
from pyscheduler.core.framework.handle import empty_handle
from pyscheduler.core.framework.waiting_pods import WaitingPodState
from pyscheduler.core.state import ClusterState
from pyscheduler.testing import PodBuilder, node, pod
from pyscheduler_plugins.gang import LONGEST_WAIT, Gang, GangArgs
from pyscheduler_plugins.pod_group import POD_GROUP, POD_GROUP_LABEL


def member(name: str, group: str = "g") -> PodBuilder:
    return pod(name).label(POD_GROUP_LABEL, group).requests(cpu="1")


def pod_group(name: str = "g", **spec: Any) -> dict[str, Any]:
    return {"kind": "PodGroup", "metadata": {"name": name, "namespace": "default"}, "spec": spec}


class GangFixture:
    """Gang plugin with a handle and one node."""

    def __init__(self, *members: PodBuilder, groups: tuple[dict[str, Any], ...] = (), **args: Any) -> None:
        self.handle = empty_handle()
        self.handle.pods.index(Gang.indexes)
        for each in members:
            self.handle.pods.set_pod(None, each.build())
        for group in groups:
            self.handle.objects.set(POD_GROUP, group)
        self.gang = Gang(GangArgs(**args), self.handle)
        self.state = ClusterState()
        self.state.set_node(node("n").build())

    @property
    def nodes(self) -> NodeTable:
        return self.state.table()

    def pre_filter(self, of: PodBuilder, now: float = 0.0) -> object:
        return self.gang.pre_filter(Cycle(now, "default-scheduler", "x"), of.build(), self.nodes)

    def permit(self, of: PodBuilder, now: float = 0.0) -> Wait | Rejection | None:
        """Run Reserve and Permit; add the pod to the waiting pods if Permit returns Wait."""
        cycle, (node_info,) = Cycle(now, "default-scheduler", "x"), self.nodes
        self.gang.reserve(cycle, of.build(), node_info)
        result = self.gang.permit(cycle, of.build(), node_info)
        if isinstance(result, Wait):
            waiting = WaitingPodState(of.build(), "n", 0.0, {"Gang": result.seconds})
            self.handle.waiting_pods.by_uid[of.build().uid] = waiting
        return result

    def handle_unschedulable(self, of: PodBuilder) -> Rejection | None:
        cycle = Cycle(0.0, "default-scheduler", "x")
        assert self.gang.pre_filter(cycle, of.build(), self.nodes) is None
        return self.gang.handle_unschedulable(cycle, of.build(), Diagnosis(1), None)

    @property
    def rejected(self) -> dict[str, str]:
        return {w.pod.name: w.rejection for w in self.handle.waiting_pods.by_uid.values() if w.rejected_by}

    @property
    def allowed(self) -> list[str]:
        return [w.pod.name for w in self.handle.waiting_pods.by_uid.values() if not w.deadlines]


@pytest.mark.parametrize(
    ("members", "groups", "reason"),
    [
        pytest.param([member("a")], (), "pod group default/g does not exist", id="no PodGroup"),
        pytest.param(
            [member("a")], (pod_group("h", minMember=1),), "pod group default/g does not exist", id="another PodGroup"
        ),
        pytest.param(
            [member("a")], (pod_group(),), "pod group default/g has an invalid spec.minMember", id="no minMember"
        ),
        pytest.param(
            [member("a")], (pod_group(minMember="2"),), "pod group default/g has an invalid spec.minMember", id="text"
        ),
        pytest.param(
            [member("a")],
            (pod_group(minMember=True),),
            "pod group default/g has an invalid spec.minMember",
            id="bool",
        ),
        pytest.param(
            [member("a"), member("b", "h")],
            (pod_group(minMember=2),),
            "pod group default/g has fewer than the 2 pods that it needs",
            id="too few pods",
        ),
        pytest.param(
            [member("a"), member("b").deleting(), member("c").phase("Failed")],
            (pod_group(minMember=2),),
            "pod group default/g has fewer than the 2 pods that it needs",
            id="terminating and failed pods do not count",
        ),
        pytest.param(
            [member("a"), member("b").phase("Succeeded")], (pod_group(minMember=2),), None, id="succeeded pods count"
        ),
        pytest.param(
            [member("a"), member("b").gate("x")],
            (pod_group(minMember=2),),
            "pod group default/g has fewer than the 2 pods that it needs",
            id="gated pods do not count",
        ),
        pytest.param([member("a"), member("b")], (pod_group(minMember=2),), None, id="enough pods"),
        pytest.param([member("a"), member("b").on("n")], (pod_group(minMember=2),), None, id="bound pods count"),
    ],
)
def test_pre_filter_rejects_gang_with_too_few_members(
    members: list[PodBuilder], groups: tuple[dict[str, Any], ...], reason: str | None
) -> None:
    expected = Rejection(reason, resolvable=False) if reason else None
    assert GangFixture(*members, groups=groups).pre_filter(members[0]) == expected


def test_pods_without_the_label_are_not_affected() -> None:
    fixture, single = GangFixture(), pod("single")
    assert fixture.pre_filter(single) is None
    assert fixture.permit(single) is None
    assert fixture.handle_unschedulable(single) is None


def test_members_wait_until_min_member_is_reached() -> None:
    a, b, c = (member(name) for name in "abc")
    fixture = GangFixture(a, b, c, groups=(pod_group(minMember=3),))
    message = "pod group default/g waits for more pods: {} of 3 required pods are reserved or running"
    assert fixture.permit(a) == Wait(LONGEST_WAIT, message.format(1), recheck_every=60.0)
    assert fixture.permit(b) == Wait(LONGEST_WAIT, message.format(2), recheck_every=60.0)
    assert fixture.allowed == []
    assert fixture.permit(c) is None
    assert fixture.allowed == ["a", "b"]


@pytest.mark.parametrize(
    ("spec", "args", "seconds"),
    [
        pytest.param({}, {}, 60.0, id="default"),
        pytest.param({}, {"permit_waiting_time_seconds": 5}, 5.0, id="from the args"),
        pytest.param({"scheduleTimeoutSeconds": 7}, {"permit_waiting_time_seconds": 5}, 7.0, id="from the PodGroup"),
        pytest.param({"scheduleTimeoutSeconds": 0}, {}, 60.0, id="zero means unset"),
    ],
)
def test_member_is_rejected_after_the_timeout(spec: dict[str, Any], args: dict[str, Any], seconds: float) -> None:
    fixture = GangFixture(member("a"), member("b"), groups=(pod_group(minMember=2, **spec),), **args)
    result = fixture.permit(member("a"))
    assert isinstance(result, Wait)
    assert result.recheck_every == seconds
    timed_out = fixture.permit(member("a"), now=seconds)
    assert timed_out == Rejection(f"rejected due to timeout after waiting {seconds:g}s at plugin Gang")


def test_bound_members_count_without_state_of_the_plugin() -> None:
    fixture = GangFixture(member("a").on("n"), member("b"), groups=(pod_group(minMember=2),))
    assert fixture.permit(member("b")) is None


def test_only_the_first_waiting_member_activates_the_others() -> None:
    a, b, gated, bound = member("a"), member("b"), member("c").gate("x"), member("d").on("n")
    fixture = GangFixture(a, b, gated, bound, member("e", "h"), groups=(pod_group(minMember=4),))
    fixture.permit(a)
    assert [p.name for p in fixture.handle.activated.take()] == ["b"]
    fixture.permit(b)
    assert fixture.handle.activated.take() == []


def test_waiting_members_are_rejected_when_one_member_is_unschedulable() -> None:
    a, b, c = (member(name) for name in "abc")
    fixture = GangFixture(a, b, c, groups=(pod_group(minMember=3),))
    fixture.permit(a)
    fixture.permit(b)
    assert fixture.handle_unschedulable(c) == Rejection(
        "pod group default/g released the reservations of 2 waiting pods"
    )
    reason = "pod group default/g does not fit as a whole: no place for c"
    assert fixture.rejected == {"a": reason, "b": reason}


def test_one_unschedulable_member_is_tolerated_if_enough_are_left() -> None:
    a, b, c, d = (member(name) for name in "abcd")
    fixture = GangFixture(a, b, c, d, groups=(pod_group(minMember=3),))
    fixture.permit(a)
    fixture.permit(b)
    assert fixture.handle_unschedulable(c) is None
    assert fixture.rejected == {}
    fixture.handle_unschedulable(d)
    assert set(fixture.rejected) == {"a", "b"}


def test_unreserve_of_one_member_rejects_the_waiting_ones() -> None:
    a, b, c = (member(name) for name in "abc")
    fixture = GangFixture(a, b, c, groups=(pod_group(minMember=3),))
    for each in (a, b):
        fixture.permit(each)
    cycle = Cycle(60.0, "default-scheduler", "a")
    del fixture.handle.waiting_pods.by_uid["a"]
    fixture.gang.unreserve(cycle, a.build(), "n")
    assert fixture.rejected == {"b": "pod group default/g is incomplete: a released its reservation"}
    # unreserve of b must not count as another failure; the gang starts again from nothing
    del fixture.handle.waiting_pods.by_uid["b"]
    fixture.gang.unreserve(cycle, b.build(), "n")
    result = fixture.permit(c)
    assert isinstance(result, Wait)
    assert "1 of 3" in result.reason


def test_unreserve_without_a_reservation_does_nothing() -> None:
    fixture = GangFixture(member("a"), groups=(pod_group(minMember=2),))
    fixture.permit(member("a"))
    fixture.gang.unreserve(Cycle(0.0, "default-scheduler", "b"), member("b").build(), "n")
    fixture.gang.unreserve(Cycle(0.0, "default-scheduler", "z"), pod("z").build(), "n")
    assert fixture.rejected == {}


def test_gang_that_did_not_fit_is_rejected_until_capacity_or_time_changes() -> None:
    a, b = member("a"), member("b")
    fixture = GangFixture(a, b, groups=(pod_group(minMember=2),))
    fixture.permit(a)
    fixture.state.place(a.build(), "n")
    fixture.handle_unschedulable(b)
    fixture.state.remove("a")
    rejection = fixture.pre_filter(b, now=1.0)
    assert isinstance(rejection, Rejection)
    assert rejection.message.startswith("pod group default/g does not fit as a whole, no place for b: 0/1 nodes")
    assert fixture.pre_filter(a, now=1.0) == rejection
    assert fixture.pre_filter(b, now=10.0) is None
    fixture.state.set_node(node("m").build())
    assert fixture.pre_filter(b, now=1.0) is None


def added(of: PodBuilder) -> ClusterEvent:
    return ClusterEvent(UNSCHEDULED_POD, Action.ADD, None, of.build())


def group_event(action: Action, name: str) -> ClusterEvent:
    return ClusterEvent("PodGroup", action, None, pod_group(name, minMember=1))


@pytest.mark.parametrize(
    ("event", "requeued"),
    [
        pytest.param(added(member("b")), True, id="member added"),
        pytest.param(added(member("b", "h")), False, id="member of another gang added"),
        pytest.param(added(pod("b")), False, id="pod without gang added"),
        pytest.param(group_event(Action.ADD, "g"), True, id="PodGroup added"),
        pytest.param(group_event(Action.UPDATE_OTHER, "g"), True, id="PodGroup updated"),
        pytest.param(group_event(Action.ADD, "h"), False, id="another PodGroup added"),
        pytest.param(
            ClusterEvent(NODE, Action.ADD, None, node("m").build()),
            False,
            id="node added, member was not rejected",
        ),
    ],
)
def test_queueing_hints_of_cluster_events(event: ClusterEvent, requeued: bool) -> None:
    fixture = GangFixture(member("a"), member("b"), groups=(pod_group(minMember=2),))
    assert is_requeued(fixture.gang, member("a"), event) is requeued


def test_freed_capacity_requeues_only_the_unschedulable_member() -> None:
    a, b = member("a"), member("b")
    fixture = GangFixture(a, b, groups=(pod_group(minMember=2),))
    fixture.permit(a)
    fixture.handle_unschedulable(b)
    new_node = ClusterEvent(NODE, Action.ADD, None, node("m").build())
    freed = [ClusterEvent("AssignedPod", Action.DELETE, of.on("n").build()) for of in (pod("other"), member("c"))]
    assert [is_requeued(fixture.gang, b, event) for event in (new_node, *freed)] == [True, True, False]
    assert not is_requeued(fixture.gang, a, new_node)


def is_requeued(gang: Gang, of: PodBuilder, event: ClusterEvent) -> bool:
    hints = [i.hint for i in gang.events_to_register() if i.covers(event)]
    return any(hint is not None and hint(of.build(), event) is QueueingHint.QUEUE for hint in hints)


def test_state_of_completed_gangs_is_removed() -> None:
    groups = tuple(pod_group(f"g{i}", minMember=1) for i in range(200))
    pods = [member(f"p{i}", f"g{i}") for i in range(200)]
    fixture = GangFixture(*pods, groups=groups)
    for each in pods:
        assert fixture.permit(each) is None
        fixture.handle.pods.set_pod(each.build(), each.on("n").build())
    assert len(fixture.gang._states) <= 64


@pytest.mark.parametrize("seconds", [0, -1])
def test_args_reject_a_timeout_below_one_second(seconds: int) -> None:
    with pytest.raises(
        ValueError, match=rf"^permitWaitingTimeSeconds: Invalid value: {seconds}: must be greater than 0"
    ):
        GangArgs(permit_waiting_time_seconds=seconds)
