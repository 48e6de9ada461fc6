"""Domains of all nodes by label, updated in constant time when a node is added or removed."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np
from numpy.typing import NDArray

from pyscheduler.api.topology import NO_DOMAIN, Domains
from pyscheduler.core.state.columns import CategoricalColumn, grown

_MAX_TOPOLOGIES = 64


class Topology(Domains):
    """Domains of all nodes by one label. The ids are a view of its column, so that a moved row keeps its domain."""

    __slots__ = ("column",)

    def __init__(self, column: CategoricalColumn[str | None], n: int) -> None:
        super().__init__(column.ids(slice(0, n), n), column.known)
        self.column = column

    @property
    def sizes(self) -> NDArray[np.int64]:
        sizes = super().sizes
        if len(sizes) < self.size:
            sizes = self._sizes = grown(sizes, 2 * self.size)
        return sizes[: self.size]

    def resize(self, n: int, domain: int, change: int) -> None:
        """Adapt to `n` nodes after one of a domain was added (1) or removed (-1)."""
        if self._sizes is not None:  # otherwise they are counted when they are read
            sizes, count = self.sizes, self.non_empty_count
            sizes[domain] += change
            if domain != NO_DOMAIN and sizes.item(domain) == max(change, 0):
                self._non_empty_count = count + change
        self.ids, self._unlabelled = self.column.ids(slice(0, n), n), None


class _Snapshot(Domains):
    """Domains of all nodes until one is added, removed or gets another domain."""

    __slots__ = ("_source",)

    def __init__(self, source: Topology) -> None:
        super().__init__(source.ids, source.known)
        self._source = source

    @property
    def source(self) -> Domains:
        return self._source

    @property
    def sizes(self) -> NDArray[np.int64]:
        return self._source.sizes

    @property
    def unlabelled(self) -> NDArray[np.intp]:
        return self._source.unlabelled

    @property
    def non_empty_count(self) -> int:
        return self._source.non_empty_count


class Topologies:
    """Cached topologies by label key."""

    def __init__(self) -> None:
        self._by_key: dict[str, Topology] = {}
        self._snapshots: dict[str, _Snapshot] = {}
        """Those of the topologies that were read since a node was added or removed."""

    def of(self, key: str, column: CategoricalColumn[str | None], n: int) -> Domains:
        """Return the domains of all `n` nodes; the same object until one of these changes."""
        topology = self._by_key.get(key)
        if topology is None or topology.column is not column or topology.known is not column.known:
            if len(self._by_key) >= _MAX_TOPOLOGIES:
                self._by_key.clear()
                self._snapshots.clear()
            topology = self._by_key[key] = Topology(column, n)
            self._snapshots.pop(key, None)
        snapshot = self._snapshots.get(key)
        if snapshot is None:
            snapshot = self._snapshots[key] = _Snapshot(topology)
        return snapshot

    def drop_changed(self, before: Mapping[str, str], now: Mapping[str, str]) -> None:
        """Drop the topologies in which a node has another domain than before."""
        for key in [key for key in self._by_key if before.get(key) != now.get(key)]:
            del self._by_key[key]
            self._snapshots.pop(key, None)

    def add_last_node(self, n: int) -> None:
        """Include the last of `n` nodes, which is in the columns already."""
        self._snapshots.clear()
        for key, topology in [*self._by_key.items()]:
            if topology.known is topology.column.known:
                topology.resize(n, topology.column.ids(slice(0, n), n).item(n - 1), 1)
            else:
                del self._by_key[key]  # the domains got new ids

    def topologies_with_domain(self, row: int) -> list[tuple[Topology, int]]:
        """Return the topologies, each with the domain of a row, before another node is moved to it."""
        return [(topology, topology.ids.item(row)) for topology in self._by_key.values()]

    def removed(self, domains: list[tuple[Topology, int]], n: int) -> None:
        """Leave out a node that had these domains; `n` are left, in the columns too."""
        self._snapshots.clear()
        for topology, domain in domains:
            topology.resize(n, domain, -1)
