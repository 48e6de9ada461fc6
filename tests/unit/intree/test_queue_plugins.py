"""PrioritySort and SchedulingGates: order and gating of the active queue."""

from __future__ import annotations

import pytest

from pyscheduler.api import Action, QueuedPod
from pyscheduler.intree import PrioritySort, SchedulingGates
from pyscheduler.testing import PodBuilder, pod

from .cluster import build, pod_updated, requeues


@pytest.mark.parametrize(
    ("a", "b", "a_first"),
    [
        pytest.param((10, 5.0), (1, 1.0), True, id="the higher priority goes first, however late"),
        pytest.param((1, 1.0), (10, 5.0), False, id="the lower priority waits, however early"),
        pytest.param((1, 1.0), (1, 2.0), True, id="among equals the earlier goes first"),
        pytest.param((None, 1.0), (0, 1.0), False, id="no priority is priority 0: neither goes before the other"),
        pytest.param((-1, 1.0), (None, 2.0), False, id="a priority below zero is lower than none"),
    ],
)
def test_priority_then_time(a: tuple[int | None, float], b: tuple[int | None, float], a_first: bool) -> None:
    def queued(priority: int | None, at: float) -> QueuedPod:
        return QueuedPod((pod() if priority is None else pod().priority(priority)).build(), timestamp=at)

    assert build(PrioritySort).less(queued(*a), queued(*b)) is a_first


@pytest.mark.parametrize(
    ("of", "reasons"),
    [
        pytest.param(pod(), None, id="no gates"),
        pytest.param(pod().gate("a.io/x"), ("waiting for scheduling gates: [a.io/x]",), id="one gate"),
        pytest.param(pod().gate("b").gate("a"), ("waiting for scheduling gates: [b a]",), id="in the pod's own order"),
    ],
)
def test_scheduling_gates_reject_pod(of: PodBuilder, reasons: tuple[str, ...] | None) -> None:
    rejection = build(SchedulingGates).pre_enqueue(of.build())
    assert (rejection and rejection.reasons) == reasons
    assert rejection is None or not rejection.resolvable


def test_only_own_gates_requeue_pod() -> None:
    opened = pod_updated(Action.UPDATE_POD_SCHEDULING_GATES_ELIMINATED, pod("a").gate("x"), pod("a"))
    gates = build(SchedulingGates)
    assert requeues(gates, pod("a").gate("x"), opened)
    assert not requeues(gates, pod("b").gate("x"), opened)
