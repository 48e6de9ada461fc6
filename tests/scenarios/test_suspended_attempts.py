"""Attempts that run in steps: preemption among many nodes, with events between its steps."""

from __future__ import annotations

from pyscheduler.core.commands import Command
from pyscheduler.testing import Harness, node, pod

NODES = 40
IDLE = 60
"""Pods without requests on each node: too many together for one step."""


def full_cluster() -> Harness:
    """Return a cluster with low-priority pods on each node and a pending pod `high` that can preempt one of them."""
    harness = Harness()
    for i in range(NODES):
        harness.add(node(f"n{i}", cpu="1"), pod(f"low{i}").requests(cpu="1").on(f"n{i}"))
        harness.add(*(pod(f"idle{i}-{j}").on(f"n{i}") for j in range(IDLE)))
    harness.add(pod("high").requests(cpu="1").priority(100))
    return harness


def first_step(harness: Harness) -> None:
    assert harness.machine.cycle(harness.now) == []
    assert harness.machine.is_attempt_paused


def finish(harness: Harness) -> list[Command]:
    commands: list[Command] = []
    while (more := harness.machine.cycle(harness.now)) is not None:
        commands += more
    harness._execute(commands)
    return commands


def test_no_other_attempt_runs_during_a_preemption_that_takes_several_calls() -> None:
    harness = full_cluster()
    harness.add(pod("other").requests(cpu="1").priority(50))
    first_step(harness)
    steps = 1
    while harness.machine.is_attempt_paused:
        assert not harness.bound_order
        harness._execute(harness.machine.cycle(harness.now) or [])
        steps += 1
    assert steps > 2
    assert len(harness.evicted()) == 1
    harness.advance(5)
    assert harness.assignments.keys() >= {"high", "other"}


def test_attempt_starts_over_after_an_event_between_two_steps() -> None:
    harness = full_cluster()
    first_step(harness)
    harness.add(node("empty", cpu="1"))
    assert not harness.machine.is_attempt_paused
    finish(harness)
    assert harness.evicted() == []
    assert harness.assignments["high"] == "empty"


def test_attempt_ends_when_its_pod_is_deleted_between_two_steps() -> None:
    harness = full_cluster()
    first_step(harness)
    harness.delete_pod("high")
    assert finish(harness) == []
    harness.run()
    assert harness.evicted() == []
    assert harness.machine.context.queue.in_flight_count == 0


def test_attempt_ends_when_another_scheduler_binds_its_pod_between_two_steps() -> None:
    harness = full_cluster()
    first_step(harness)
    harness.add(pod("high").requests(cpu="1").priority(100).on("n7"))
    finish(harness)
    harness.run()
    assert harness.evicted() == []
    assert harness.machine.context.queue.in_flight_count == 0


def test_attempt_ends_when_its_profile_is_removed_between_two_steps() -> None:
    harness = full_cluster()
    first_step(harness)
    harness.reconfigure(
        "{apiVersion: kubescheduler.config.k8s.io/v1, kind: KubeSchedulerConfiguration, "
        "profiles: [{schedulerName: another}]}"
    )
    finish(harness)
    harness.run()
    assert (harness.evicted(), harness.machine.context.queue.in_flight_count) == ([], 0)
