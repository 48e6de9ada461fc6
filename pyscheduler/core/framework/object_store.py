"""Objects of the kinds that plugins watch (client-go's Store, one for each kind)."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from typing import Any

from pyscheduler.api.events import ResourceKind
from pyscheduler.core.framework.profile import Profile

_Key = tuple[str, str]
KEEP = 1 << 12
"""Minimum number of changes kept per kind; to apply more of them would cost as much as to read all objects."""


class ObjectStore:
    """Objects by kind and by (namespace, name)."""

    def __init__(self, profiles: Mapping[str, Profile]) -> None:
        """`profiles` are those in use; while there are none, plugins are being built and any kind can be read."""
        self._profiles = profiles
        self._stores: dict[ResourceKind, _Store] = {}

    def __getitem__(self, kind: ResourceKind) -> Mapping[_Key, dict[str, Any]]:
        return self._readable(kind).objects

    def version(self, kind: ResourceKind) -> int:
        return (self._stores.get(kind) or self._readable(kind)).version  # plugins compare it in every attempt

    def changed_since(self, kind: ResourceKind, version: int) -> Collection[_Key] | None:
        return self._readable(kind).changed_since(version)

    def watch(self, kinds: Iterable[ResourceKind]) -> None:
        """Let plugins read these kinds from now on; their constructors run before their profile is in use."""
        for kind in kinds:
            self._writable(kind)

    def set(self, kind: ResourceKind, obj: dict[str, Any]) -> dict[str, Any] | None:
        """Store an object and return the one it replaces."""
        store, key = self._writable(kind), _key(obj)
        before = store.objects.get(key)
        store.objects[key] = obj
        store.record(key)
        return before

    def remove(self, kind: ResourceKind, namespace: str, name: str) -> dict[str, Any] | None:
        """Remove an object and return it; None if it was not stored."""
        store, key = self._writable(kind), (namespace, name)
        store.record(key)
        return store.objects.pop(key, None)

    def _writable(self, kind: ResourceKind) -> _Store:
        store = self._stores.get(kind)
        if store is None:
            store = self._stores[kind] = _Store()
        return store

    def _readable(self, kind: ResourceKind) -> _Store:
        """Return the store of a kind. LookupError if no plugin watches it, instead of returning no objects."""
        store = self._stores.get(kind)
        if store is not None:
            return store
        if self._profiles and not any(kind in profile.watches for profile in self._profiles.values()):
            name = f"{kind.plural}.{kind.group}".rstrip(".")
            raise LookupError(f"{name} are not watched: add the kind to the `watches` of the plugin")
        return self._writable(kind)


class _Store:
    """Objects of one kind, and the keys of the last changes."""

    __slots__ = ("_changed", "objects", "version")

    def __init__(self) -> None:
        self.objects: dict[_Key, dict[str, Any]] = {}
        self.version = 0
        """Number of changes so far."""
        self._changed: list[_Key] = []

    def record(self, key: _Key) -> None:
        """Record a change of the object."""
        self.version += 1
        self._changed.append(key)
        if len(self._changed) > 2 * KEEP:
            del self._changed[:KEEP]

    def changed_since(self, version: int) -> Collection[_Key] | None:
        """Return the keys of the objects changed after `version`; None if older changes were dropped."""
        count = self.version - version
        if version < 0 or count > len(self._changed):
            return None
        return dict.fromkeys(self._changed[-count:]) if count else ()


def _key(obj: dict[str, Any]) -> _Key:
    meta = obj.get("metadata") or {}
    return str(meta.get("namespace", "")), str(meta.get("name", ""))
