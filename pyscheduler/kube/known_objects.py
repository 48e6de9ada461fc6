"""Objects of one resource that a reflector has emitted: their UIDs and versions, by namespace and name.

A large cluster has a million pods, so no key is stored that combines namespace and name, and entries are not tracked by
garbage collection.
"""

from __future__ import annotations

import msgspec

Key = tuple[str, str]
"""Namespace and name."""


class KnownObject(msgspec.Struct, frozen=True, gc=False):
    """Identity and version of an emitted object."""

    uid: str
    version: str


class KnownObjects:
    """Emitted objects that have not been deleted since."""

    def __init__(self) -> None:
        self._by_namespace: dict[str, dict[str, KnownObject]] = {}
        self._count = 0

    def __len__(self) -> int:
        return self._count

    def get(self, key: Key) -> KnownObject | None:
        """Return the object of that key, or None."""
        namespace, name = key
        return self._by_namespace.get(namespace, {}).get(name)

    def put(self, key: Key, known: KnownObject) -> None:
        """Add or replace an object."""
        namespace, name = key
        objects = self._by_namespace.setdefault(namespace, {})
        before = len(objects)
        objects[name] = known
        self._count += len(objects) - before

    def pop(self, key: Key) -> KnownObject | None:
        """Remove and return the object of that key; None if there is none."""
        namespace, name = key
        objects = self._by_namespace.get(namespace, {})
        known = objects.pop(name, None)
        if known is not None:
            self._count -= 1
            if not objects:
                del self._by_namespace[namespace]
        return known

    def keys(self) -> list[Key]:
        """Return the keys of all objects, in the order of addition within a namespace."""
        return [(namespace, name) for namespace, objects in self._by_namespace.items() for name in objects]
