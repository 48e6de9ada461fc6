"""The limits of an attempt: evaluations are counted, and a clock is read only for large pods, as the last resort."""

from __future__ import annotations

import pytest

from pyscheduler.api.cycle import EVALUATION_LIMIT, TIME_LIMIT, AttemptLimitExceeded, Cycle
from pyscheduler.api.pod import LARGE
from pyscheduler.testing import Harness, PodBuilder, node, pod


def cycle() -> Cycle:
    return Cycle(0.0, "default-scheduler", "uid")


def test_an_attempt_may_spend_the_limit_and_no_more() -> None:
    attempt = cycle()
    attempt.charge_evaluations(EVALUATION_LIMIT // 100, 100, "node affinity")
    with pytest.raises(
        AttemptLimitExceeded, match="node affinity with 1 terms over 1 nodes exceeds the limit of 2000000"
    ):
        attempt.charge_evaluations(1, 1, "node affinity")


def test_a_block_of_nodes_costs_as_much_as_one() -> None:
    attempt = cycle()
    attempt.charge_evaluations(EVALUATION_LIMIT, 256, "node affinity", block=256)
    with pytest.raises(AttemptLimitExceeded):
        attempt.charge_evaluations(1, 256, "node affinity", block=256)


def heavy() -> PodBuilder:
    return pod("heavy").annotation("a", "x" * (LARGE + 1))


def slow_world() -> Harness:
    """A scheduler with a clock that advances by half the time limit on each reading."""
    world = Harness()
    readings = iter(range(10**6))
    world.machine.context.instrument.timer = lambda: next(readings) * TIME_LIMIT / 2
    world.add(node("n1"), node("n2"))
    return world


def test_a_large_pod_is_unschedulable_when_its_attempt_takes_too_long() -> None:
    world = slow_world()
    world.add(heavy())
    world.run()
    assert world.assignments == {}
    assert world.pending_message("heavy").startswith("an attempt takes longer than 1 s: stopped after plugin ")
    assert world.machine.context.queue.ready == 0


def test_no_clock_is_read_for_a_pod_of_usual_size() -> None:
    world = slow_world()
    world.add(pod("usual"))
    world.run()
    assert set(world.assignments) == {"usual"}


def test_without_a_clock_a_large_pod_is_bound() -> None:
    world = Harness()
    world.add(node("n1"), heavy())
    world.run()
    assert world.assignments == {"heavy": "n1"}
