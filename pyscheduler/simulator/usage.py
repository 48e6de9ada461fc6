"""Use of the nodes over time: amounts that are requested by pods with a node, and what the nodes have."""

from __future__ import annotations

from collections.abc import Mapping
from typing import NamedTuple

from pyscheduler.api.resources import PODS


class UsagePoint(NamedTuple):
    """State of the cluster from a time on."""

    at: float
    waiting: int
    """Number of jobs that wait."""
    used: tuple[float, ...]
    """Used share of each resource."""


class NodeUsage:
    """Amounts in use, and their integrals over time."""

    def __init__(self) -> None:
        self.used: dict[str, int] = {}
        self.capacity: dict[str, int] = {}
        self._used_seconds: dict[str, float] = {}
        self._capacity_seconds: dict[str, float] = {}
        self._since = 0.0
        self._points: list[tuple[float, int, dict[str, float]]] = []

    def advance(self, now: float) -> None:
        """Count the amounts up to now."""
        seconds = now - self._since
        if seconds > 0:
            for name, amount in self.used.items():
                self._used_seconds[name] = self._used_seconds.get(name, 0.0) + amount * seconds
            for name, amount in self.capacity.items():
                self._capacity_seconds[name] = self._capacity_seconds.get(name, 0.0) + amount * seconds
            self._since = now

    def add(self, requests: Mapping[str, int], now: float, sign: int = 1) -> None:
        """Add the requests of a pod to those in use, or subtract them."""
        self.advance(now)
        for name, amount in requests.items():
            self.used[name] = self.used.get(name, 0) + sign * amount

    def add_node(self, allocatable: Mapping[str, int], now: float, sign: int = 1) -> None:
        """Add what a node has, or subtract it."""
        self.advance(now)
        for name, amount in allocatable.items():
            self.capacity[name] = self.capacity.get(name, 0) + sign * amount

    def record(self, now: float, waiting: int) -> None:
        """Record the state after the changes at a time."""
        shares = {name: amount / self.capacity[name] for name, amount in self.used.items() if self.capacity.get(name)}
        if self._points and self._points[-1][0] == now:
            self._points.pop()
        if not self._points or self._points[-1][1:] != (waiting, shares):
            self._points.append((now, waiting, shares))

    @property
    def resources(self) -> list[str]:
        """Resources that pods have used, cpu and memory first."""
        first = {"cpu": 0, "memory": 1}
        names = (name for name in self._used_seconds if name != PODS and self._capacity_seconds.get(name))
        return sorted(names, key=lambda name: (first.get(name, 2), name))

    def utilization(self) -> dict[str, float]:
        """Return the share of each resource that was in use, weighted by time."""
        return {name: self._used_seconds[name] / self._capacity_seconds[name] for name in self.resources}

    def points(self) -> list[UsagePoint]:
        """Return the recorded states."""
        names = self.resources
        return [
            UsagePoint(at, waiting, tuple(shares.get(n, 0.0) for n in names)) for at, waiting, shares in self._points
        ]
