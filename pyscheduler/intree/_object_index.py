"""Index of parsed objects by values of theirs (client-go's Indexer), updated by what changed since the last read."""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterable, Mapping
from typing import Generic, TypeVar

from pyscheduler.api import Handle, ResourceKind

Key = tuple[str, str]
"""Namespace and name of an object."""
T = TypeVar("T")


class ObjectIndex(Generic[T]):
    """Parsed objects of one kind by index value."""

    def __init__(
        self,
        handle: Handle,
        kind: ResourceKind,
        read: Callable[[Key], T | None],
        index_values: Callable[[T], Iterable[Hashable]],
    ) -> None:
        """`read` parses the object of a key; it returns None if the object is gone or does not belong in the index."""
        self._handle = handle
        self._kind = kind
        self._read = read
        self._index_values = index_values
        self._parsed: dict[Key, T] = {}
        self._by_value: dict[Hashable, dict[Key, T]] = {}
        self._version = -1

    def get(self, key: Key) -> T | None:
        """Return the parsed object of a key."""
        self._refresh()
        return self._parsed.get(key)

    def by_value(self, value: Hashable) -> Mapping[Key, T]:
        """Return the objects with an index value, as a live view."""
        self._refresh()
        return self._by_value.get(value, {})

    @property
    def parsed(self) -> Mapping[Key, T]:
        """Parsed objects by key, as a live view."""
        self._refresh()
        return self._parsed

    @property
    def values(self) -> Mapping[Hashable, Mapping[Key, T]]:
        """Objects by index value, as a live view."""
        self._refresh()
        return self._by_value

    def update(self, key: Key) -> None:
        """Read an object again."""
        before, now = self._parsed.pop(key, None), self._read(key)
        if before is not None:
            for value in self._index_values(before):
                self._remove(key, value)
        if now is not None:
            self._parsed[key] = now
            for value in self._index_values(now):
                self._by_value.setdefault(value, {})[key] = now

    @property
    def version(self) -> int:
        """Number that changes with any object of the kind."""
        return self._handle.objects.version(self._kind)

    def _refresh(self) -> None:
        """Apply the changes since the last call."""
        objects = self._handle.objects
        version = objects.version(self._kind)
        if version == self._version:
            return
        changed = objects.changed_since(self._kind, self._version)
        if changed is None:
            self._parsed.clear()
            self._by_value.clear()
            changed = tuple(objects[self._kind])
        for key in changed:
            self.update(key)
        self._version = version  # not before: after an exception the changes are applied again

    def _remove(self, key: Key, value: Hashable) -> None:
        group = self._by_value[value]
        del group[key]
        if not group:
            del self._by_value[value]
