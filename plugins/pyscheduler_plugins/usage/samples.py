"""Measured usage of nodes, from NodeMetric objects of Koordinator (slo.koordinator.sh).

metrics.k8s.io has no watch, and a plugin cannot poll. NodeMetrics are ordinary objects: Koordinator's agent koordlet
writes them, or anything else that can read a metrics server or Prometheus.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from datetime import datetime
from typing import Any, Final, NamedTuple

import numpy as np
from numpy.typing import NDArray

from pyscheduler.api import Mask, ResourceKind, WatchedObjects
from pyscheduler.api.resources import CPU, MEMORY, amount

NODE_METRIC: Final = ResourceKind(
    "slo.koordinator.sh", "v1alpha1", "nodemetrics", "NodeMetric", namespaced=False, optional=True
)
RESOURCES: Final = (CPU, MEMORY)
"""Measured resources."""


class Sample(NamedTuple):
    """Usage of a node at a time, in seconds since 1970: milli-cores and bytes."""

    time: float
    usage: tuple[int, int]


def sample_of(obj: Mapping[str, Any]) -> Sample | None:
    """Return the sample in a NodeMetric; None if it has none yet, or an invalid one."""
    try:
        status = obj["status"]
        usage = status["nodeMetric"]["nodeUsage"]["resources"]
        cpu, memory = (amount(resource, usage[resource]) for resource in RESOURCES)
        return Sample(datetime.fromisoformat(status["updateTime"]).timestamp(), (cpu, memory))
    except (KeyError, TypeError, ValueError):
        return None


class Samples:
    """Current samples by node. One that is much older than the newest is stale: its node no longer reports."""

    def __init__(self, objects: WatchedObjects, max_age: float) -> None:
        self._objects = objects
        self._max_age = max_age
        self._version = -1
        self._by_node: dict[str, Sample] = {}
        self._changed: set[str] | None = None
        self.newest = -math.inf
        """Time of the newest sample of any node. Plugins have no clock that could be compared with these times."""

    def refresh(self) -> None:
        """Read the objects that changed since the last call."""
        version = self._objects.version(NODE_METRIC)
        if version == self._version:
            return
        changed = self._objects.changed_since(NODE_METRIC, self._version)
        self._version = version
        objects = self._objects[NODE_METRIC]
        if changed is None:
            self._by_node.clear()
            self._changed = None
        elif self._changed is not None:
            self._changed.update(name for _, name in changed)
        for key in objects if changed is None else changed:
            sample = sample_of(objects.get(key, {}))
            if sample is None:
                self._by_node.pop(key[1], None)
            else:
                self._by_node[key[1]] = sample
                self.newest = max(self.newest, sample.time)

    def take_changed(self) -> set[str] | None:
        """Return the nodes with samples that changed since the last call, or None if all may have; up to date."""
        self.refresh()
        changed, self._changed = self._changed, set()
        return changed

    def __len__(self) -> int:
        return len(self._by_node)

    def get(self, name: str) -> Sample | None:
        """Return the sample of a node, stale or not; None if there is none."""
        return self._by_node.get(name)

    def is_fresh(self, sample: Sample) -> bool:
        """Return True if the sample is not much older than the newest one."""
        return sample.time >= self.newest - self._max_age

    def are_fresh(self, times: NDArray[np.float64]) -> Mask:
        """Return a mask of the times, minus infinity for no sample, at which samples are not stale."""
        return (times >= self.newest - self._max_age) & np.isfinite(times)
