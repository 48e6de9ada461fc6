"""One node of the live state, in exact Python numbers: what the plain form of a plugin reads.

The columns hold the same amounts as int64; both are written together, in `ClusterState` and nowhere else.
"""

from __future__ import annotations

from collections.abc import Mapping
from copy import copy
from types import MappingProxyType

from pyscheduler.api.nodes import NodeInfo
from pyscheduler.api.objects import NodeObject, Taint
from pyscheduler.api.pod import HostPort, Pod
from pyscheduler.api.resources import CPU, MEMORY, PODS, amounts

_NO_PORTS: frozenset[HostPort] = frozenset()
_NOTHING: Mapping[str, str] = MappingProxyType({})
_LARGEST_IMAGE = 1 << 50
"""Bytes that an image is believed to have: so many of them can still be added up."""


class NodeRow(NodeInfo):
    """A node with its pods. `row` is its place in the columns; -1 while the node itself is not known (a ghost)."""

    def __init__(self, name: str) -> None:
        self.name = name
        self.row = -1
        self.version = 0
        """Counts what has happened to it: pods that came and went, new descriptions."""
        self.labels: Mapping[str, str] = _NOTHING
        self.taints: tuple[Taint, ...] = ()
        self.unschedulable = False
        self.allocatable: dict[str, int] = {}
        self.allowed_pods = 0
        self.images: dict[str, int] = {}
        self.requested: dict[str, int] = {}
        self.non_zero_requested: dict[str, int] = {CPU: 0, MEMORY: 0}
        self.pods: dict[str, Pod] = {}
        self._ports: dict[HostPort, int] = {}
        self._used_ports: frozenset[HostPort] | None = _NO_PORTS

    @property
    def used_ports(self) -> frozenset[HostPort]:
        if self._used_ports is None:
            self._used_ports = frozenset(self._ports)
        return self._used_ports

    def copy(self) -> NodeRow:
        """A copy for what-ifs: pods may come and go there without anybody knowing."""
        twin = copy(self)
        twin.__class__ = _DryRunNode
        twin.requested, twin.non_zero_requested = dict(self.requested), dict(self.non_zero_requested)
        twin.pods, twin._ports = dict(self.pods), dict(self._ports)
        return twin

    def describe(self, source: NodeObject) -> None:
        """Take over what the node object says. QuantityError, with nothing changed, if an amount cannot be read."""
        allocatable = amounts(source.status.allocatable)
        self.version += 1
        self.allowed_pods = allocatable.pop(PODS, 0)
        self.allocatable = allocatable
        self.node = source
        self.labels = source.metadata.labels or _NOTHING
        self.taints = source.spec.taints or ()
        self.unschedulable = source.spec.unschedulable
        images = source.status.images or ()
        self.images = {name: min(image.size_bytes, _LARGEST_IMAGE) for image in images for name in image.names or ()}

    def put(self, pod: Pod) -> None:
        """Count the pod in."""
        self.pods[pod.uid] = pod
        self._count(pod, 1)

    def take(self, uid: str) -> Pod:
        """Count the pod out and return it."""
        pod = self.pods.pop(uid)
        self._count(pod, -1)
        return pod

    def _count(self, pod: Pod, sign: int) -> None:
        self.version += 1
        requested, requests = self.requested, pod.signature.requests
        for resource, n in requests.effective.items():
            total = requested.get(resource, 0) + sign * n
            if total:
                requested[resource] = total
            else:
                requested.pop(resource, None)
        for resource, n in requests.non_zero.items():
            self.non_zero_requested[resource] += sign * n
        if pod.signature.host_ports:
            self._count_ports(pod.signature.host_ports, sign)

    def _count_ports(self, ports: frozenset[HostPort], sign: int) -> None:
        for port in ports:
            users = self._ports.get(port, 0) + sign
            if users:
                self._ports[port] = users
            else:
                del self._ports[port]
        self._used_ports = None


class _DryRunNode(NodeRow):
    """Forgets a port with the first pod that leaves, even where two had it, as kube-scheduler's NodeInfo does."""

    def _count_ports(self, ports: frozenset[HostPort], sign: int) -> None:
        for port in ports:
            if sign > 0:
                self._ports[port] = 1
            else:
                self._ports.pop(port, None)
        self._used_ports = None
