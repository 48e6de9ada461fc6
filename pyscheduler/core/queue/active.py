"""Active queue: pods that are ready for an attempt, in the order of the QueueSort plugin."""

from __future__ import annotations

from pyscheduler.api.plugin import QueueSortPlugin
from pyscheduler.api.queued import QueuedPod
from pyscheduler.core.instrument import Instrument
from pyscheduler.core.queue.ordered import OrderedPods

QUEUE_SORT = "QueueSort"
"""Name of the point passed to `Instrument.plugin_failed` when the sort key fails."""


def by_priority_and_time(queued: QueuedPod) -> tuple[int, float]:
    """Return PrioritySort's sort key, the fallback if the QueueSort plugin raises."""
    return (-queued.pod.priority, queued.timestamp)


class ActiveQueue(OrderedPods):
    """kube-scheduler's activeQ; pods with equal sort keys are in the order of their arrival."""

    def __init__(self, sort: QueueSortPlugin, instrument: Instrument) -> None:
        super().__init__(
            key=sort.sort_key,
            fallback=by_priority_and_time,
            failed=lambda error: instrument.plugin_failed(sort.name, QUEUE_SORT, error),
        )
