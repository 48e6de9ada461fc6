"""Who uses the cores while pods are bound, and so how much faster a contender could be at all.

On a machine whose cores are in full use, time is CPU time: what a contender does not spend itself is spent by the API
server, by its store and by the bench, whoever binds. A contender that cost nothing would still have to wait for those.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

API_SERVER, ETCD = "kube-apiserver", "etcd"


@dataclass(frozen=True)
class Burst:
    """CPU seconds between the first binding and the last, by who used them; the bench measures and makes changes."""

    own: float
    api_server: float
    etcd: float
    bench: float

    @classmethod
    def of(cls, own: float, control_plane_cpu: Mapping[str, float], bench: float) -> Burst:
        """`control_plane_cpu` is the control plane's, by process."""
        return cls(own, control_plane_cpu.get(API_SERVER, 0.0), control_plane_cpu.get(ETCD, 0.0), bench)

    @property
    def speed_up(self) -> float | None:
        """How many times as fast it would be if its own CPU time were free; None if nobody else used any."""
        others = self.api_server + self.etcd + self.bench
        return (self.own + others) / others if others else None
