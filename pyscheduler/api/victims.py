"""Potential victims of a preemption in columns, for dry runs on many nodes at once."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import msgspec
import numpy as np
from numpy.typing import NDArray

from pyscheduler.api.nodes import Mask
from pyscheduler.api.pod import Pod
from pyscheduler.api.topology import PodKinds


class PotentialVictims(msgspec.Struct, frozen=True):
    """Pods that a preemption may evict from each of some nodes, in the order in which they are reprieved."""

    rows: NDArray[np.intp]
    """Index of each node in the table of all nodes."""
    pods: NDArray[np.int32]
    """Number of each pod's kind: `pods[i, j]` is pod `i` of node `j`, -1 if that has fewer pods."""
    kinds: PodKinds
    pods_of: Callable[[int], Sequence[Pod]]
    """Getter for the pods of node `j`, which are needed in rare cases only."""


class Reprieve(msgspec.Struct, frozen=True):
    """Potential victims that can stay on their nodes."""

    stays: NDArray[np.bool_]
    """Mask with the shape of `PotentialVictims.pods`: the pods that stay; False where there is no pod."""
    needs_dry_run: Mask
    """Nodes without a valid result in `stays`: a dry run on the node decides."""
