"""BinPack: prefer the nodes that are fullest of what the pod requests (Volcano's binpack).

NodeResourcesFit with MostAllocated also counts cpu and memory that a pod does not request, with defaults for containers
without requests. BinPack counts requested resources only, as they are.
"""

from __future__ import annotations

from collections.abc import Hashable, Mapping
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

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
from pyscheduler.api.resources import CPU, MEMORY


@dataclass(frozen=True, slots=True)
class ResourceWeight:
    """A resource and its weight in the score."""

    name: str
    weight: int = 1


@dataclass(frozen=True, slots=True)
class BinPackArgs:
    """Weights of the resources; others are not scored."""

    resources: tuple[ResourceWeight, ...] = (ResourceWeight(CPU), ResourceWeight(MEMORY))

    def __post_init__(self) -> None:
        names = [resource.name for resource in self.resources]
        for i, resource in enumerate(self.resources):
            if not resource.name:
                raise ValueError(f"resources[{i}].name: must not be empty")
            if names.index(resource.name) != i:
                raise ValueError(f'resources[{i}].name: "{resource.name}" is given twice')
            if resource.weight < 1:
                raise ValueError(f"resources[{i}].weight: must be at least 1, not {resource.weight}")


class _ScoredRequest(NamedTuple):
    """A requested resource that is scored."""

    resource: str
    amount: int
    weight: int


_REQUESTS: StateKey[tuple[_ScoredRequest, ...]] = StateKey("BinPack")


class BinPack(PreScorePlugin, ScorePlugin):
    """Score nodes by the weighted mean of the shares that are allocated of each requested resource, with the pod.

    A resource that the node lacks, or that the pod would exceed, counts as 0.
    """

    name = "BinPack"
    Args = BinPackArgs
    reads = Reads.OWN_NODE_AND_PODS
    reads_labels = False
    reads_claims = False
    reads_match_fields = False
    node_fields = NodeFields.ALLOCATABLE
    pre_reads_nodes = False

    def __init__(self, args: BinPackArgs, handle: Handle) -> None:
        super().__init__(args, handle)
        self._weights = tuple((resource.name, resource.weight) for resource in args.resources)

    def sign_group(self, group: PodSignatureGroup) -> Hashable:
        return self._requests(group.requests.real)

    def pre_score(self, cycle: Cycle, pod: Pod, nodes: NodeTable) -> Skip | None:
        requests = cycle[_REQUESTS] = self._requests(pod.requests.real)
        return None if requests else SKIP

    def _requests(self, amounts: Mapping[str, int]) -> tuple[_ScoredRequest, ...]:
        return tuple(_ScoredRequest(name, amounts[name], weight) for name, weight in self._weights if amounts.get(name))

    # Both forms convert to float before they add, so that amounts near the limit of int64 give equal results.

    def score(self, cycle: Cycle, pod: Pod, node: NodeInfo) -> int:
        total, weights = 0.0, 0
        for resource, amount, weight in cycle[_REQUESTS]:
            weights += weight
            capacity = float(node.allocatable.get(resource, 0))
            used = float(node.requested.get(resource, 0)) + float(amount)
            if used <= capacity:
                total += weight * used / capacity
        return int(MAX_NODE_SCORE * total / weights)

    def score_all(self, cycle: Cycle, pod: Pod, nodes: NodeTable) -> Scores:
        total, weights = np.zeros(len(nodes)), 0
        for resource, amount, weight in cycle[_REQUESTS]:
            weights += weight
            capacity = nodes.allocatable(resource).astype(np.float64)
            used = nodes.requested(resource) + float(amount)
            total += np.divide(weight * used, capacity, out=np.zeros(len(nodes)), where=used <= capacity)
        return (MAX_NODE_SCORE * total / weights).astype(np.int64)
