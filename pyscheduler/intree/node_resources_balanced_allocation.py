"""NodeResourcesBalancedAllocation: use a node's resources evenly, so that none is left over when another runs out."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from pyscheduler.api import (
    MAX_NODE_SCORE,
    SKIP,
    Cycle,
    Handle,
    Ints,
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
# NumPy takes its own numbers sooner than Python's, by a third of what such an operation costs on a few hundred nodes.
_HALF, _ONE, _BEST = np.array(0.5), np.array(1.0), np.array(float(MAX_NODE_SCORE))


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


class _Asked(NamedTuple):
    """What the pod adds to each resource; the amounts as columns of one row too, None if one is beyond int64."""

    each: tuple[tuple[str, int], ...]
    resources: tuple[str, ...]
    amounts: Ints | None

    @staticmethod
    def of(each: tuple[tuple[str, int], ...]) -> _Asked:
        too_big = any(amount > MAX_INT64 for _, amount in each)
        amounts = None if too_big else np.array([[amount] for _, amount in each], np.int64)
        return _Asked(each, tuple(resource for resource, _ in each), amounts)


_ASKED: StateKey[_Asked] = StateKey("NodeResourcesBalancedAllocation")


class NodeResourcesBalancedAllocation(PreScorePlugin, ScorePlugin):
    """Scores a node by how much more evenly its resources would be used with the pod than without it.

    Real requests are counted, without defaults. Extended resources that a DeviceClass maps to devices are counted like
    any other, for now.
    """

    name = "NodeResourcesBalancedAllocation"
    Args = NodeResourcesBalancedAllocationArgs
    reads = Reads.OWN_ROW
    reads_labels = False
    reads_claims = False

    def __init__(self, args: NodeResourcesBalancedAllocationArgs, handle: Handle) -> None:
        super().__init__(args, handle)
        self._capacities = Capacities()

    def pre_score(self, cycle: Cycle, pod: Pod, nodes: NodeTable) -> Skip | None:
        held = pod.requests.held
        names = [r.name for r in self.args.resources]
        if not any(held.get(name, 0) for name in names):
            return SKIP
        cycle[_ASKED] = _Asked.of(tuple((n, held.get(n, 0)) for n in names if _is_counted(n, held.get(n, 0))))
        return None

    def score(self, cycle: Cycle, pod: Pod, node: NodeInfo) -> int:
        allocatable, requested = node.allocatable, node.requested
        before, after = [], []
        for resource, amount in cycle[_ASKED].each:
            capacity = allocatable.get(resource, 0)
            if capacity:
                used = requested.get(resource, 0)
                # As floats first: that is what Go divides, and dividing Python's ints would round differently.
                before.append(float(used) / float(capacity) if used < capacity else 1.0)
                used += amount
                after.append(float(used) / float(capacity) if used < capacity else 1.0)
        return _gain(_evenness(after), _evenness(before))

    def score_all(self, cycle: Cycle, pod: Pod, nodes: NodeTable) -> Scores:
        _, resources, amounts = cycle[_ASKED]
        if amounts is None:
            return super().score_all(cycle, pod, nodes)
        if len(resources) < 2:  # one alone is always even
            return np.full(len(nodes), _gain(MAX_NODE_SCORE, MAX_NODE_SCORE), np.int64)
        capacity = np.array([nodes.allocatable(resource) for resource in resources])
        requested = np.array([nodes.requested(resource) for resource in resources])
        # Before and after, this in an order in which no amount leaves int64.
        used = np.array([requested, np.minimum(requested, capacity - amounts) + amounts])
        np.minimum(used, capacity, out=used)
        if self._capacities.of(nodes, resources)[0] > 0:
            return _gain_columns(_evenness_columns(used / capacity.astype(np.float64), None))
        return _gain_columns(_evenness_columns(used / np.maximum(capacity, 1), capacity > 0))


def _is_counted(resource: str, amount: int) -> bool:
    if is_scalar(resource):
        return amount > 0
    return resource in (CPU, MEMORY, EPHEMERAL_STORAGE)


def _gain(after: int, before: int) -> int:
    # Neither is below 50, so the sum is never negative and rounding down is cutting off.
    return MAX_NODE_SCORE // 2 + (MAX_NODE_SCORE // 2 + after - before) // 2


def _gain_columns(evenness: Ints) -> Scores:
    """`_gain`, of what is before and after."""
    gain: Ints = evenness[1] - evenness[0]
    gain += MAX_NODE_SCORE + MAX_NODE_SCORE // 2
    gain >>= 1  # halved and rounded down
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


def _evenness_columns(shares: Floats, counted: Mask | None) -> Ints:
    """Before and after, of shares by resource and node; `counted` says which nodes have which, None: all have all."""
    if shares.shape[1] == 2:
        deviation = shares[:, 0] - shares[:, 1]
        deviation *= _HALF
        np.absolute(deviation, out=deviation)
        if counted is not None:
            deviation *= counted[0] & counted[1]
    else:
        counts = np.ones(shares.shape[1:], np.bool_) if counted is None else counted
        deviation = np.array([_deviation(each, counts) for each in shares])
    np.subtract(_ONE, deviation, out=deviation)
    deviation *= _BEST
    return deviation.astype(np.int64)


def _deviation(shares: Floats, counted: Mask) -> Floats:
    n = np.maximum(np.count_nonzero(counted, axis=0), 1)
    total = np.zeros(len(n))
    # One after the other, which is how Go sums.
    for share in np.where(counted, shares, 0.0):
        total += share
    mean = total / n
    squares = np.zeros(len(n))
    for share, counts in zip(shares, counted, strict=True):
        squares += np.where(counts, (share - mean) * (share - mean), 0.0)
    deviation: Floats = np.sqrt(squares / n)
    lowest = np.minimum.reduce(np.where(counted, shares, np.inf))
    highest = np.maximum.reduce(np.where(counted, shares, -np.inf))
    # Where only two are left, halving their difference rounds otherwise than the square root does.
    return np.where(n == 2, (highest - lowest) / 2, deviation)
