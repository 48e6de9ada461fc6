"""Limits of an attempt: the number of evaluations, and the time limit for large pods."""

from __future__ import annotations

import pytest

from pyscheduler.api.cycle import EVALUATION_LIMIT, TIME_LIMIT, AttemptLimitExceeded, Cycle
from pyscheduler.api.pod import LARGE
from pyscheduler.testing import Harness, PodBuilder, node, pod


def cycle() -> Cycle:
    return Cycle(0.0, "default-scheduler", "uid")


def test_attempt_fails_beyond_evaluation_limit() -> None:
    attempt = cycle()
    attempt.charge_evaluations(EVALUATION_LIMIT // 100, 100, "node affinity")
    with pytest.raises(
        AttemptLimitExceeded, match="node affinity with 1 terms over 1 nodes exceeds the limit of 2000000"
    ):
        attempt.charge_evaluations(1, 1, "node affinity")


def test_block_of_nodes_is_charged_like_one_node() -> None:
    attempt = cycle()
    attempt.charge_evaluations(EVALUATION_LIMIT, 256, "node affinity", block=256)
    with pytest.raises(AttemptLimitExceeded):
        attempt.charge_evaluations(1, 256, "node affinity", block=256)


def large() -> PodBuilder:
    return pod("heavy").annotation("a", "x" * (LARGE + 1))


def slow_harness() -> Harness:
    """Return a harness with a clock that advances by half the time limit on each reading."""
    harness = Harness()
    readings = iter(range(10**6))
    harness.machine.context.instrument.timer = lambda: next(readings) * TIME_LIMIT / 2
    harness.add(node("n1"), node("n2"))
    return harness


def test_large_pod_is_unschedulable_beyond_time_limit() -> None:
    harness = slow_harness()
    harness.add(large())
    harness.run()
    assert harness.assignments == {}
    assert harness.pending_message("heavy").startswith("an attempt takes longer than 1 s: stopped after plugin ")
    assert harness.machine.context.queue.ready == 0


def test_time_limit_applies_to_large_pods_only() -> None:
    harness = slow_harness()
    harness.add(pod("usual"))
    harness.run()
    assert set(harness.assignments) == {"usual"}


def test_large_pod_is_bound_without_a_clock() -> None:
    harness = Harness()
    harness.add(node("n1"), large())
    harness.run()
    assert harness.assignments == {"heavy": "n1"}
