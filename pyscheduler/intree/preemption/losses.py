"""Loss of a preemption: what kube-scheduler's pickOneNodeForPreemption compares, for one node and in columns.

In this order: violated PodDisruptionBudgets, highest priority of the victims, sum of their priorities, their number,
and the earliest start time of those of the highest priority, the latest such time being the best.
"""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np
from numpy.typing import NDArray

from pyscheduler.api import Candidate
from pyscheduler.kernels import victim_losses

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


def losses_of(
    pods: NDArray[np.int32],
    stays: NDArray[np.bool_],
    violating: NDArray[np.bool_],
    start: NDArray[np.float64],
    priorities: NDArray[np.int64],
) -> Losses:
    """Return the losses of nodes; `[i, j]` is pod `i` of node `j`, by the number of its kind, and -1 is no pod.

    All pods are victims that do not stay. `priorities` are those of the kinds (`PodKinds.values`).
    """
    losses, flat = np.empty((_CRITERIA, pods.shape[1])), pods.size
    victim_losses(
        losses.reshape(-1),
        stays.reshape(flat),
        pods.reshape(flat),
        violating.reshape(flat),
        start.reshape(flat),
        priorities,
        OFFSET,
    )
    return losses.T
