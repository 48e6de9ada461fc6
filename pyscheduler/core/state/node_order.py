"""The order in which kube-scheduler goes through the nodes: a zone's nodes as they came, the zones by turns.

This is its node tree (pkg/scheduler/backend/cache/node_tree.go) together with the list that its snapshot makes of it:
the list is made anew only when nodes have come or gone, so a node that was given another zone keeps its place until
then, and a node that went and came back between two attempts never loses it.
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
    """Node names by zone, in the order in which they came."""

    def __init__(self) -> None:
        self._zones: dict[Zone, dict[str, None]] = {}
        self._zone_of: dict[str, Zone] = {}
        self._listed: list[str] = []
        self._unlisted: set[str] = set()
        self._gone: set[str] = set()
        self._rows: NDArray[np.intp] | None = None

    def put(self, name: str, labels: Mapping[str, str]) -> None:
        """A node has come, or has other labels."""
        zone, old = zone_of(labels), self._zone_of.get(name)
        if zone == old:
            return
        if old is None:
            self._note(name, self._gone, self._unlisted)
        else:
            self._leave(old, name)
        self._zones.setdefault(zone, {})[name] = None
        self._zone_of[name] = zone

    def remove(self, name: str) -> None:
        """A node has gone."""
        self._leave(self._zone_of.pop(name), name)
        self._note(name, self._unlisted, self._gone)

    def names(self) -> list[str]:
        """All names in order, as of this attempt. What changes afterwards counts from the next call on."""
        if self._unlisted or self._gone:
            turns = zip_longest(*self._zones.values())
            self._listed = [name for turn in turns for name in turn if name is not None]
            self._unlisted.clear()
            self._gone.clear()
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

    def _note(self, name: str, cancelled: set[str], noted: set[str]) -> None:
        """A node came or went: if that only takes back what happened since the list was made, the list still holds."""
        self._rows = None
        if name in cancelled:
            cancelled.remove(name)
        else:
            noted.add(name)


def zone_of(labels: Mapping[str, str]) -> Zone:
    """Region and zone by the node's labels, the deprecated ones first, even if empty."""
    return _first(labels, _REGION), _first(labels, _ZONE)


def _first(labels: Mapping[str, str], keys: tuple[str, ...]) -> str:
    return next((labels[key] for key in keys if key in labels), "")
