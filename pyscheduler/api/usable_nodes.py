"""Nodes that new pods may use, whatever they request and tolerate."""

from __future__ import annotations

from typing import Final

import numpy as np

from pyscheduler.api.nodes import Mask, NodeTable
from pyscheduler.api.objects import Taint

UNUSABLE: Final = frozenset(f"node.kubernetes.io/{state}" for state in ("not-ready", "unreachable", "unschedulable"))
"""Keys of the taints of nodes that are not ready, not reachable or cordoned, added by the node lifecycle controller."""
_HARD: Final = ("NoSchedule", "NoExecute")


def usable_nodes(nodes: NodeTable) -> Mask:
    """Return a mask of the nodes that are ready and not cordoned."""
    return np.equal(nodes.by_taints(_is_unusable), 0) & ~nodes.unschedulable


def _is_unusable(taints: tuple[Taint, ...]) -> bool:
    return any(taint.key in UNUSABLE and taint.effect in _HARD for taint in taints)
