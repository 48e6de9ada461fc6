"""Resources of a node and the kubelet's admission of pods by them.

A real kubelet rejects a pod that its node has no room for, and so does a hollow one, which exposes a scheduler that
overcommits a node. Of the kubelet's checks only the one for resources is implemented; ports, node affinity and taints
are not checked again.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import NamedTuple

from pyscheduler.api.resources import PODS, Amounts


class AdmissionFailure(NamedTuple):
    """status.reason and status.message of a pod that the kubelet rejects."""

    reason: str
    message: str


class NodeCapacity:
    """Allocatable and used amounts of a node, in milli-cores and units, and the amounts of each pod by uid."""

    def __init__(self, allocatable: Mapping[str, int]) -> None:
        self.allocatable = allocatable
        self.used: Amounts = {}
        self._requests: dict[str, Mapping[str, int]] = {}

    def __contains__(self, uid: str) -> bool:
        return uid in self._requests

    def admit(self, uid: str, requests: Mapping[str, int]) -> AdmissionFailure | None:
        """Reserve room for a pod, or return the reason for rejection. A pod that has room already is admitted."""
        if uid in self._requests:
            return None
        requested = {**requests, PODS: 1}
        for name, amount in sorted(requested.items()):
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
        """Reserve room for a pod that runs already, even if the node is full."""
        if uid not in self._requests:
            self._requests[uid] = {**requests, PODS: 1}
            self._count(uid, 1)

    def release(self, uid: str) -> None:
        """Release the room of a pod, if it has any."""
        if uid in self._requests:
            self._count(uid, -1)
            del self._requests[uid]

    def _count(self, uid: str, sign: int) -> None:
        for name, amount in self._requests[uid].items():
            self.used[name] = self.used.get(name, 0) + sign * amount
