"""When running pods end: after their declared or learnt run time.

Without one their end is unknown, and pods of services never end.
"""

from __future__ import annotations

import math

from pyscheduler.api.pod import Pod
from pyscheduler.core.pod_groups.learnt_run_times import LearntRunTimes

RUN_SECONDS = "pyscheduler.io/run-seconds"
"""Annotation with the longest time that a pod runs, in seconds; spec.activeDeadlineSeconds limits it too."""
UNKNOWN = math.inf
"""End of a pod that declares no run time."""
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
        return min(now, self.recorded_start(pod))

    def recorded_start(self, pod: Pod) -> float:
        """Return when a placed pod was placed, or started; UNKNOWN, or a time to come, if it is only being started."""
        at = self._at.get(pod.uid)
        return pod.started - self._epoch if at is None else at

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
