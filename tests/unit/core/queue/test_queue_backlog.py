"""Backlog with slices of one pod: events are evaluated in order, also if a pod changes in between."""

from __future__ import annotations

from pyscheduler.api import Pod
from pyscheduler.core.pod_groups.manager import PodGroupManager
from pyscheduler.core.queue import Backoff, Nominator, QueueProfile, SchedulingQueue
from pyscheduler.testing.builders import pod
from tests.unit.core.queue.queue_fixture import (
    INTERESTS,
    LABELLED,
    NODE_ADDED,
    POD_DELETED,
    PROFILE,
    Gate,
    PrioritySort,
    Report,
)

NOW = 100.0


def queue_of(*pods: Pod, rejected_by: str, pending: str = "", gate: Gate | None = None) -> SchedulingQueue:
    """Return a queue of pods that have just been rejected by that plugin."""
    profile = QueueProfile(PrioritySort(), () if gate is None else (gate,), INTERESTS)
    queue = SchedulingQueue(
        {PROFILE: profile}, Backoff(), Report(), Nominator(), PodGroupManager(Report()), slice_pods=1
    )
    for each in pods:
        queue.add(each, NOW)
    for _ in pods:
        queued = queue.pop(NOW)
        assert queued is not None
        queue.add_unschedulable(queued, queued.pod, {rejected_by}, {pending} - {""}, NOW)
    return queue


def finish(queue: SchedulingQueue) -> tuple[int, int, int, int]:
    while queue.backlog:
        queue.process_backlog()
    counts = queue.pending_counts()
    return counts["active"], counts["backoff"], counts["unschedulable"], counts["gated"]


def test_earlier_events_are_evaluated_before_an_update_of_the_pod() -> None:
    p = pod("p").build()
    queue = queue_of(p, rejected_by="Affinity", pending="Fit")
    queue.move_all(NODE_ADDED, NOW)
    queue.update(p, p, [POD_DELETED], NOW)
    assert finish(queue) == (0, 1, 0, 0), "the new node has moved it to backoff, where its update has no effect"


def test_pod_that_is_gated_at_one_event_is_admitted_at_the_next() -> None:
    gate = Gate()
    queue = queue_of(pod("p").build(), rejected_by="Fit", gate=gate)
    gate.closed_to.add("p")
    queue.move_all(POD_DELETED, NOW)
    other = pod("other").build()
    queue.add(other, NOW)
    queue.move_all(LABELLED, NOW)
    assert queue.pop(NOW) is None, "pods are still to be moved"
    queue.process_backlog()
    gate.closed_to.clear()
    assert finish(queue) == (1, 1, 0, 0)
