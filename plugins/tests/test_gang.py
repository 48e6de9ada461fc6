"""Gang at each of its extension points: what it answers, and how it says it."""

from __future__ import annotations

from typing import Any

import pytest

from pyscheduler.api import (
    NODE,
    UNSCHEDULABLE_POD,
    Action,
    ClusterEvent,
    Cycle,
    Diagnosis,
    NodeTable,
    QueueingHint,
    Rejection,
    Wait,
)
from pyscheduler.core.framework.handle import CoreHandle, WaitingPodState
from pyscheduler.core.state import ClusterState
from pyscheduler.testing import PodBuilder, node, pod
from pyscheduler_plugins.gang import LONGEST_WAIT, Gang, GangArgs
from pyscheduler_plugins.pod_group import POD_GROUP, POD_GROUP_LABEL


def member(name: str, group: str = "g") -> PodBuilder:
    return pod(name).label(POD_GROUP_LABEL, group).requests(cpu="1")


def pod_group(name: str = "g", **spec: Any) -> dict[str, Any]:
    return {"kind": "PodGroup", "metadata": {"name": name, "namespace": "default"}, "spec": spec}


class GangFixture:
    """A Gang plugin, what it can see, and a node to put pods on."""

    def __init__(self, *members: PodBuilder, groups: tuple[dict[str, Any], ...] = (), **args: Any) -> None:
        self.handle = CoreHandle()
        self.handle.index(Gang.indexes)
        for each in members:
            self.handle.set_pod(None, each.build())
        for group in groups:
            self.handle.set_object(POD_GROUP, group)
        self.gang = Gang(GangArgs(**args), self.handle)
        self.state = ClusterState()
        self.state.set_node(node("n").build())

    @property
    def nodes(self) -> NodeTable:
        return self.state.table()

    def pre_filter(self, of: PodBuilder, now: float = 0.0) -> object:
        return self.gang.pre_filter(Cycle(now, "default-scheduler", "x"), of.build(), self.nodes)

    def permit(self, of: PodBuilder, now: float = 0.0) -> Wait | Rejection | None:
        """Reserve and Permit, and the waiting room if the answer is to wait."""
        cycle, (here,) = Cycle(now, "default-scheduler", "x"), self.nodes
        self.gang.reserve(cycle, of.build(), here)
        answer = self.gang.permit(cycle, of.build(), here)
        if isinstance(answer, Wait):
            waiting = WaitingPodState(of.build(), "n", 0.0, {"Gang": answer.seconds})
            self.handle.waiting[of.build().uid] = waiting
        return answer

    def fails_to_fit(self, of: PodBuilder) -> Rejection | None:
        cycle = Cycle(0.0, "default-scheduler", "x")
        assert self.gang.pre_filter(cycle, of.build(), self.nodes) is None
        return self.gang.handle_unschedulable(cycle, of.build(), Diagnosis(1), None)

    @property
    def rejected(self) -> dict[str, str]:
        return {w.pod.name: w.rejection for w in self.handle.waiting.values() if w.rejected_by}

    @property
    def allowed(self) -> list[str]:
        return [w.pod.name for w in self.handle.waiting.values() if not w.deadlines]


@pytest.mark.parametrize(
    ("members", "groups", "reason"),
    [
        pytest.param([member("a")], (), "pod group default/g does not exist", id="no PodGroup"),
        pytest.param(
            [member("a")], (pod_group("h", minMember=1),), "pod group default/g does not exist", id="another PodGroup"
        ),
        pytest.param(
            [member("a")], (pod_group(),), "pod group default/g has no usable spec.minMember", id="no minMember"
        ),
        pytest.param(
            [member("a")], (pod_group(minMember="2"),), "pod group default/g has no usable spec.minMember", id="a text"
        ),
        pytest.param(
            [member("a")], (pod_group(minMember=True),), "pod group default/g has no usable spec.minMember", id="a bool"
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
            id="pods that are ending or have failed do not count",
        ),
        pytest.param(
            [member("a"), member("b").phase("Succeeded")], (pod_group(minMember=2),), None, id="succeeded ones count"
        ),
        pytest.param(
            [member("a"), member("b").gate("x")],
            (pod_group(minMember=2),),
            "pod group default/g has fewer than the 2 pods that it needs",
            id="nor do gated ones",
        ),
        pytest.param([member("a"), member("b")], (pod_group(minMember=2),), None, id="enough pods"),
        pytest.param([member("a"), member("b").on("n")], (pod_group(minMember=2),), None, id="bound ones count"),
    ],
)
def test_a_gang_that_cannot_be_whole_is_not_tried(
    members: list[PodBuilder], groups: tuple[dict[str, Any], ...], reason: str | None
) -> None:
    expected = Rejection(reason, resolvable=False) if reason else None
    assert GangFixture(*members, groups=groups).pre_filter(members[0]) == expected


def test_pods_without_the_label_are_left_alone() -> None:
    world, alone = GangFixture(), pod("alone")
    assert world.pre_filter(alone) is None
    assert world.permit(alone) is None
    assert world.fails_to_fit(alone) is None


def test_members_wait_until_the_last_one_has_a_place() -> None:
    a, b, c = (member(name) for name in "abc")
    world = GangFixture(a, b, c, groups=(pod_group(minMember=3),))
    gathering = "pod group default/g is gathering: {} of the 3 pods that it needs have a place"
    assert world.permit(a) == Wait(LONGEST_WAIT, gathering.format(1), recheck_every=60.0)
    assert world.permit(b) == Wait(LONGEST_WAIT, gathering.format(2), recheck_every=60.0)
    assert world.allowed == []
    assert world.permit(c) is None
    assert world.allowed == ["a", "b"]


@pytest.mark.parametrize(
    ("spec", "args", "seconds"),
    [
        pytest.param({}, {}, 60.0, id="by default"),
        pytest.param({}, {"permit_waiting_time_seconds": 5}, 5.0, id="by the args"),
        pytest.param({"scheduleTimeoutSeconds": 7}, {"permit_waiting_time_seconds": 5}, 7.0, id="by the PodGroup"),
        pytest.param({"scheduleTimeoutSeconds": 0}, {}, 60.0, id="zero means unset"),
    ],
)
def test_how_long_members_wait(spec: dict[str, Any], args: dict[str, Any], seconds: float) -> None:
    world = GangFixture(member("a"), member("b"), groups=(pod_group(minMember=2, **spec),), **args)
    answer = world.permit(member("a"))
    assert isinstance(answer, Wait)
    assert answer.recheck_every == seconds
    at_last = world.permit(member("a"), now=seconds)
    assert at_last == Rejection(f"rejected due to timeout after waiting {seconds:g}s at plugin Gang")


def test_members_that_run_already_count_after_a_restart() -> None:
    world = GangFixture(member("a").on("n"), member("b"), groups=(pod_group(minMember=2),))
    assert world.permit(member("b")) is None


def test_only_the_first_waiter_calls_its_siblings() -> None:
    a, b, gated, bound = member("a"), member("b"), member("c").gate("x"), member("d").on("n")
    world = GangFixture(a, b, gated, bound, member("e", "h"), groups=(pod_group(minMember=4),))
    world.permit(a)
    assert [p.name for p in world.handle.take_activated()] == ["b"]
    world.permit(b)
    assert world.handle.take_activated() == []


def test_a_member_without_a_place_sends_the_waiting_ones_back() -> None:
    a, b, c = (member(name) for name in "abc")
    world = GangFixture(a, b, c, groups=(pod_group(minMember=3),))
    world.permit(a)
    world.permit(b)
    assert world.fails_to_fit(c) == Rejection("pod group default/g gave back the places of 2 waiting pods")
    why = "pod group default/g does not fit whole: no place for c"
    assert world.rejected == {"a": why, "b": why}


def test_with_members_to_spare_one_failure_is_not_the_end() -> None:
    a, b, c, d = (member(name) for name in "abcd")
    world = GangFixture(a, b, c, d, groups=(pod_group(minMember=3),))
    world.permit(a)
    world.permit(b)
    assert world.fails_to_fit(c) is None
    assert world.rejected == {}
    world.fails_to_fit(d)
    assert set(world.rejected) == {"a", "b"}


def test_one_that_gives_its_place_back_takes_the_others_with_it() -> None:
    a, b, c = (member(name) for name in "abc")
    world = GangFixture(a, b, c, groups=(pod_group(minMember=3),))
    for each in (a, b):
        world.permit(each)
    cycle = Cycle(60.0, "default-scheduler", "a")
    del world.handle.waiting["a"]
    world.gang.unreserve(cycle, a.build(), "n")
    assert world.rejected == {"b": "pod group default/g is not whole: a gave back its place"}
    # b's own turn must not count as another failure, and the gang starts from nothing
    del world.handle.waiting["b"]
    world.gang.unreserve(cycle, b.build(), "n")
    answer = world.permit(c)
    assert isinstance(answer, Wait)
    assert "1 of the 3" in answer.reason


def test_unreserve_without_a_reservation_does_nothing() -> None:
    world = GangFixture(member("a"), groups=(pod_group(minMember=2),))
    world.permit(member("a"))
    world.gang.unreserve(Cycle(0.0, "default-scheduler", "b"), member("b").build(), "n")
    world.gang.unreserve(Cycle(0.0, "default-scheduler", "z"), pod("z").build(), "n")
    assert world.rejected == {}


def test_a_gang_that_did_not_fit_rests_until_something_changes() -> None:
    a, b = member("a"), member("b")
    world = GangFixture(a, b, groups=(pod_group(minMember=2),))
    world.permit(a)
    world.state.place(a.build(), "n")
    world.fails_to_fit(b)
    world.state.remove("a")
    resting = world.pre_filter(b, now=1.0)
    assert isinstance(resting, Rejection)
    assert resting.message.startswith("pod group default/g does not fit whole, no place for b: 0/1 nodes")
    assert world.pre_filter(a, now=1.0) == resting
    assert world.pre_filter(b, now=10.0) is None
    world.state.set_node(node("m").build())
    assert world.pre_filter(b, now=1.0) is None


def added(of: PodBuilder) -> ClusterEvent:
    return ClusterEvent(UNSCHEDULABLE_POD, Action.ADD, None, of.build())


def group_event(action: Action, name: str) -> ClusterEvent:
    return ClusterEvent("PodGroup", action, None, pod_group(name, minMember=1))


@pytest.mark.parametrize(
    ("event", "woken"),
    [
        pytest.param(added(member("b")), True, id="a member comes"),
        pytest.param(added(member("b", "h")), False, id="another gang's member comes"),
        pytest.param(added(pod("b")), False, id="a pod of no gang comes"),
        pytest.param(group_event(Action.ADD, "g"), True, id="its PodGroup comes"),
        pytest.param(group_event(Action.UPDATE_OTHER, "g"), True, id="its PodGroup changes"),
        pytest.param(group_event(Action.ADD, "h"), False, id="another PodGroup comes"),
        pytest.param(ClusterEvent(NODE, Action.ADD, None, node("m").build()), False, id="a node, but it had a place"),
    ],
)
def test_what_wakes_a_member(event: ClusterEvent, woken: bool) -> None:
    world = GangFixture(member("a"), member("b"), groups=(pod_group(minMember=2),))
    assert wakes(world.gang, member("a"), event) is woken


def test_room_wakes_the_member_that_had_none() -> None:
    a, b = member("a"), member("b")
    world = GangFixture(a, b, groups=(pod_group(minMember=2),))
    world.permit(a)
    world.fails_to_fit(b)
    new_node = ClusterEvent(NODE, Action.ADD, None, node("m").build())
    freed = [ClusterEvent("AssignedPod", Action.DELETE, of.on("n").build()) for of in (pod("other"), member("c"))]
    assert [wakes(world.gang, b, event) for event in (new_node, *freed)] == [True, True, False]
    assert not wakes(world.gang, a, new_node)


def wakes(gang: Gang, of: PodBuilder, event: ClusterEvent) -> bool:
    hints = [i.hint for i in gang.events_to_register() if i.covers(event)]
    return any(hint is not None and hint(of.build(), event) is QueueingHint.QUEUE for hint in hints)


def test_books_of_gangs_that_are_done_are_closed() -> None:
    groups = tuple(pod_group(f"g{i}", minMember=1) for i in range(200))
    pods = [member(f"p{i}", f"g{i}") for i in range(200)]
    world = GangFixture(*pods, groups=groups)
    for each in pods:
        assert world.permit(each) is None
        world.handle.set_pod(each.build(), each.on("n").build())
    assert len(world.gang._states) <= 64


@pytest.mark.parametrize("seconds", [0, -1])
def test_a_wait_of_no_time_is_refused(seconds: int) -> None:
    with pytest.raises(
        ValueError, match=rf"^permitWaitingTimeSeconds: Invalid value: {seconds}: must be greater than 0"
    ):
        GangArgs(permit_waiting_time_seconds=seconds)
