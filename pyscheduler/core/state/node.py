"""One node of the cluster state in exact Python integers, for the per-node form of a plugin.

The columns hold the same amounts as int64; `ClusterState` updates both together.
"""

from __future__ import annotations

from collections.abc import Mapping
from copy import copy
from functools import lru_cache
from itertools import count
from types import MappingProxyType

from pyscheduler.api.nodes import NodeInfo
from pyscheduler.api.objects import NodeObject, Quantity, Taint
from pyscheduler.api.pod import HostPort, Pod
from pyscheduler.api.resources import CPU, MEMORY, PODS, amounts
from pyscheduler.core.state.shared_node_fields import NO_IMAGES, ImageSet

_NO_PORTS: frozenset[HostPort] = frozenset()
_NOTHING: Mapping[str, str] = MappingProxyType({})
_generations = count(1)


class NodeRow(NodeInfo):
    """A node with its pods. `row` is its row in the columns; -1 while the node object does not exist."""

    def __init__(self, name: str) -> None:
        self.name = name
        self.row = -1
        self.generation = next(_generations)
        """Number that changes with the node object and its pods; no two nodes have the same (NodeInfo.Generation)."""
        self.labels: Mapping[str, str] = _NOTHING
        self.taints: tuple[Taint, ...] = ()
        self.unschedulable = False
        self.allocatable: Mapping[str, int] = {}
        """Shared by nodes with equal quantities."""
        self.allowed_pods = 0
        self.image_set = NO_IMAGES
        self.images = NO_IMAGES.sizes
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
        """Return a copy for dry runs, on which pods can be added and removed."""
        node = copy(self)
        node.__class__ = _DryRunNode
        node.requested, node.non_zero_requested = dict(self.requested), dict(self.non_zero_requested)
        node.pods, node._ports = dict(self.pods), dict(self._ports)
        return node

    def describe(self, source: NodeObject, images: ImageSet) -> None:
        """Apply the node object and its images. QuantityError, with nothing changed, if an amount is invalid."""
        if not self.allocatable or source.status.allocatable != self.node.status.allocatable:
            self.allocatable, self.allowed_pods = _parsed(tuple((source.status.allocatable or {}).items()))
        self.generation = next(_generations)
        self.node = source
        self.labels = source.metadata.labels or _NOTHING
        self.taints = source.spec.taints or ()
        self.unschedulable = source.spec.unschedulable
        self.image_set, self.images = images, images.sizes

    def put(self, pod: Pod) -> None:
        """Add a pod."""
        self.pods[pod.uid] = pod
        self._count(pod, 1)

    def replace(self, pod: Pod) -> None:
        """Replace a pod by its new version of the same signature."""
        self.pods[pod.uid] = pod
        self.generation = next(_generations)

    def take(self, uid: str) -> Pod:
        """Remove and return a pod."""
        pod = self.pods.pop(uid)
        self._count(pod, -1)
        return pod

    def _count(self, pod: Pod, sign: int) -> None:
        self.generation = next(_generations)
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


@lru_cache(4096)
def _parsed(quantities: tuple[tuple[str, Quantity], ...]) -> tuple[Mapping[str, int], int]:
    """Return a node's allocatable amounts without pods, and the allowed number of pods. QuantityError."""
    allocatable = amounts(dict(quantities))
    return allocatable, allocatable.pop(PODS, 0)


class _DryRunNode(NodeRow):
    """Node that frees a port with the first pod that leaves, even if two used it, as kube-scheduler's NodeInfo does."""

    def _count_ports(self, ports: frozenset[HostPort], sign: int) -> None:
        for port in ports:
            if sign > 0:
                self._ports[port] = 1
            else:
                self._ports.pop(port, None)
        self._used_ports = None
