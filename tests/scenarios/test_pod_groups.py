"""Stories of pods with spec.schedulingGroup, GangScheduling being on: they start together, or hold back."""

from __future__ import annotations

import itertools

import pytest

from pyscheduler.config.gates import parse
from pyscheduler.config.load import LoadedConfig, default
from pyscheduler.intree.gang_scheduling import POD_GROUP
from pyscheduler.testing import Harness, PodBuilder, node, pod

ON = default(parse(["GenericWorkload=true,GangScheduling=true"]))


def member(name: str, group: str = "team") -> PodBuilder:
    made = pod(name).requests(cpu="1")
    made.manifest["spec"]["schedulingGroup"] = {"podGroupName": group}
    return made


def add_group(harness: Harness, name: str = "team", least: int = 3) -> None:
    spec = {"schedulingPolicy": {"gang": {"minCount": least}}}
    harness.add_object(POD_GROUP, {"metadata": {"namespace": "default", "name": name}, "spec": spec})


def room_for_two() -> Harness:
    harness = Harness(ON)
    harness.add(node("n1", cpu="2"))
    return harness


def gathering() -> Harness:
    """Two members hold the only two places, the third has none."""
    harness = room_for_two()
    add_group(harness)
    harness.add(member("a"), member("b"), member("c"))
    harness.run()
    return harness


def waiting_in(harness: Harness) -> set[str]:
    return {waiting.pod.name for waiting in harness.handle.waiting_pods()}


def test_with_room_for_two_a_gang_of_three_waits_and_nothing_is_bound() -> None:
    harness = gathering()
    harness.advance(60)
    assert harness.assignments == {}
    waiting = waiting_in(harness)
    assert len(waiting) == 2
    (left,) = {"a", "b", "c"} - waiting
    assert harness.pending_message(left).startswith("0/1 nodes are available: 1 Insufficient cpu.")
    harness.add(pod("other").requests(cpu="1"))
    harness.run()
    assert harness.assignments == {}, "the members that wait hold their places"


def test_a_third_place_and_all_are_bound() -> None:
    harness = gathering()
    harness.add(node("n2", cpu="1"))
    harness.advance(15)
    assert sorted(harness.assignments) == ["a", "b", "c"]
    assert sorted(harness.assignments.values()) == ["n1", "n1", "n2"]


@pytest.mark.parametrize("order", list(itertools.permutations(["group", "a", "b", "c"])))
def test_group_and_members_may_come_in_any_order(order: tuple[str, ...]) -> None:
    harness = Harness(ON)
    harness.add(node("n1", cpu="3"))
    for thing in order:
        assert harness.assignments == {}
        if thing == "group":
            add_group(harness)
        else:
            harness.add(member(thing))
        harness.run()
    assert set(harness.assignments) == {"a", "b", "c"}


def test_until_they_may_enter_no_attempt_is_made_and_nothing_is_said() -> None:
    harness = room_for_two()
    harness.add(member("a"), member("b"), member("c"))
    harness.run()
    add_group(harness, least=4)
    harness.run()
    assert harness.commands == []


def test_members_that_run_count() -> None:
    harness = room_for_two()
    add_group(harness)
    harness.add(member("a").on("elsewhere"), member("b"), member("c"))
    harness.run()
    assert {"b": "n1", "c": "n1"}.items() <= harness.assignments.items()


def test_pending_members_of_another_scheduler_do_not_count() -> None:
    harness = room_for_two()
    add_group(harness)
    harness.add(member("a"), member("b"), member("c").scheduler("theirs"))
    harness.run()
    assert waiting_in(harness) == set()
    harness.add(member("c").scheduler("theirs").on("elsewhere"))
    harness.run()
    assert {"a", "b"} <= set(harness.assignments)


def test_waiting_members_start_when_another_scheduler_binds_the_one_that_was_missing() -> None:
    harness = gathering()
    (left,) = {"a", "b", "c"} - waiting_in(harness)
    harness.add(member(left).on("elsewhere"))
    harness.run()
    assert {name for name, at in harness.assignments.items() if at == "n1"} == {"a", "b", "c"} - {left}


def test_after_five_minutes_the_places_are_given_back_and_the_gang_gathers_anew() -> None:
    harness = gathering()
    first = waiting_in(harness)
    harness.advance(299)
    assert waiting_in(harness) == first
    harness.advance(1)
    waited = "rejected due to timeout after waiting 5m0s at plugin GangScheduling"
    for name in first:
        assert ("FailedScheduling", f"0/1 nodes are available: 1 {waited}.") in harness.events(name)
    assert len(waiting_in(harness)) == 2
    assert harness.assignments == {}


def test_a_member_that_goes_makes_room_for_another() -> None:
    harness = gathering()
    harness.delete_pod(min(waiting_in(harness)))
    harness.add(member("d"))
    harness.advance(15)
    assert harness.assignments == {}
    harness.add(node("n2", cpu="1"))
    harness.advance(15)
    assert len(harness.assignments) == 3
    assert "d" in harness.assignments


def test_members_beyond_the_quorum_follow_at_once() -> None:
    harness = gathering()
    harness.add(node("n2", cpu="2"))
    harness.advance(15)
    harness.add(member("d"))
    harness.run()
    assert set(harness.assignments) == {"a", "b", "c", "d"}


def test_a_pod_group_that_goes_before_the_attempt_is_an_error_once_and_then_waited_for() -> None:
    harness = room_for_two()
    add_group(harness, least=2)
    harness.add(member("a"), member("b"))
    harness.remove_object(POD_GROUP, "team")
    harness.advance(30)
    gone = 'failed to get podGroup default/team: podgroup.scheduling.k8s.io "team" not found'
    for name in ("a", "b"):
        assert harness.events(name) == [("FailedScheduling", f'running Permit plugin "GangScheduling": {gone}')]
    add_group(harness, least=2)
    harness.advance(15)
    assert harness.assignments == {"a": "n1", "b": "n1"}


def test_without_the_gate_a_pod_with_a_group_is_placed_alone() -> None:
    harness = Harness()
    harness.add(node("n1", cpu="2"), member("a"))
    harness.run()
    assert harness.assignments == {"a": "n1"}


@pytest.mark.parametrize(("config", "watched"), [(ON, True), (None, False)])
def test_pod_groups_are_watched_only_with_the_gate(config: LoadedConfig | None, watched: bool) -> None:
    (profile,) = Harness(config).machine.context.profiles.values()
    assert (POD_GROUP in profile.watches) == watched


def end(harness: Harness, name: str, phase: str) -> None:
    harness.add(member(name).on("n1").phase(phase))


def test_succeeded_members_count_and_the_replacement_of_a_failed_one_is_bound() -> None:
    harness = Harness(ON)
    harness.add(node("n1", cpu="3"))
    add_group(harness)
    harness.add(member("a"), member("b"), member("c"))
    harness.run()
    end(harness, "a", "Succeeded")
    end(harness, "b", "Failed")
    harness.add(member("d"))
    harness.run()
    assert "d" in harness.assignments


def test_no_pod_is_evicted_for_a_group_that_cannot_start_even_so() -> None:
    harness = room_for_two()
    harness.add(pod("low0").requests(cpu="1"), pod("low1").requests(cpu="1"))
    harness.run()
    add_group(harness)
    harness.add(*(member(name).priority(100) for name in "abc"))
    harness.run()
    harness.advance(600)
    assert harness.evicted() == []
    assert len(harness.machine.context.queue.nominator) == 0


def test_a_group_that_fits_by_evictions_evicts_and_starts() -> None:
    harness = room_for_two()
    harness.add(pod("low0").requests(cpu="1"), pod("low1").requests(cpu="1"))
    harness.run()
    add_group(harness)
    harness.add(*(member(name).priority(100) for name in "abc"), node("n2", cpu="1"))
    harness.run()
    harness.advance(15)
    assert sorted(harness.evicted()) == ["low0", "low1"]
    assert {"a", "b", "c"} <= set(harness.assignments)


def test_a_pod_group_that_goes_while_members_wait_sends_them_all_back() -> None:
    harness = gathering()
    harness.remove_object(POD_GROUP, "team")
    harness.run()
    assert waiting_in(harness) == set()
    harness.add(pod("other").requests(cpu="2"))
    harness.run()
    assert set(harness.assignments) == {"other"}
