"""CPU usage by process while pods are bound, and the upper limit of a contender's speed that follows from it.

On a machine with fully used cores, time is CPU time: what a contender does not use itself is used by the API server,
etcd and the bench. Even a contender without any CPU time would have to wait for those.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

API_SERVER, ETCD = "kube-apiserver", "etcd"


@dataclass(frozen=True)
class Burst:
    """CPU seconds by process between the first binding and the last; the bench measures and makes changes."""

    own: float
    api_server: float
    etcd: float
    bench: float

    @classmethod
    def of(cls, own: float, control_plane_cpu: Mapping[str, float], bench: float) -> Burst:
        """Return a burst from the control plane's CPU seconds by process."""
        return cls(own, control_plane_cpu.get(API_SERVER, 0.0), control_plane_cpu.get(ETCD, 0.0), bench)

    @property
    def speed_up(self) -> float | None:
        """Factor by which a contender with free CPU time would be faster; None if the others used none."""
        others = self.api_server + self.etcd + self.bench
        return (self.own + others) / others if others else None
