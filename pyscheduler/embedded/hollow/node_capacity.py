"""What fits on a node: the kubelet's own check, after the scheduler's.

A real kubelet refuses a pod that its node has no room for. So does a hollow one, and that is how a scheduler that
oversells a node is found out. Of the kubelet's checks only the one for resources is made; ports, node affinity and
taints are not looked at again.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import NamedTuple

from pyscheduler.api.resources import PODS, Amounts


class AdmissionFailure(NamedTuple):
    """Why the kubelet will not run a pod: status.reason and status.message."""

    reason: str
    message: str


class NodeCapacity:
    """A node's allocatable amounts and who holds how much of them. Amounts are milli-cores and units."""

    def __init__(self, allocatable: Mapping[str, int]) -> None:
        self.allocatable = allocatable
        self.used: Amounts = {}
        self._holders: dict[str, Mapping[str, int]] = {}

    def __contains__(self, uid: str) -> bool:
        return uid in self._holders

    def admit(self, uid: str, requests: Mapping[str, int]) -> AdmissionFailure | None:
        """Take room for a pod, or say why not. A pod that holds room already is let in again."""
        if uid in self._holders:
            return None
        wanted = {**requests, PODS: 1}
        for name, amount in sorted(wanted.items()):
            used, capacity = self.used.get(name, 0), self.allocatable.get(name, 0)
            if amount and used + amount > capacity:
                return AdmissionFailure(
                    f"OutOf{name}",
                    "Pod was rejected: Node didn't have enough resource: "
                    f"{name}, requested: {amount}, used: {used}, capacity: {capacity}",
                )
        self.hold(uid, requests)
        return None

    def hold(self, uid: str, requests: Mapping[str, int]) -> None:
        """Take room for a pod that runs already, whether there is enough or not."""
        if uid not in self._holders:
            self._holders[uid] = {**requests, PODS: 1}
            self._count(uid, 1)

    def release(self, uid: str) -> None:
        """Give back what a pod holds, if it holds anything."""
        if uid in self._holders:
            self._count(uid, -1)
            del self._holders[uid]

    def _count(self, uid: str, sign: int) -> None:
        for name, amount in self._holders[uid].items():
            self.used[name] = self.used.get(name, 0) + sign * amount
