"""Free capacity for a claim by node, from the CSIStorageCapacity objects that suffice for it."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from pyscheduler.api import Domains, Ints, NodeTable, Selector
from pyscheduler.intree.volumes.storage_use import MOST


class FreeCapacity(NamedTuple):
    """Bytes that nodes within a topology can still provision."""

    nodes: Selector
    size: int


class CapacityIndex:
    """The first of several capacities that a node has access to.

    Most drivers of local storage publish one object per node, each with a selector `key In [value]`, so these are
    looked up by label.
    """

    def __init__(self, capacities: Iterable[FreeCapacity]) -> None:
        self._by_label: dict[str, dict[str, tuple[int, int]]] = {}
        """Number and size of the first capacity, by key and value of a label."""
        self._others: list[tuple[int, FreeCapacity]] = []
        self._by_domain: dict[str, tuple[Domains, NDArray[np.int64], NDArray[np.int64]]] = {}
        """Number and size of the first capacity by domain id, with the domains for which they were computed, by key."""
        for number, capacity in enumerate(capacities):
            requirements = capacity.nodes.requirements
            if len(requirements) == 1 and requirements[0].operator == "In":
                by_value = self._by_label.setdefault(requirements[0].key, {})
                for value in requirements[0].values:
                    by_value.setdefault(value, (number, capacity.size))
            else:
                self._others.append((number, capacity))

    def at(self, labels: Mapping[str, str]) -> int | None:
        """Return the size that a node with these labels has access to; None if there is none."""
        found: tuple[int, int] | None = None
        for key, by_value in self._by_label.items():
            candidate = by_value.get(labels[key]) if key in labels else None
            if candidate is not None and (found is None or candidate < found):
                found = candidate
        for number, capacity in self._others:
            if found is not None and found[0] < number:
                break
            if capacity.nodes.matches(labels):
                return capacity.size
        return None if found is None else found[1]

    def sizes(self, nodes: NodeTable, default: int) -> Ints:
        """Return `at` for each node, at most 2**63 - 1, and `default` for those that have access to none."""
        sizes: Ints = np.full(len(nodes), default, np.int64)
        numbers: Ints = np.full(len(nodes), MOST, np.int64)
        for key in self._by_label:
            number_of, size_of = self._columns(key, nodes.all_nodes.topology(key))
            ids = nodes.topology(key).ids
            found = number_of[ids]
            earlier = found < numbers
            sizes[earlier] = size_of[ids[earlier]]
            np.minimum(numbers, found, out=numbers)
        for number, capacity in self._others:
            earlier = numbers > number
            if not earlier.any():
                break
            earlier &= nodes.matches(capacity.nodes)
            sizes[earlier] = min(capacity.size, MOST)
            numbers[earlier] = number
        return sizes

    def _columns(self, key: str, domains: Domains) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
        """Return number and size of the first capacity by domain id; thousands of nodes have one capacity each."""
        known = self._by_domain.get(key)
        if known is None or known[0] is not domains:
            numbers = np.full(domains.size, MOST, np.int64)
            sizes = np.zeros(domains.size, np.int64)
            for value, (number, size) in self._by_label[key].items():
                domain = domains.known.get(value)
                if domain is not None:
                    numbers[domain], sizes[domain] = number, min(size, MOST)
            known = self._by_domain[key] = domains, numbers, sizes
        return known[1:]
