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


def add_group(world: Harness, name: str = "team", least: int = 3) -> None:
    spec = {"schedulingPolicy": {"gang": {"minCount": least}}}
    world.add_object(POD_GROUP, {"metadata": {"namespace": "default", "name": name}, "spec": spec})


def room_for_two() -> Harness:
    world = Harness(ON)
    world.add(node("n1", cpu="2"))
    return world


def gathering() -> Harness:
    """Two members hold the only two places, the third has none."""
    world = room_for_two()
    add_group(world)
    world.add(member("a"), member("b"), member("c"))
    world.run()
    return world


def waiting_in(world: Harness) -> set[str]:
    return {waiting.pod.name for waiting in world.handle.waiting_pods()}


def test_with_room_for_two_a_gang_of_three_waits_and_nothing_is_bound() -> None:
    world = gathering()
    world.advance(60)
    assert world.assignments == {}
    waiting = waiting_in(world)
    assert len(waiting) == 2
    (left,) = {"a", "b", "c"} - waiting
    assert world.pending_message(left).startswith("0/1 nodes are available: 1 Insufficient cpu.")
    world.add(pod("other").requests(cpu="1"))
    world.run()
    assert world.assignments == {}, "the members that wait hold their places"


def test_a_third_place_and_all_are_bound() -> None:
    world = gathering()
    world.add(node("n2", cpu="1"))
    world.advance(15)
    assert sorted(world.assignments) == ["a", "b", "c"]
    assert sorted(world.assignments.values()) == ["n1", "n1", "n2"]


@pytest.mark.parametrize("order", list(itertools.permutations(["group", "a", "b", "c"])))
def test_group_and_members_may_come_in_any_order(order: tuple[str, ...]) -> None:
    world = Harness(ON)
    world.add(node("n1", cpu="3"))
    for thing in order:
        assert world.assignments == {}
        if thing == "group":
            add_group(world)
        else:
            world.add(member(thing))
        world.run()
    assert set(world.assignments) == {"a", "b", "c"}


def test_until_they_may_enter_no_attempt_is_made_and_nothing_is_said() -> None:
    world = room_for_two()
    world.add(member("a"), member("b"), member("c"))
    world.run()
    add_group(world, least=4)
    world.run()
    assert world.commands == []


def test_members_that_run_count() -> None:
    world = room_for_two()
    add_group(world)
    world.add(member("a").on("elsewhere"), member("b"), member("c"))
    world.run()
    assert {"b": "n1", "c": "n1"}.items() <= world.assignments.items()


def test_pending_members_of_another_scheduler_do_not_count() -> None:
    world = room_for_two()
    add_group(world)
    world.add(member("a"), member("b"), member("c").scheduler("theirs"))
    world.run()
    assert waiting_in(world) == set()
    world.add(member("c").scheduler("theirs").on("elsewhere"))
    world.run()
    assert {"a", "b"} <= set(world.assignments)


def test_waiting_members_start_when_another_scheduler_binds_the_one_that_was_missing() -> None:
    world = gathering()
    (left,) = {"a", "b", "c"} - waiting_in(world)
    world.add(member(left).on("elsewhere"))
    world.run()
    assert {name for name, at in world.assignments.items() if at == "n1"} == {"a", "b", "c"} - {left}


def test_after_five_minutes_the_places_are_given_back_and_the_gang_gathers_anew() -> None:
    world = gathering()
    first = waiting_in(world)
    world.advance(299)
    assert waiting_in(world) == first
    world.advance(1)
    waited = "rejected due to timeout after waiting 5m0s at plugin GangScheduling"
    for name in first:
        assert ("FailedScheduling", f"0/1 nodes are available: 1 {waited}.") in world.events(name)
    assert len(waiting_in(world)) == 2
    assert world.assignments == {}


def test_a_member_that_goes_makes_room_for_another() -> None:
    world = gathering()
    world.delete_pod(min(waiting_in(world)))
    world.add(member("d"))
    world.advance(15)
    assert world.assignments == {}
    world.add(node("n2", cpu="1"))
    world.advance(15)
    assert len(world.assignments) == 3
    assert "d" in world.assignments


def test_members_beyond_the_quorum_follow_at_once() -> None:
    world = gathering()
    world.add(node("n2", cpu="2"))
    world.advance(15)
    world.add(member("d"))
    world.run()
    assert set(world.assignments) == {"a", "b", "c", "d"}


def test_a_pod_group_that_goes_before_the_attempt_is_an_error_once_and_then_waited_for() -> None:
    world = room_for_two()
    add_group(world, least=2)
    world.add(member("a"), member("b"))
    world.remove_object(POD_GROUP, "team")
    world.advance(30)
    gone = 'failed to get podGroup default/team: podgroup.scheduling.k8s.io "team" not found'
    for name in ("a", "b"):
        assert world.events(name) == [("FailedScheduling", f'running Permit plugin "GangScheduling": {gone}')]
    add_group(world, least=2)
    world.advance(15)
    assert world.assignments == {"a": "n1", "b": "n1"}


def test_without_the_gate_a_pod_with_a_group_is_placed_alone() -> None:
    world = Harness()
    world.add(node("n1", cpu="2"), member("a"))
    world.run()
    assert world.assignments == {"a": "n1"}


@pytest.mark.parametrize(("config", "watched"), [(ON, True), (None, False)])
def test_pod_groups_are_watched_only_with_the_gate(config: LoadedConfig | None, watched: bool) -> None:
    (profile,) = Harness(config).machine.context.profiles.values()
    assert (POD_GROUP in profile.watches) == watched


def end(world: Harness, name: str, phase: str) -> None:
    world.add(member(name).on("n1").phase(phase))


def test_succeeded_members_count_and_the_replacement_of_a_failed_one_is_bound() -> None:
    world = Harness(ON)
    world.add(node("n1", cpu="3"))
    add_group(world)
    world.add(member("a"), member("b"), member("c"))
    world.run()
    end(world, "a", "Succeeded")
    end(world, "b", "Failed")
    world.add(member("d"))
    world.run()
    assert "d" in world.assignments


def test_no_pod_is_evicted_for_a_group_that_cannot_start_even_so() -> None:
    world = room_for_two()
    world.add(pod("low0").requests(cpu="1"), pod("low1").requests(cpu="1"))
    world.run()
    add_group(world)
    world.add(*(member(name).priority(100) for name in "abc"))
    world.run()
    world.advance(600)
    assert world.evicted() == []
    assert len(world.machine.context.queue.nominator) == 0


def test_a_group_that_fits_by_evictions_evicts_and_starts() -> None:
    world = room_for_two()
    world.add(pod("low0").requests(cpu="1"), pod("low1").requests(cpu="1"))
    world.run()
    add_group(world)
    world.add(*(member(name).priority(100) for name in "abc"), node("n2", cpu="1"))
    world.run()
    world.advance(15)
    assert sorted(world.evicted()) == ["low0", "low1"]
    assert {"a", "b", "c"} <= set(world.assignments)


def test_a_pod_group_that_goes_while_members_wait_sends_them_all_back() -> None:
    world = gathering()
    world.remove_object(POD_GROUP, "team")
    world.run()
    assert waiting_in(world) == set()
    world.add(pod("other").requests(cpu="2"))
    world.run()
    assert set(world.assignments) == {"other"}
