"""Stories of attempts that are made in steps: preemption among many nodes, with events between its steps."""

from __future__ import annotations

from pyscheduler.core.commands import Command
from pyscheduler.testing import Harness, node, pod

NODES = 300


def full_cluster() -> Harness:
    """Each node has one pod of a low priority; `high` takes the place of one of them."""
    harness = Harness()
    for i in range(NODES):
        harness.add(node(f"n{i}", cpu="1"), pod(f"low{i}").requests(cpu="1").on(f"n{i}"))
    harness.add(pod("high").requests(cpu="1").priority(100))
    return harness


def first_step(harness: Harness) -> None:
    assert harness.machine.cycle(harness.now) == []
    assert harness.machine.attempting


def rest(harness: Harness) -> list[Command]:
    commands: list[Command] = []
    while (more := harness.machine.cycle(harness.now)) is not None:
        commands += more
    harness._execute(commands)
    return commands


def test_preemption_among_many_nodes_takes_several_calls_and_no_other_attempt_is_made_meanwhile() -> None:
    harness = full_cluster()
    harness.add(pod("other").requests(cpu="1").priority(50))
    first_step(harness)
    steps = 1
    while harness.machine.attempting:
        assert not harness.bound_order
        harness._execute(harness.machine.cycle(harness.now) or [])
        steps += 1
    assert steps > 2
    assert len(harness.evicted()) == 1
    harness.advance(5)
    assert harness.assignments.keys() >= {"high", "other"}


def test_an_event_between_two_steps_voids_the_attempt_and_it_is_made_anew() -> None:
    harness = full_cluster()
    first_step(harness)
    harness.add(node("empty", cpu="1"))
    assert not harness.machine.attempting
    rest(harness)
    assert harness.evicted() == []
    assert harness.assignments["high"] == "empty"


def test_a_pod_deleted_between_two_steps_is_forgotten() -> None:
    harness = full_cluster()
    first_step(harness)
    harness.delete_pod("high")
    assert rest(harness) == []
    harness.run()
    assert harness.evicted() == []
    assert harness.machine.context.queue.attempted == 0


def test_a_pod_bound_elsewhere_between_two_steps_is_not_tried_again() -> None:
    harness = full_cluster()
    first_step(harness)
    harness.add(pod("high").requests(cpu="1").priority(100).on("n7"))
    rest(harness)
    harness.run()
    assert harness.evicted() == []
    assert harness.machine.context.queue.attempted == 0


def test_a_pod_of_a_profile_that_goes_between_two_steps_is_let_go() -> None:
    harness = full_cluster()
    first_step(harness)
    harness.reconfigure(
        "{apiVersion: kubescheduler.config.k8s.io/v1, kind: KubeSchedulerConfiguration, "
        "profiles: [{schedulerName: another}]}"
    )
    rest(harness)
    harness.run()
    assert (harness.evicted(), harness.machine.context.queue.attempted) == ([], 0)
