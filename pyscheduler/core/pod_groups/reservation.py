"""Reservation of nodes for the first group that lacks room (EASY backfill)."""

from __future__ import annotations

from collections import Counter

from msgspec import Struct, field

from pyscheduler.core.pod_groups.ending_pods import EndingPods
from pyscheduler.core.pod_groups.run_times import PlacementTimes
from pyscheduler.core.queue.queued_pod_group import QueuedPodGroup

RESERVATION = "Reservation"
"""Rejector of the pods that would delay the head; no plugin has this name."""
_RETRY = 60.0
"""Seconds until a group is tried again that would not fit even if all pods that end were gone."""
_MOST_UNFIT = 1024
"""Number of such groups, equal ones counted once, above which they are tried again earlier."""


class Reservation(Struct, frozen=True):
    """Nodes on which the head fits at some time: the first group that lacks room."""

    head: QueuedPodGroup
    time: float
    """When it fits at the latest, on the scheduler's clock; UNKNOWN if it waits for pods without a declared end."""
    nodes: frozenset[str]
    """Names of the nodes that it needs then."""
    resources: frozenset[str]
    """Resources that it requests."""
    refusals: list[Counter[str]] = field(default_factory=list)
    """Requests beside which the head would not fit then; the search takes long, and many pods are equal."""

    def refuses(self, requests: Counter[str]) -> bool:
        """Return True if requests that are not larger were refused before."""
        return any(each <= requests for each in self.refusals)


class Reservations:
    """The current reservation, at most one, and what it is computed from."""

    def __init__(self, epoch: float) -> None:
        self.current: Reservation | None = None
        self.is_vacant = True
        """True if the last reservation has ended, or that of the scheduler before a restart has to be made again."""
        self.candidates: list[QueuedPodGroup] | None = None
        """Groups that may be the head while `is_vacant`, the first one last; None if they must be listed again."""
        self.tried = 0
        """Number of them that do not fit even later."""
        self.first: QueuedPodGroup | None = None
        """Group that is attempted before another one may be the head, since it may start."""
        self.times = PlacementTimes(epoch)
        self.ending = EndingPods(self.times)
        self._unfit_until: dict[tuple[int, int], float] = {}

    def replace(self, reservation: Reservation | None) -> None:
        """Set the current reservation, None for none, and mark its head."""
        if self.current is not None:
            self.current.head.is_head = False
        self.current = reservation
        if reservation is not None:
            reservation.head.is_head = True

    def vacate(self) -> None:
        """Let the next attempt choose a head."""
        self.is_vacant, self.candidates = True, None

    def is_unfit(self, head: QueuedPodGroup, now: float) -> bool:
        """Return True if an equal group did not fit a short time ago even without all pods that end."""
        return now < self._unfit_until.get(_kind(head), 0.0)

    def set_unfit(self, head: QueuedPodGroup, now: float) -> None:
        """Record a group that does not fit even without all pods that end: the search takes long."""
        if len(self._unfit_until) >= _MOST_UNFIT:
            self._unfit_until.clear()
        self._unfit_until[_kind(head)] = now + _RETRY


def _kind(head: QueuedPodGroup) -> tuple[int, int]:
    """Return the key of groups that are equal but for names: the template of the first pod, and the number of pods."""
    return next(iter(head.members.values())).pod.signature.template.id, len(head.members)
