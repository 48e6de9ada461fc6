"""Loss of a preemption: what kube-scheduler's pickOneNodeForPreemption compares, for one node and in columns.

In this order: violated PodDisruptionBudgets, highest priority of the victims, sum of their priorities, their number,
and the earliest start time of those of the highest priority, the latest such time being the best.
"""

from __future__ import annotations

import math
from collections.abc import Mapping

import numpy as np
from numpy.typing import NDArray

from pyscheduler.api import Candidate

Loss = tuple[float, float, float, float, float]
Losses = NDArray[np.float64]
"""Losses of several nodes, one row each; all of them infinite for a node that is not a candidate."""
OFFSET = 1 << 31
"""Makes all priorities positive, so that each further victim increases their sum."""
_CRITERIA = 5


def best(candidates: Mapping[str, Candidate]) -> tuple[str, ...]:
    """Return the names of the equally good candidates, in the given order."""
    names = tuple(candidates)
    if len(names) == 1:  # an extender may have removed all its victims
        return names
    return tuple(names[i] for i in least(np.array([loss(candidate) for candidate in candidates.values()])))


def least(losses: Losses) -> NDArray[np.intp]:
    """Return the indexes of the nodes with the least loss, in ascending order."""
    indexes = None  # None: all nodes, as they often agree in most criteria
    for column in losses.T:
        values = column if indexes is None else column[indexes]
        is_least = values == values[values.argmin()]
        if np.count_nonzero(is_least) < len(values):
            indexes = np.flatnonzero(is_least) if indexes is None else indexes[is_least]
    return np.arange(len(losses)) if indexes is None else indexes


def loss(candidate: Candidate) -> Loss:
    """Return the loss of a candidate with at least one victim."""
    victims = candidate.victims
    highest = max(pod.priority for pod in victims)
    earliest = min(pod.started for pod in victims if pod.priority == highest)
    total = sum(pod.priority + OFFSET for pod in victims)
    return candidate.pdb_violations, highest, total, len(victims), -earliest


def not_candidates(nodes: int) -> Losses:
    """Return the losses of nodes that are not candidates."""
    return np.full((nodes, _CRITERIA), math.inf)


def losses_of(
    victims: NDArray[np.bool_], violating: NDArray[np.bool_], priorities: NDArray[np.int64], start: NDArray[np.float64]
) -> Losses:
    """Return the losses of nodes; `[i, j]` is pod `i` of node `j`, with a True in `victims` if it is a victim."""
    if not len(victims):
        return not_candidates(victims.shape[1])
    highest = np.where(victims, priorities, -OFFSET).max(0)
    earliest = np.where(victims & (priorities == highest), start, math.inf).min(0)
    number = victims.sum(0)
    total = np.where(victims, priorities + OFFSET, 0).sum(0)
    losses = np.stack(((victims & violating).sum(0), highest, total, number, -earliest), axis=1)
    losses[number == 0] = math.inf
    return losses
