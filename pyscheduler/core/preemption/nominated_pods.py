"""Nodes a second time with their nominated pods, since a preemptor must fit with and without them.

In columns this is one evaluation of a longer table (kube-scheduler's RunFilterPluginsWithNominatedPods runs Filter
twice on such a node).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from itertools import repeat

import numpy as np
from numpy.typing import NDArray

from pyscheduler.api.pod import Pod
from pyscheduler.api.topology import PodKinds
from pyscheduler.api.victims import PotentialVictims


def no_victims(rows: NDArray[np.intp]) -> PotentialVictims:
    """Return nodes without potential victims."""
    return PotentialVictims(rows, np.empty((0, len(rows)), np.int32), PodKinds(), lambda _: ())


def with_nominated_pods(victims: PotentialVictims, nominated: Mapping[int, Sequence[Pod]]) -> PotentialVictims:
    """Return the nodes with these indexes, each with its nominated pods after the potential victims."""
    indexes, steps = [*nominated], len(victims.pods)
    most = max(map(len, nominated.values()), default=0)
    pods = np.full((steps + most, len(indexes)), -1, np.int32)
    pods[:steps] = victims.pods[:, indexes]
    for j, others in enumerate(nominated.values()):
        pods[steps : steps + len(others), j] = [victims.kinds.number(other) for other in others]

    def pods_of(j: int) -> Sequence[Pod]:
        own, others = victims.pods_of(indexes[j]), nominated[indexes[j]]
        return [*own, *repeat(others[0], steps - len(own)), *others]

    return PotentialVictims(victims.rows[indexes], pods, victims.kinds, pods_of)


def joined(first: PotentialVictims, second: PotentialVictims) -> PotentialVictims:
    """Return the nodes of both, of which the second has at least as many pods and the same kinds."""
    n, rows = len(first.rows), np.concatenate((first.rows, second.rows))
    pods = np.full((len(second.pods), len(rows)), -1, np.int32)
    pods[: len(first.pods), :n] = first.pods
    pods[:, n:] = second.pods
    return PotentialVictims(rows, pods, first.kinds, lambda j: first.pods_of(j) if j < n else second.pods_of(j - n))
