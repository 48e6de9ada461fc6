"""Scoring strategies of NodeResourcesFit and the args that select them.

A strategy rates each resource of a node from its use and its capacity; the score is the weighted mean. Use is capped at
the capacity first, which changes no rating and keeps columns from overflowing. The ratings of one node are in
`node_resources_fit.py`, those of all nodes in `kernels.allocation_scores`.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated

import numpy as np

from pyscheduler import kernels
from pyscheduler.api import MAX_NODE_SCORE, Ints, NodeTable
from pyscheduler.api.resources import CPU, MEMORY
from pyscheduler.intree._problems import forbidden, invalid, required, unsupported

LEAST_ALLOCATED = "LeastAllocated"
MOST_ALLOCATED = "MostAllocated"
REQUESTED_TO_CAPACITY_RATIO = "RequestedToCapacityRatio"
_TYPES = (LEAST_ALLOCATED, MOST_ALLOCATED, REQUESTED_TO_CAPACITY_RATIO)
_MAX_POINTS = 10
"""Highest score of a shape point in the args; node scores go up to MAX_NODE_SCORE."""
_ALL_USED = 100


@dataclass(frozen=True, slots=True)
class ResourceSpec:
    """A resource and its weight in the score; weight 0 means 1."""

    name: str
    weight: int = 1

    def __post_init__(self) -> None:
        object.__setattr__(self, "weight", self.weight or 1)


CPU_AND_MEMORY = (ResourceSpec(CPU), ResourceSpec(MEMORY))


@dataclass(frozen=True, slots=True)
class UtilizationShapePoint:
    """Score (0..10) of a resource at `utilization` percent."""

    utilization: Annotated[int, "int32"] = 0
    score: Annotated[int, "int32"] = 0


@dataclass(frozen=True, slots=True)
class RequestedToCapacityRatioParam:
    """Piecewise linear function through points, constant before the first and after the last."""

    shape: tuple[UtilizationShapePoint, ...] = ()


@dataclass(frozen=True, slots=True)
class ScoringStrategy:
    """NodeResourcesFitArgs.scoringStrategy (kubescheduler.config.k8s.io/v1)."""

    type: str = ""
    resources: tuple[ResourceSpec, ...] = CPU_AND_MEMORY
    requested_to_capacity_ratio: RequestedToCapacityRatioParam | None = None

    def __post_init__(self) -> None:
        object.__setattr__(self, "resources", self.resources or CPU_AND_MEMORY)


def strategy_problems(strategy: ScoringStrategy) -> list[str]:
    """Return the validation errors of a strategy, in kube-scheduler's words and order."""
    problems = [] if strategy.type in _TYPES else [unsupported("scoringStrategy.type", strategy.type, _TYPES)]
    problems += [
        invalid(
            f"scoringStrategy.resources[{i}].weight",
            resource.weight,
            f"resource weight of {resource.name} not in valid range (0, 100]",
        )
        for i, resource in enumerate(strategy.resources)
        if not 0 < resource.weight <= 100
    ]
    ratio, path = strategy.requested_to_capacity_ratio, "scoringStrategy.requestedToCapacityRatio"
    if strategy.type != REQUESTED_TO_CAPACITY_RATIO:
        return problems + [forbidden(path, "must be nil when type is not RequestedToCapacityRatio")] * (
            ratio is not None
        )
    if ratio is None:
        return [*problems, required(path, "must be specified when type is RequestedToCapacityRatio")]
    return problems + shape_problems(ratio.shape, f"{path}.shape")


def shape_problems(shape: tuple[UtilizationShapePoint, ...], path: str) -> list[str]:
    """Return the validation errors of the points of a shape."""
    if not shape:
        return [required(path, "at least one point must be specified")]
    falling = (i for i in range(1, len(shape)) if shape[i - 1].utilization >= shape[i].utilization)
    problems = [
        invalid(f"{path}[{i}].utilization", shape[i].utilization, "values must be sorted in increasing order")
        for i in list(falling)[:1]
    ]
    for i, point in enumerate(shape):
        if not 0 <= point.utilization <= _ALL_USED:
            problems.append(invalid(f"{path}[{i}].utilization", point.utilization, "not in valid range [0, 100]"))
        if not 0 <= point.score <= _MAX_POINTS:
            problems.append(invalid(f"{path}[{i}].score", point.score, "not in valid range [0, 10]"))
    return problems


def for_columns(strategy: ScoringStrategy) -> tuple[int, Ints]:
    """Return the strategy as arguments of `kernels.allocation_scores`."""
    if strategy.requested_to_capacity_ratio is None:
        return kernels.LEAST if strategy.type == LEAST_ALLOCATED else kernels.MOST, np.empty(0, np.int64)
    return kernels.BY_SHAPE, np.array(ratings_of_shape(strategy.requested_to_capacity_ratio.shape), np.int64)


def ratings_of_shape(shape: tuple[UtilizationShapePoint, ...]) -> tuple[int, ...]:
    """Scores at 0, 1, … 100 percent."""
    return tuple(_on_line(shape, percent) for percent in range(_ALL_USED + 1))


class Capacities:
    """Cached largest capacity of any node, for sets of resources; invalidated when a node changes."""

    def __init__(self) -> None:
        self._version = -1
        self._known: dict[tuple[str, ...], int] = {}

    def greatest(self, nodes: NodeTable, resources: tuple[str, ...]) -> int:
        """Return the largest capacity of the resources on any node, inside the table or not; 0 if none."""
        if self._version != nodes.version:
            self._version = nodes.version
            self._known.clear()
        cached = self._known.get(resources)
        if cached is None:
            cached = max(
                (int(nodes.all_nodes.allocatable(resource).max(initial=0)) for resource in resources), default=0
            )
            self._known[resources] = cached
        return cached


def _on_line(shape: tuple[UtilizationShapePoint, ...], percent: int) -> int:
    scale = MAX_NODE_SCORE // _MAX_POINTS
    before = None
    for point in shape:
        if percent <= point.utilization:
            if before is None:
                return point.score * scale
            rise = (point.score - before.score) * scale * (percent - before.utilization)
            return before.score * scale + _truncated(rise, point.utilization - before.utilization)
        before = point
    return shape[-1].score * scale


def _truncated(numerator: int, denominator: int) -> int:
    """Divide as Go does: rounded toward zero, where Python rounds down."""
    quotient = abs(numerator) // abs(denominator)
    return quotient if (numerator < 0) == (denominator < 0) else -quotient
