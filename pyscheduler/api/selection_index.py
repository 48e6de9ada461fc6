"""Index of pod selections: of thousands of terms, counts or Services, few select a pod."""

from __future__ import annotations

from collections.abc import Collection, Hashable, Iterable, Iterator, MutableMapping, Sequence
from typing import Generic, TypeVar

from pyscheduler.api.pod import PodSignature
from pyscheduler.api.topology import PodAttributes, PodLabel, PodRequirement, PodSelection

M = TypeVar("M", bound=Hashable)
UNREADABLE = (object(),)
"""Stands for the values of a pod with attributes that cannot be read: any value is possible."""


class ByValue(dict[Hashable, dict[M, None]]):
    """Members by the values of one PodAttributes."""

    def add(self, member: M, values: Iterable[Hashable]) -> None:
        """Add a member with these values."""
        for value in values:
            self.setdefault(value, {})[member] = None

    def discard(self, member: M, values: Iterable[Hashable]) -> None:
        """Remove a member that was added with these values."""
        for value in values:
            members = self.get(value, {})
            members.pop(member, None)
            if not members:
                self.pop(value, None)

    def find(self, values: Collection[Hashable]) -> dict[M, None]:
        """Return the members with one of the values, for UNREADABLE all of them."""
        found: dict[M, None] = {}
        for value in self if values is UNREADABLE else values:
            found.update(self.get(value, {}))
        return found


class ByAttributes(MutableMapping[PodAttributes, ByValue[M]]):
    """Members by the values of several PodAttributes."""

    def __init__(self) -> None:
        self._labels: dict[str, tuple[PodLabel, ByValue[M]]] = {}
        """By label key: a pod has few labels, and selectors may have thousands of keys."""
        self._others: dict[PodAttributes, ByValue[M]] = {}

    def __getitem__(self, attributes: PodAttributes) -> ByValue[M]:
        return self._labels[attributes.key][1] if type(attributes) is PodLabel else self._others[attributes]

    def __setitem__(self, attributes: PodAttributes, members: ByValue[M]) -> None:
        if type(attributes) is PodLabel:
            self._labels[attributes.key] = attributes, members
        else:
            self._others[attributes] = members

    def __delitem__(self, attributes: PodAttributes) -> None:
        if type(attributes) is PodLabel:
            del self._labels[attributes.key]
        else:
            del self._others[attributes]

    def __iter__(self) -> Iterator[PodAttributes]:
        yield from [attributes for attributes, _ in self._labels.values()]
        yield from self._others

    def __len__(self) -> int:
        return len(self._labels) + len(self._others)

    def of(self, signature: PodSignature) -> Iterator[tuple[ByValue[M], Collection[Hashable]]]:
        """Yield the members by value of each attribute that pods of the signature may have, with the pods' values."""
        own, known = signature.labels, self._labels
        few = own if len(own) < len(known) else known
        for attributes, members in (*[known[key] for key in few if key in own and key in known], *self._others.items()):
            try:
                values = attributes.of(signature)
            except Exception:
                values = UNREADABLE
            yield members, values


class SelectionIndex(Generic[M]):
    """Members by one requirement of each alternative of their selections, the one that the fewest members have.

    So a pod is compared only with the members that require one of its labels, or of its other attributes.
    """

    def __init__(self) -> None:
        self.unindexed: dict[M, None] = {}
        """Members that may select any pod."""
        self._requirements: dict[M, Sequence[PodRequirement]] = {}
        self._members: ByAttributes[M] = ByAttributes()

    def __contains__(self, member: M) -> bool:
        return member in self._requirements

    def __iter__(self) -> Iterator[M]:
        return iter(self._requirements)

    @property
    def attributes(self) -> Collection[PodAttributes]:
        """Attributes by which members are found, as a live view."""
        return self._members.keys()

    def add(self, member: M, selection: PodSelection | None) -> Sequence[PodRequirement] | None:
        """Add or replace a member; a selection of None selects all pods.

        Return the requirements that it is indexed by, None if it may select any pod.
        """
        self.discard(member)
        if selection is None or not all(selection):  # an alternative without requirements selects every pod
            self.unindexed[member], self._requirements[member] = None, ()
            return None
        # Helm charts set some labels equally on all apps, so take the requirements that the fewest members have.
        chosen = self._requirements[member] = [min(required, key=self._number_of_members) for required in selection]
        for attributes, values in chosen:
            self._members.setdefault(attributes, ByValue()).add(member, values)
        return chosen

    def _number_of_members(self, requirement: PodRequirement) -> int:
        members: ByValue[M] = self._members.get(requirement.attributes, ByValue())
        return sum(len(members.get(value, ())) for value in requirement.values)

    def discard(self, member: M) -> Sequence[PodRequirement]:
        """Remove a member if it is in the index. Return the requirements that it was indexed by."""
        self.unindexed.pop(member, None)
        requirements = self._requirements.pop(member, ())
        for attributes, values in requirements:
            members = self._members.get(attributes)
            if members is None:  # removed for another alternative
                continue
            members.discard(member, values)
            if not members:
                del self._members[attributes]
        return requirements

    def candidates(self, signature: PodSignature) -> dict[M, None]:
        """Return the members that may select pods of the signature, in no particular order."""
        found = {**self.unindexed}
        for members, values in self._members.of(signature):
            found.update(members.find(values))
        return found
