"""Reservation of nodes for the first group that lacks room, and when running pods end (EASY backfill).

Pods end after their declared run time. Without one their end is unknown, and pods of services never end.
"""

from __future__ import annotations

import math
from collections import Counter
from typing import NamedTuple

from msgspec import Struct, field

from pyscheduler.api.pod import Pod
from pyscheduler.core.pod_groups.learnt_run_times import LearntRunTimes
from pyscheduler.core.queue.queued_pod_group import QueuedPodGroup

RUN_SECONDS = "pyscheduler.io/run-seconds"
"""Annotation with the longest time that a pod runs, in seconds; spec.activeDeadlineSeconds limits it too."""
RESERVATION = "Reservation"
"""Rejector of the pods that would delay the head; no plugin has this name."""
UNKNOWN = math.inf
"""End of a pod that declares no run time."""
_RETRY = 60.0
"""Seconds until a group is tried again that would not fit even if all pods that end were gone."""
_MOST_UNFIT = 1024
"""Number of such groups, equal ones counted once, above which they are tried again earlier."""
_KINDS_OF_SERVICES = frozenset({"ReplicaSet", "StatefulSet", "DaemonSet", "ReplicationController", "Node"})
"""Kinds of controllers whose pods never end; Node owns mirror pods."""


def run_seconds(pod: Pod) -> float | None:
    """Return the longest time that a pod runs, by its annotation or its deadline; None if neither is valid."""
    try:
        declared = float(pod.annotations.get(RUN_SECONDS, math.inf))
    except ValueError:
        declared = math.inf
    deadline = pod.spec.active_deadline_seconds
    limits = [each for each in (declared, deadline) if each is not None and 0 < each < math.inf]
    return min(limits, default=None)


def ends(pod: Pod) -> bool:
    """Return True if the pod ends, maybe at an unknown time: not a pod of a service, unless it is terminating."""
    owner = pod.signature.owner
    return pod.deleting or owner is None or owner.kind not in _KINDS_OF_SERVICES


class PlacementTimes:
    """When pods were placed, on the scheduler's clock.

    For a pod that declares no run time, it is the time at which its kubelet started it, once that is known. For one
    that is on a node when the scheduler starts, it is that time too, or the time of the scheduler's start: the pod ends
    no later. `epoch` is the scheduler's clock as Unix time at 0.
    """

    def __init__(self, epoch: float) -> None:
        self._epoch = epoch
        self._at: dict[str, float] = {}
        self.learnt: LearntRunTimes | None = None
        """Run times of pods that declare none; None if those are unknown."""

    def add(self, pod: Pod, now: float) -> None:
        """Record a pod that is assumed."""
        self._at[pod.uid] = now

    def add_seen(self, pod: Pod, now: float) -> None:
        """Record an assigned pod, unless it was assumed before."""
        if pod.started != math.inf and run_seconds(pod) is None:
            self._at.pop(pod.uid, None)  # the pod has the time itself, and there may be a million
        elif pod.uid not in self._at:
            self._at[pod.uid] = self._started(pod, now)

    def remove(self, uid: str) -> None:
        """Drop a pod that has left its node."""
        self._at.pop(uid, None)

    def started(self, pod: Pod, now: float) -> float:
        """Return when a placed pod was placed, or started."""
        at = self._at.get(pod.uid)
        return self._started(pod, now) if at is None else at

    def declared_end(self, pod: Pod, now: float) -> float:
        """Return when a placed pod ends as declared, maybe in the past; UNKNOWN if it declares no run time."""
        seconds = run_seconds(pod)
        if seconds is None:
            return UNKNOWN
        self.add_seen(pod, now)
        return self._at[pod.uid] + seconds

    def expected_end(self, pod: Pod, now: float) -> float:
        """Return when a placed pod ends, as declared or as learnt; UNKNOWN if neither is known, or it runs longer."""
        if self.learnt is None or run_seconds(pod) is not None:
            return self.declared_end(pod, now)
        seconds = self.learnt.seconds(pod)
        end = UNKNOWN if seconds is None else self.started(pod, now) + seconds
        return end if end > now else UNKNOWN

    def end(self, pod: Pod, now: float) -> float:
        """Return when a placed pod ends, at the earliest now: for a terminating pod, or one that runs too long."""
        return now if pod.deleting else max(now, self.expected_end(pod, now))

    def ended(self, pod: Pod, now: float) -> None:
        """Record that a placed pod has ended, or was deleted."""
        if self.learnt is not None:
            self.learnt.ended(pod, now - self.started(pod, now))

    def _started(self, pod: Pod, now: float) -> float:
        """Return status.startTime on the scheduler's clock; now if it is missing, or later: clocks differ."""
        return min(now, pod.started - self._epoch)


class EndingPod(NamedTuple):
    """Placed pod that ends."""

    end: float
    started: float
    row: int
    pod: Pod


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
        self._unfit_until: dict[tuple[int, int], float] = {}

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
