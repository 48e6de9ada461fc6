"""NodeResourcesBalancedAllocation: use a node's resources evenly, so that none is left over when another runs out."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from pyscheduler import kernels
from pyscheduler.api import (
    MAX_NODE_SCORE,
    SKIP,
    Cycle,
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
from pyscheduler.intree._problems import duplicate, invalid, raise_for_problems
from pyscheduler.intree._scoring import CPU_AND_MEMORY, ResourceSpec


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
    """What the pod adds to each resource, and whether one of the amounts is beyond int64."""

    each: tuple[tuple[str, int], ...]
    too_big: bool


_PRE_SCORE_STATE: StateKey[_RequestedAmounts] = StateKey("NodeResourcesBalancedAllocation")


class NodeResourcesBalancedAllocation(PreScorePlugin, ScorePlugin):
    """Scores a node by how much more evenly its resources would be used with the pod than without it.

    Real requests are counted, without defaults. Extended resources that a DeviceClass maps to devices are counted like
    any other, for now.
    """

    name = "NodeResourcesBalancedAllocation"
    Args = NodeResourcesBalancedAllocationArgs
    reads = Reads.OWN_NODE_AND_PODS
    reads_labels = False
    reads_claims = False
    reads_match_fields = False

    def pre_score(self, cycle: Cycle, pod: Pod, nodes: NodeTable) -> Skip | None:
        held = pod.requests.effective
        names = [r.name for r in self.args.resources]
        if not any(held.get(name, 0) for name in names):
            return SKIP
        each = tuple((n, held.get(n, 0)) for n in names if _is_counted(n, held.get(n, 0)))
        cycle[_PRE_SCORE_STATE] = _RequestedAmounts(each, any(amount > MAX_INT64 for _, amount in each))
        return None

    def score(self, cycle: Cycle, pod: Pod, node: NodeInfo) -> int:
        allocatable, requested = node.allocatable, node.requested
        before, after = [], []
        for resource, amount in cycle[_PRE_SCORE_STATE].each:
            capacity = allocatable.get(resource, 0)
            if capacity:
                # As floats: that is what Go divides, and dividing Python's ints would round differently.
                used, whole = requested.get(resource, 0), float(capacity)
                before.append(used / whole if used < capacity else 1.0)
                used += amount
                after.append(used / whole if used < capacity else 1.0)
        return _gain(_evenness(after), _evenness(before))

    def score_all(self, cycle: Cycle, pod: Pod, nodes: NodeTable) -> Scores:
        each, too_big = cycle[_PRE_SCORE_STATE]
        if too_big:
            return super().score_all(cycle, pod, nodes)
        columns = tuple([(amount, nodes.allocatable(name), nodes.requested(name)) for name, amount in each])
        scores = np.empty(len(nodes), np.int64)
        kernels.balance_scores(scores, columns)
        return scores


def _is_counted(resource: str, amount: int) -> bool:
    if is_scalar(resource):
        return amount > 0
    return resource in (CPU, MEMORY, EPHEMERAL_STORAGE)


def _gain(after: int, before: int) -> int:
    # Neither is below 50, so the sum is never negative and rounding down is cutting off.
    return MAX_NODE_SCORE // 2 + (MAX_NODE_SCORE // 2 + after - before) // 2


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
