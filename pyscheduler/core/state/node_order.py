"""kube-scheduler's order of nodes: round-robin over the zones, within a zone in the order of their creation.

This is its node tree (pkg/scheduler/backend/cache/node_tree.go) with the list that its snapshot builds from it. The
list is rebuilt only after nodes were added or removed: a node that changes its zone keeps its position until then, and
one that is removed and added again between two attempts keeps it as well.
"""

from __future__ import annotations

from collections.abc import Mapping
from itertools import zip_longest
from typing import Protocol

import numpy as np
from numpy.typing import NDArray

_ZONE = ("failure-domain.beta.kubernetes.io/zone", "topology.kubernetes.io/zone")
_REGION = ("failure-domain.beta.kubernetes.io/region", "topology.kubernetes.io/region")

Zone = tuple[str, str]


class HasRow(Protocol):
    """A node with its place in the columns."""

    row: int


class NodeOrder:
    """Node names by zone, each in order of addition."""

    def __init__(self) -> None:
        self._zones: dict[Zone, dict[str, None]] = {}
        self._zone_of: dict[str, Zone] = {}
        self._listed: list[str] = []
        self._added: set[str] = set()
        self._removed: set[str] = set()
        self._rows: NDArray[np.intp] | None = None

    def put(self, name: str, labels: Mapping[str, str]) -> None:
        """Add a node, or move it to the zone of its new labels."""
        zone, old = zone_of(labels), self._zone_of.get(name)
        if zone == old:
            return
        if old is None:
            self._record(name, self._removed, self._added)
        else:
            self._leave(old, name)
        self._zones.setdefault(zone, {})[name] = None
        self._zone_of[name] = zone

    def remove(self, name: str) -> None:
        """Remove a node."""
        self._leave(self._zone_of.pop(name), name)
        self._record(name, self._added, self._removed)

    def names(self) -> list[str]:
        """Return all names in order; the list is rebuilt only if nodes were added or removed since the last call."""
        if self._added or self._removed:
            rounds = zip_longest(*self._zones.values())
            self._listed = [name for names in rounds for name in names if name is not None]
            self._added.clear()
            self._removed.clear()
        return self._listed

    def rows(self, nodes: Mapping[str, HasRow]) -> NDArray[np.intp]:
        """Return the rows of the nodes, given by name, in this order."""
        names = self.names()
        if self._rows is None:
            self._rows = np.fromiter((node.row for name in names if (node := nodes.get(name))), np.intp, len(names))
        return self._rows

    def _leave(self, zone: Zone, name: str) -> None:
        names = self._zones[zone]
        del names[name]
        if not names:
            del self._zones[zone]

    def _record(self, name: str, opposite: set[str], changes: set[str]) -> None:
        """Record an addition or removal; it cancels an opposite change of the node since the list was built."""
        self._rows = None
        if name in opposite:
            opposite.remove(name)
        else:
            changes.add(name)


def zone_of(labels: Mapping[str, str]) -> Zone:
    """Return region and zone of the node's labels; the deprecated labels take precedence, even if empty."""
    return _first(labels, _REGION), _first(labels, _ZONE)


def _first(labels: Mapping[str, str], keys: tuple[str, ...]) -> str:
    return next((labels[key] for key in keys if key in labels), "")
