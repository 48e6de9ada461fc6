"""Counters and sets of placed pods by the attributes of pods that counts select.

A new counter evaluates only the sets that it selects, and a new set is evaluated only by the counters that select it.
So neither gets slower with the number of the others.
"""

from __future__ import annotations

from collections.abc import Collection, Hashable, Iterable, Sequence
from typing import Any

from pyscheduler.api.pod import PodSignature
from pyscheduler.api.topology import PodAttributes, PodRequirement, PodSelection
from pyscheduler.core.state.pod_counters import PlacedPodSet, PodCounter

Counters = dict[PodCounter[Any], None]
Sets = dict[PlacedPodSet, None]


class CounterIndex:
    """Index by one requirement of each alternative of `PodCount.selection`, the one that the fewest counters have."""

    def __init__(self) -> None:
        self._of_all: Counters = {}
        """Counters that may count any pod."""
        self._by_attributes: dict[PodAttributes, _AttributeIndex] = {}
        self._chosen: dict[PodCounter[Any], Sequence[PodRequirement]] = {}

    def add(
        self, counter: PodCounter[Any], selection: PodSelection | None, sets: Collection[PlacedPodSet]
    ) -> Collection[PlacedPodSet]:
        """Add a counter of the selected pods, None for all. Return those of `sets`, the added ones, that it selects."""
        if selection is None or not all(selection):  # an alternative without requirements selects every pod
            self._of_all[counter] = None
            return sets
        chosen = self._chosen[counter] = [min(required, key=self._number_of_counters) for required in selection]
        found: Sets = {}
        for attributes, values in chosen:
            index = self._by_attributes.get(attributes)
            if index is None:
                index = self._by_attributes[attributes] = _AttributeIndex(attributes, sets)
            index.add(counter, values)
            found.update(index.sets_with(values))
        return found

    def _number_of_counters(self, pods: PodRequirement) -> int:
        """Return how many counters are found by these values: Helm charts set some labels equally on all apps."""
        index = self._by_attributes.get(pods.attributes)
        return 0 if index is None else sum(len(index.counters.get(value, ())) for value in pods.values)

    def remove(self, counter: PodCounter[Any]) -> None:
        """Remove a counter."""
        self._of_all.pop(counter, None)
        for attributes, values in self._chosen.pop(counter, ()):
            index = self._by_attributes.get(attributes)
            if index is not None:
                index.remove(counter, values)
                if not index.counters:
                    del self._by_attributes[attributes]

    def add_set(self, pods: PlacedPodSet) -> Iterable[PodCounter[Any]]:
        """Add a set and return the counters that select it."""
        found = {**self._of_all}
        for index in self._by_attributes.values():
            found.update(index.add_set(pods))
        return found

    def remove_set(self, pods: PlacedPodSet) -> None:
        """Remove a set."""
        for index in self._by_attributes.values():
            index.remove_set(pods)


class _AttributeIndex:
    """Counters and sets by the values of one PodAttributes. Pods whose attributes cannot be read may have any."""

    def __init__(self, attributes: PodAttributes, sets: Iterable[PlacedPodSet]) -> None:
        self._attributes = attributes
        self.counters: dict[Hashable, Counters] = {}
        self._sets: dict[Hashable, Sets] = {}
        self._unreadable: Sets = {}
        for pods in sets:
            self.add_set(pods)

    def add(self, counter: PodCounter[Any], values: Iterable[Hashable]) -> None:
        """Add a counter of the pods with one of the values."""
        for value in values:
            self.counters.setdefault(value, {})[counter] = None

    def remove(self, counter: PodCounter[Any], values: Iterable[Hashable]) -> None:
        """Remove a counter, which was added with the same values."""
        for value in values:
            _discard(self.counters, value, counter)

    def sets_with(self, values: Iterable[Hashable]) -> Sets:
        """Return the sets with one of the values."""
        found = {**self._unreadable}
        for value in values:
            found.update(self._sets.get(value, {}))
        return found

    def add_set(self, pods: PlacedPodSet) -> Counters:
        """Add a set and return the counters that select it."""
        values, found = self._values(pods.signature), Counters()
        if values is None:
            self._unreadable[pods] = None
            for counters in self.counters.values():
                found.update(counters)
            return found
        for value in values:
            self._sets.setdefault(value, {})[pods] = None
            found.update(self.counters.get(value, {}))
        return found

    def remove_set(self, pods: PlacedPodSet) -> None:
        """Remove a set."""
        if pods in self._unreadable:
            del self._unreadable[pods]
            return
        for value in self._values(pods.signature) or ():
            _discard(self._sets, value, pods)

    def _values(self, signature: PodSignature) -> Collection[Hashable] | None:
        try:
            return self._attributes.of(signature)
        except Exception:
            return None


def _discard(index: dict[Hashable, dict[Any, None]], value: Hashable, member: object) -> None:
    members = index.get(value, {})
    members.pop(member, None)
    if not members:
        index.pop(value, None)
