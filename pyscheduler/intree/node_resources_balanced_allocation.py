"""NodeResourcesBalancedAllocation: use a node's resources evenly, so that none is left over when another runs out."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from pyscheduler.api import (
    MAX_NODE_SCORE,
    SKIP,
    Cycle,
    Handle,
    Mask,
    NodeInfo,
    NodeTable,
    Pod,
    PreScorePlugin,
    Reads,
    ScorePlugin,
    Scores,
    Skip,
    StateKey,
)
from pyscheduler.api.quantity import MAX_INT64
from pyscheduler.api.resources import CPU, EPHEMERAL_STORAGE, MEMORY, is_scalar
from pyscheduler.intree._problems import duplicate, invalid, refuse
from pyscheduler.intree._scoring import CPU_AND_MEMORY, Capacities, ResourceSpec

Floats = NDArray[np.float64]


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
        refuse(problems)


_ASKED: StateKey[tuple[tuple[str, int], ...]] = StateKey("NodeResourcesBalancedAllocation")


class NodeResourcesBalancedAllocation(PreScorePlugin, ScorePlugin):
    """Scores a node by how much more evenly its resources would be used with the pod than without it.

    Real requests are counted, without defaults. Extended resources that a DeviceClass maps to devices are counted like
    any other, for now.
    """

    name = "NodeResourcesBalancedAllocation"
    Args = NodeResourcesBalancedAllocationArgs
    reads = Reads.OWN_ROW

    def __init__(self, args: NodeResourcesBalancedAllocationArgs, handle: Handle) -> None:
        super().__init__(args, handle)
        self._capacities = Capacities()

    def pre_score(self, cycle: Cycle, pod: Pod, nodes: NodeTable) -> Skip | None:
        held = pod.requests.held
        names = [r.name for r in self.args.resources]
        if not any(held.get(name, 0) for name in names):
            return SKIP
        cycle[_ASKED] = tuple((n, held.get(n, 0)) for n in names if _is_counted(n, held.get(n, 0)))
        return None

    def score(self, cycle: Cycle, pod: Pod, node: NodeInfo) -> int:
        allocatable, requested = node.allocatable, node.requested
        before, after = [], []
        for resource, amount in cycle[_ASKED]:
            capacity = allocatable.get(resource, 0)
            if capacity:
                used = requested.get(resource, 0)
                # As floats first: that is what Go divides, and dividing Python's ints would round differently.
                before.append(min(float(used) / float(capacity), 1.0))
                after.append(min(float(used + amount) / float(capacity), 1.0))
        return _gain(_evenness(after), _evenness(before))

    def score_all(self, cycle: Cycle, pod: Pod, nodes: NodeTable) -> Scores:
        asked = cycle[_ASKED]
        if any(amount > MAX_INT64 for _, amount in asked):
            return super().score_all(cycle, pod, nodes)
        before, after, counted = [], [], []
        for resource, amount in asked:
            capacity = nodes.allocatable(resource)
            has_all = self._capacities.of(nodes, resource)[0] > 0
            whole = capacity if has_all else np.maximum(capacity, 1)
            free = np.maximum(capacity - nodes.requested(resource), 0)
            before.append((capacity - free) / whole)
            free -= amount
            after.append((capacity - np.maximum(free, 0)) / whole)
            counted.append(None if has_all else capacity > 0)
        if not asked:
            return np.full(len(nodes), _gain(MAX_NODE_SCORE, MAX_NODE_SCORE), np.int64)
        return _gain_columns(_evenness_columns(after, counted), _evenness_columns(before, counted))


def _is_counted(resource: str, amount: int) -> bool:
    if is_scalar(resource):
        return amount > 0
    return resource in (CPU, MEMORY, EPHEMERAL_STORAGE)


def _gain(after: int, before: int) -> int:
    # Neither is below 50, so the sum is never negative and rounding down is cutting off.
    return MAX_NODE_SCORE // 2 + (MAX_NODE_SCORE // 2 + after - before) // 2


def _gain_columns(after: Scores, before: Scores) -> Scores:
    gain = after - before
    gain += MAX_NODE_SCORE // 2
    gain >>= 1  # halved and rounded down
    gain += MAX_NODE_SCORE // 2
    return gain


def _evenness(shares: Sequence[float]) -> int:
    """100 if all shares are equal, less the further they lie apart."""
    deviation = 0.0
    if len(shares) == 2:
        deviation = abs((shares[0] - shares[1]) / 2)
    elif len(shares) > 2:
        # Summed in order and without compensation, which is how Go sums.
        total = squares = 0.0
        for share in shares:
            total += share
        mean = total / len(shares)
        for share in shares:
            squares += (share - mean) * (share - mean)
        deviation = math.sqrt(squares / len(shares))
    return int((1 - deviation) * MAX_NODE_SCORE)


def _evenness_columns(shares: Sequence[Floats], counted: Sequence[Mask | None]) -> Scores:
    """`counted` says for each resource which nodes have it; None: all of them."""
    if len(shares) == 1:
        return np.full(len(shares[0]), MAX_NODE_SCORE, np.int64)
    if len(shares) == 2:
        deviation = np.abs((shares[0] - shares[1]) / 2)
        for has_it in counted:
            if has_it is not None:
                deviation *= has_it
    else:
        everywhere = np.ones(len(shares[0]), np.bool_)
        deviation = _deviation(shares, [everywhere if has_it is None else has_it for has_it in counted])
    np.subtract(1, deviation, out=deviation)
    deviation *= MAX_NODE_SCORE
    return deviation.astype(np.int64)


def _deviation(shares: Sequence[Floats], counted: Sequence[Mask]) -> Floats:
    n = np.maximum(sum(c.astype(np.int64) for c in counted), 1)
    total = np.zeros(len(shares[0]))
    for share, counts in zip(shares, counted, strict=True):
        total += np.where(counts, share, 0.0)
    mean = total / n
    squares = np.zeros(len(mean))
    for share, counts in zip(shares, counted, strict=True):
        squares += np.where(counts, (share - mean) * (share - mean), 0.0)
    deviation: Floats = np.sqrt(squares / n)
    lowest = np.minimum.reduce([np.where(c, s, np.inf) for s, c in zip(shares, counted, strict=True)])
    highest = np.maximum.reduce([np.where(c, s, -np.inf) for s, c in zip(shares, counted, strict=True)])
    # Where only two are left, halving their difference rounds otherwise than the square root does.
    return np.where(n == 2, (highest - lowest) / 2, deviation)
