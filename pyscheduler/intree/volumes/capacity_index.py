"""Free capacity for a claim by node, from the CSIStorageCapacity objects that suffice for it."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import NamedTuple

from pyscheduler.api import Selector


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
