"""Limits of an attempt: the number of evaluations, and for large pods the time."""

from __future__ import annotations

import pytest

from pyscheduler.api.cycle import EVALUATION_LIMIT, TIME_LIMIT, AttemptLimitExceeded, Cycle
from pyscheduler.api.pod import LARGE
from pyscheduler.testing import Harness, PodBuilder, node, pod


def cycle() -> Cycle:
    return Cycle(0.0, "default-scheduler", "uid")


def test_attempt_above_the_evaluation_limit_raises() -> None:
    attempt = cycle()
    attempt.charge_evaluations(EVALUATION_LIMIT // 100, 100, "node affinity")
    with pytest.raises(
        AttemptLimitExceeded, match="node affinity with 1 terms over 1 nodes exceeds the limit of 2000000"
    ):
        attempt.charge_evaluations(1, 1, "node affinity")


def test_a_block_of_nodes_is_charged_as_one_evaluation() -> None:
    attempt = cycle()
    attempt.charge_evaluations(EVALUATION_LIMIT, 256, "node affinity", block=256)
    with pytest.raises(AttemptLimitExceeded):
        attempt.charge_evaluations(1, 256, "node affinity", block=256)


def heavy() -> PodBuilder:
    return pod("heavy").annotation("a", "x" * (LARGE + 1))


def slow_harness() -> Harness:
    """A scheduler with a clock that advances by half the time limit on each reading."""
    harness = Harness()
    readings = iter(range(10**6))
    harness.machine.context.instrument.timer = lambda: next(readings) * TIME_LIMIT / 2
    harness.add(node("n1"), node("n2"))
    return harness


def test_large_pod_is_unschedulable_when_its_attempt_exceeds_the_time_limit() -> None:
    harness = slow_harness()
    harness.add(heavy())
    harness.run()
    assert harness.assignments == {}
    assert harness.pending_message("heavy").startswith("an attempt takes longer than 1 s: stopped after plugin ")
    assert len(harness.machine.context.queue.active) == 0


def test_pod_of_ordinary_size_has_no_time_limit() -> None:
    harness = slow_harness()
    harness.add(pod("usual"))
    harness.run()
    assert set(harness.assignments) == {"usual"}


def test_large_pod_has_no_time_limit_without_a_clock() -> None:
    harness = Harness()
    harness.add(node("n1"), heavy())
    harness.run()
    assert harness.assignments == {"heavy": "n1"}
