"""Plugins of a profile that the queue calls."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from pyscheduler.api.events import ClusterEventWithHint
from pyscheduler.api.plugin import PreEnqueuePlugin, QueueSortPlugin
from pyscheduler.core.queue.hints import HintScope


@dataclass(frozen=True, slots=True)
class QueueProfile:
    """Plugins of a profile that the queue calls; `events_to_register` are (plugin name, interest) in plugin order.

    All profiles share one QueueSort plugin, as in kube-scheduler; the first profile's is used.
    """

    sort: QueueSortPlugin
    pre_enqueue: tuple[PreEnqueuePlugin, ...] = ()
    events_to_register: tuple[tuple[str, ClusterEventWithHint], ...] = ()
    hint_scopes: Mapping[str, HintScope] = field(default_factory=dict)
    """Scopes of the pod fields that a plugin's hints read, by plugin name; other hints are called for each pod."""
    orders_queues: bool = False
    """True if a Quota plugin chooses the queue that is served next."""
    has_queues: bool = False
    """True if there is a Quota plugin, which removes the scheduling gate of queues."""
