"""Learnt run times: pods run about as long as those of earlier runs of their workload.

The runs of a workload are objects with equal names but for their endings, such as the Jobs of a CronJob. The longest
run of the last few is expected, so that few pods run longer. All is lost when the scheduler stops.
"""

from __future__ import annotations

import re
from collections import OrderedDict
from typing import NamedTuple

from pyscheduler.api.pod import Pod

RUNS = 5
"""Number of runs that are remembered of a workload."""
MOST_WORKLOADS = 10_000
"""Number of workloads that are remembered, those that ended last; anyone may create objects."""
_MOST_ENDED = 4096
"""Number of ended pods of which it is not known yet whether they have succeeded."""
_ENDING = re.compile(r"(?:-(?:\d+|[bcdfghjklmnpqrstvwxz2456789]{5}))+$")
"""Numbers, such as a CronJob's, and what the API server appends to `generateName`."""


class Workload(NamedTuple):
    """What the owners of pods have in common that run the same."""

    namespace: str
    api_group: str
    kind: str
    name: str


class LearntRunTimes:
    """Run times of pods that have succeeded, in seconds, by their workloads and runs."""

    def __init__(self) -> None:
        self._runs: OrderedDict[Workload, OrderedDict[str, float]] = OrderedDict()
        self._ended: OrderedDict[str, float] = OrderedDict()

    def seconds(self, pod: Pod) -> float | None:
        """Return how long the pod is expected to run; None if no run of its workload has ended."""
        workload = workload_of(pod)
        return None if workload is None else self.seconds_of(workload)

    def seconds_of(self, workload: Workload) -> float | None:
        """Return how long the pods of a workload are expected to run; None if no run of it has ended."""
        runs = self._runs.get(workload)
        return max(runs.values()) if runs else None

    def ended(self, pod: Pod, seconds: float) -> None:
        """Record how long a pod has run that has ended or was deleted; it counts once it has `succeeded`."""
        self._ended[pod.uid] = seconds
        if len(self._ended) > _MOST_ENDED:
            self._ended.popitem(last=False)

    def succeeded(self, pod: Pod) -> None:
        """Learn from a pod that has succeeded, if it has run while the scheduler did."""
        seconds, owner, workload = self._ended.pop(pod.uid, None), pod.signature.owner, workload_of(pod)
        if seconds is None or owner is None or workload is None:
            return
        runs = self._runs.setdefault(workload, OrderedDict())
        runs[owner.name] = max(seconds, runs.get(owner.name, 0.0))
        if len(runs) > RUNS:
            runs.popitem(last=False)
        self._runs.move_to_end(workload)
        if len(self._runs) > MOST_WORKLOADS:
            self._runs.popitem(last=False)


def workload_of(pod: Pod) -> Workload | None:
    """Return the workload of a pod; None for one without an owner."""
    owner = pod.signature.owner
    if owner is None:
        return None
    group = owner.api_version.rpartition("/")[0]
    return Workload(pod.namespace, group, owner.kind, _ENDING.sub("", owner.name))
