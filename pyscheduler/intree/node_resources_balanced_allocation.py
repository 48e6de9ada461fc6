"""NodeResourcesBalancedAllocation: prefer nodes where the resources are used in equal proportion."""

from __future__ import annotations

import math
from collections.abc import Hashable, Sequence
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from pyscheduler import kernels
from pyscheduler.api import (
    MAX_NODE_SCORE,
    SKIP,
    Cycle,
    Handle,
    NodeFields,
    NodeInfo,
    NodeTable,
    Pod,
    PodSignatureGroup,
    PreScorePlugin,
    Reads,
    ScorePlugin,
    Scores,
    Skip,
    StateKey,
)
from pyscheduler.api.quantity import MAX_INT64
from pyscheduler.api.resources import CPU, EPHEMERAL_STORAGE, MEMORY, is_scalar
from pyscheduler.intree._problems import duplicate, invalid, raise_for_problems
from pyscheduler.intree._scoring import CPU_AND_MEMORY, ResourceSpec
from pyscheduler.intree.resource_claims.device_totals import (
    DEVICE_KINDS,
    DeviceTotals,
    is_device_resource,
    node_fields_of_devices,
)


@dataclass(frozen=True, slots=True)
class NodeResourcesBalancedAllocationArgs:
    """kubescheduler.config.k8s.io/v1 NodeResourcesBalancedAllocationArgs; every weight must be 1."""

    resources: tuple[ResourceSpec, ...] = CPU_AND_MEMORY

    def __post_init__(self) -> None:
        object.__setattr__(self, "resources", self.resources or CPU_AND_MEMORY)
        problems, seen = [], set()
        for i, resource in enumerate(self.resources):
            if resource.name in seen:
                problems.append(duplicate(f"resources[{i}].name", resource.name))
            seen.add(resource.name)
            if resource.weight != 1:
                problems.append(invalid(f"resources[{i}].weight", resource.weight, "must be 1"))
        raise_for_problems(problems)


class _RequestedAmounts(NamedTuple):
    """Amounts that the pod adds to each resource; `too_big` if one exceeds int64.

    `may_be_devices` is True if a DeviceClass may provide one of the resources.
    """

    each: tuple[tuple[str, int], ...]
    too_big: bool
    may_be_devices: bool


_PRE_SCORE_STATE: StateKey[_RequestedAmounts] = StateKey("NodeResourcesBalancedAllocation")


class NodeResourcesBalancedAllocation(PreScorePlugin, ScorePlugin):
    """Score a node by how much the pod makes the use of its resources more even.

    Counts real requests, without defaults. Of extended resources that a DeviceClass provides, the devices count on
    nodes that have none allocatable.
    """

    name = "NodeResourcesBalancedAllocation"
    Args = NodeResourcesBalancedAllocationArgs
    reads = Reads.OWN_NODE_AND_PODS
    reads_labels = False
    reads_claims = False
    reads_match_fields = False
    pre_reads_nodes = False
    watches = DEVICE_KINDS

    def __init__(self, args: NodeResourcesBalancedAllocationArgs, handle: Handle) -> None:
        super().__init__(args, handle)
        self._devices = handle.shared(DeviceTotals)
        self.has_score_key = any(is_device_resource(r.name) for r in args.resources)

    def sign_group(self, group: PodSignatureGroup) -> Hashable:
        return tuple(group.requests.effective.items())

    def node_fields_of(self, group: PodSignatureGroup) -> NodeFields:
        return NodeFields.ALLOCATABLE | node_fields_of_devices(group.requests.effective)

    def pre_score(self, cycle: Cycle, pod: Pod, nodes: NodeTable) -> Skip | None:
        requests = pod.requests.effective
        names = [r.name for r in self.args.resources]
        if not any(requests.get(name, 0) for name in names):
            return SKIP
        each = tuple((n, requests.get(n, 0)) for n in names if _is_counted(n, requests.get(n, 0)))
        has_devices = any(is_device_resource(name) for name, _ in each)
        cycle[_PRE_SCORE_STATE] = _RequestedAmounts(each, any(amount > MAX_INT64 for _, amount in each), has_devices)
        return None

    def score(self, cycle: Cycle, pod: Pod, node: NodeInfo) -> int:
        allocatable, requested = node.allocatable, node.requested
        before, after = [], []
        each, _, has_devices = cycle[_PRE_SCORE_STATE]
        for resource, amount in each:
            capacity, used = allocatable.get(resource, 0), requested.get(resource, 0)
            if not capacity and has_devices and is_device_resource(resource):
                capacity, used = self._devices.on_node(resource, node)
            if capacity:
                whole = float(capacity)  # Go divides floats; dividing Python's ints would round differently.
                before.append(used / whole if used < capacity else 1.0)
                used += amount
                after.append(used / whole if used < capacity else 1.0)
        return _gain(_evenness(after), _evenness(before))

    def score_cache_key(self, cycle: Cycle) -> Hashable:
        return self._devices.version if cycle[_PRE_SCORE_STATE].may_be_devices else ()

    def score_all(self, cycle: Cycle, pod: Pod, nodes: NodeTable) -> Scores:
        each, too_big, has_devices = cycle[_PRE_SCORE_STATE]
        if too_big:
            return super().score_all(cycle, pod, nodes)
        columns = tuple([(amount, nodes.allocatable(name), nodes.requested(name)) for name, amount in each])
        if has_devices:
            columns = tuple(
                [
                    (amount, *self._devices.replaced(name, nodes, allocatable, used))
                    for (name, _), (amount, allocatable, used) in zip(each, columns, strict=True)
                ]
            )
        scores = np.empty(len(nodes), np.int64)
        kernels.balance_scores(scores, columns)
        return scores


def _is_counted(resource: str, amount: int) -> bool:
    if is_scalar(resource):
        return amount > 0
    return resource in (CPU, MEMORY, EPHEMERAL_STORAGE)


def _gain(after: int, before: int) -> int:
    # Both are at least 50, so the sum is never negative and rounding down equals Go's truncation.
    return MAX_NODE_SCORE // 2 + (MAX_NODE_SCORE // 2 + after - before) // 2


def _evenness(shares: Sequence[float]) -> int:
    """Return 100 if all shares are equal, less with a larger standard deviation."""
    deviation = 0.0
    if len(shares) == 2:
        deviation = abs((shares[0] - shares[1]) / 2)
    elif len(shares) > 2:
        # Sum in order and without compensation, as Go does.
        total = squares = 0.0
        for share in shares:
            total += share
        mean = total / len(shares)
        for share in shares:
            squares += (share - mean) * (share - mean)
        deviation = math.sqrt(squares / len(shares))
    return int((1 - deviation) * MAX_NODE_SCORE)
