"""Pods with spec.schedulingGroup and the gate GangScheduling: all members are bound, or none."""

from __future__ import annotations

import itertools

import pytest

from pyscheduler.config.gates import parse
from pyscheduler.config.load import LoadedConfig, default
from pyscheduler.intree.gang_scheduling import POD_GROUPS
from pyscheduler.testing import Harness, PodBuilder, node, pod

ON = default(parse(["GenericWorkload=true"]))


def member(name: str, group: str = "team") -> PodBuilder:
    builder = pod(name).requests(cpu="1")
    builder.manifest["spec"]["schedulingGroup"] = {"podGroupName": group}
    return builder


def add_group(harness: Harness, name: str = "team", min_count: int = 3) -> None:
    spec = {"schedulingPolicy": {"gang": {"minCount": min_count}}}
    harness.add_object(POD_GROUPS[0], {"metadata": {"namespace": "default", "name": name}, "spec": spec})


def room_for_two() -> Harness:
    harness = Harness(ON)
    harness.add(node("n1", cpu="2"))
    return harness


def incomplete_gang() -> Harness:
    """Return a cluster in which two members of a gang wait in Permit, and the third fits no node."""
    harness = room_for_two()
    add_group(harness)
    harness.add(member("a"), member("b"), member("c"))
    harness.run()
    return harness


def waiting_in(harness: Harness) -> set[str]:
    return {waiting.pod.name for waiting in harness.handle.waiting_pods}


def test_no_member_is_bound_while_one_of_three_fits_no_node() -> None:
    harness = incomplete_gang()
    harness.advance(60)
    assert harness.assignments == {}
    waiting = waiting_in(harness)
    assert len(waiting) == 2
    (left,) = {"a", "b", "c"} - waiting
    assert harness.pending_message(left).startswith("0/1 nodes are available: 1 Insufficient cpu.")
    harness.add(pod("other").requests(cpu="1"))
    harness.run()
    assert harness.assignments == {}, "waiting members are counted on their nodes"


def test_all_members_are_bound_once_the_last_one_fits() -> None:
    harness = incomplete_gang()
    harness.add(node("n2", cpu="1"))
    harness.advance(15)
    assert sorted(harness.assignments) == ["a", "b", "c"]
    assert sorted(harness.assignments.values()) == ["n1", "n1", "n2"]


@pytest.mark.parametrize("order", list(itertools.permutations(["group", "a", "b", "c"])))
def test_group_and_members_may_be_created_in_any_order(order: tuple[str, ...]) -> None:
    harness = Harness(ON)
    harness.add(node("n1", cpu="3"))
    for name in order:
        assert harness.assignments == {}
        if name == "group":
            add_group(harness)
        else:
            harness.add(member(name))
        harness.run()
    assert set(harness.assignments) == {"a", "b", "c"}


def test_gated_members_cause_no_attempts_and_no_commands() -> None:
    harness = room_for_two()
    harness.add(member("a"), member("b"), member("c"))
    harness.run()
    add_group(harness, min_count=4)
    harness.run()
    assert harness.commands == []


def test_bound_members_count() -> None:
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


def test_waiting_members_are_bound_when_another_scheduler_binds_the_missing_one() -> None:
    harness = incomplete_gang()
    (left,) = {"a", "b", "c"} - waiting_in(harness)
    harness.add(member(left).on("elsewhere"))
    harness.run()
    assert {name for name, at in harness.assignments.items() if at == "n1"} == {"a", "b", "c"} - {left}


def test_waiting_members_are_rejected_after_five_minutes_and_wait_again() -> None:
    harness = incomplete_gang()
    first = waiting_in(harness)
    harness.advance(299)
    assert waiting_in(harness) == first
    harness.advance(1)
    waited = "rejected due to timeout after waiting 5m0s at plugin GangScheduling"
    for name in first:
        assert ("FailedScheduling", f"0/1 nodes are available: 1 {waited}.") in harness.events(name)
    assert len(waiting_in(harness)) == 2
    assert harness.assignments == {}


def test_new_member_replaces_a_deleted_one() -> None:
    harness = incomplete_gang()
    harness.delete_pod(min(waiting_in(harness)))
    harness.add(member("d"))
    harness.advance(15)
    assert harness.assignments == {}
    harness.add(node("n2", cpu="1"))
    harness.advance(15)
    assert len(harness.assignments) == 3
    assert "d" in harness.assignments


def test_members_beyond_min_count_are_bound_at_once() -> None:
    harness = incomplete_gang()
    harness.add(node("n2", cpu="2"))
    harness.advance(15)
    harness.add(member("d"))
    harness.run()
    assert set(harness.assignments) == {"a", "b", "c", "d"}


def test_members_of_a_deleted_group_fail_once_and_are_gated_until_it_is_created_again() -> None:
    harness = room_for_two()
    add_group(harness, min_count=2)
    harness.add(member("a"), member("b"))
    harness.remove_object(POD_GROUPS[0], "team")
    harness.advance(30)
    not_found = 'failed to get podGroup default/team: podgroup.scheduling.k8s.io "team" not found'
    for name in ("a", "b"):
        assert harness.events(name) == [("FailedScheduling", f'running Permit plugin "GangScheduling": {not_found}')]
    add_group(harness, min_count=2)
    harness.advance(15)
    assert harness.assignments == {"a": "n1", "b": "n1"}


def test_pod_with_a_group_is_scheduled_alone_without_the_gate() -> None:
    harness = Harness()
    harness.add(node("n1", cpu="2"), member("a"))
    harness.run()
    assert harness.assignments == {"a": "n1"}


@pytest.mark.parametrize(("config", "watched"), [(ON, True), (None, False)])
def test_pod_groups_are_watched_only_with_the_gate(config: LoadedConfig | None, watched: bool) -> None:
    (profile,) = Harness(config).machine.context.profiles.values()
    assert (POD_GROUPS[0] in profile.watches) == watched


def end(harness: Harness, name: str, phase: str) -> None:
    harness.add(member(name).on("n1").phase(phase))


def test_succeeded_members_count_and_failed_ones_do_not() -> None:
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


def test_no_pod_is_evicted_for_a_group_that_would_still_not_fit() -> None:
    harness = room_for_two()
    harness.add(pod("low0").requests(cpu="1"), pod("low1").requests(cpu="1"))
    harness.run()
    add_group(harness)
    harness.add(*(member(name).priority(100) for name in "abc"))
    harness.run()
    harness.advance(600)
    assert harness.evicted() == []
    assert len(harness.machine.context.queue.nominator) == 0


def test_group_preempts_pods_if_all_members_fit_afterwards() -> None:
    harness = room_for_two()
    harness.add(pod("low0").requests(cpu="1"), pod("low1").requests(cpu="1"))
    harness.run()
    add_group(harness)
    harness.add(*(member(name).priority(100) for name in "abc"), node("n2", cpu="1"))
    harness.run()
    harness.advance(15)
    assert sorted(harness.evicted()) == ["low0", "low1"]
    assert {"a", "b", "c"} <= set(harness.assignments)


def test_waiting_members_are_rejected_when_their_group_is_deleted() -> None:
    harness = incomplete_gang()
    harness.remove_object(POD_GROUPS[0], "team")
    harness.run()
    assert waiting_in(harness) == set()
    harness.add(pod("other").requests(cpu="2"))
    harness.run()
    assert set(harness.assignments) == {"other"}
