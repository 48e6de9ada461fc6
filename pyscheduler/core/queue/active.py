"""The active queue: pods that are to be tried now, in the order of the profile's QueueSort plugin."""

from __future__ import annotations

from pyscheduler.api.plugin import QueueSortPlugin
from pyscheduler.api.queued import QueuedPod
from pyscheduler.core.instrument import Instrument
from pyscheduler.core.queue.ordered import OrderedPods

QUEUE_SORT = "QueueSort"
"""The extension point, as `Instrument.plugin_failed` names it."""


def by_priority_and_time(queued: QueuedPod) -> tuple[int, float]:
    """PrioritySort's order, which stands in where the QueueSort plugin raises."""
    return (-queued.pod.priority, queued.timestamp)


class ActiveQueue(OrderedPods):
    """kube-scheduler's activeQ; two pods that the plugin does not tell apart go by arrival."""

    def __init__(self, sort: QueueSortPlugin, instrument: Instrument) -> None:
        super().__init__(
            key=sort.sort_key,
            stand_in=by_priority_and_time,
            failed=lambda error: instrument.plugin_failed(sort.name, QUEUE_SORT, error),
        )
