"""Counters and sets of placed pods by the attributes of pods that counts select.

A new counter evaluates only the sets that it selects, and a new set is evaluated only by the counters that select it.
So neither gets slower with the number of the others.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable
from typing import Any

from pyscheduler.api.selection_index import UNREADABLE, ByAttributes, ByValue, SelectionIndex
from pyscheduler.api.topology import PodSelection
from pyscheduler.core.state.pod_counters import PlacedPodSet, PodCounter


class CounterIndex:
    """Index of counters by `PodCount.selection`, and of sets by the attributes by which counters are found."""

    def __init__(self) -> None:
        self._counters: SelectionIndex[PodCounter[Any]] = SelectionIndex()
        self._sets: ByAttributes[PlacedPodSet] = ByAttributes()

    def add(
        self, counter: PodCounter[Any], selection: PodSelection | None, sets: Collection[PlacedPodSet]
    ) -> Collection[PlacedPodSet]:
        """Add a counter of the selected pods, None for all. Return those of `sets`, the added ones, that it selects."""
        requirements = self._counters.add(counter, selection)
        if requirements is None:
            return sets
        found: dict[PlacedPodSet, None] = {}
        for attributes, values in requirements:
            if attributes not in self._sets:
                added: ByAttributes[PlacedPodSet] = ByAttributes()
                added[attributes] = ByValue()
                for pods in sets:
                    _add_set(added, pods)
                self._sets.update(added)
            found.update(self._sets[attributes].find([*values, *UNREADABLE]))
        return found

    def remove(self, counter: PodCounter[Any]) -> None:
        """Remove a counter."""
        for attributes, _ in self._counters.discard(counter):
            if attributes not in self._counters.attributes:
                self._sets.pop(attributes, None)

    def add_set(self, pods: PlacedPodSet) -> Iterable[PodCounter[Any]]:
        """Add a set and return the counters that select it."""
        _add_set(self._sets, pods)
        return self._counters.candidates(pods.signature)

    def remove_set(self, pods: PlacedPodSet) -> None:
        """Remove a set."""
        for sets, values in self._sets.of(pods.signature):
            # They may have been readable when they were added and not now, or the reverse.
            sets.discard(pods, [*sets] if values is UNREADABLE else [*values, *UNREADABLE])


def _add_set(index: ByAttributes[PlacedPodSet], pods: PlacedPodSet) -> None:
    for sets, values in index.of(pods.signature):
        sets.add(pods, values)
