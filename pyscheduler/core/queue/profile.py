"""Plugins of a profile that the queue calls."""

from __future__ import annotations

from dataclasses import dataclass

from pyscheduler.api.events import ClusterEventWithHint
from pyscheduler.api.plugin import PreEnqueuePlugin, QueueSortPlugin


@dataclass(frozen=True, slots=True)
class QueueProfile:
    """Plugins of a profile that the queue calls; `events_to_register` are (plugin name, interest) in plugin order.

    All profiles share one QueueSort plugin, as in kube-scheduler; the first profile's is used.
    """

    sort: QueueSortPlugin
    pre_enqueue: tuple[PreEnqueuePlugin, ...] = ()
    events_to_register: tuple[tuple[str, ClusterEventWithHint], ...] = ()
