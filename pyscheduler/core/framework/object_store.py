"""Objects of the kinds that plugins watch (client-go's Store, one for each kind)."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping
from typing import Any

from pyscheduler.api.events import ResourceKind
from pyscheduler.core.framework.profile import Profile


class ObjectStore:
    """Objects by kind and by (namespace, name)."""

    def __init__(self, profiles: Mapping[str, Profile]) -> None:
        """`profiles` are those in use; while there are none, plugins are being built and any kind can be read."""
        self._profiles = profiles
        self._objects: dict[ResourceKind, dict[tuple[str, str], dict[str, Any]]] = {}
        self._versions: Counter[ResourceKind] = Counter()

    def __getitem__(self, kind: ResourceKind) -> Mapping[tuple[str, str], dict[str, Any]]:
        objects = self._objects.get(kind)
        if objects is None:
            self._check(kind)
            objects = self._objects[kind] = {}
        return objects

    def version(self, kind: ResourceKind) -> int:
        if kind not in self._objects:
            self._check(kind)
        return self._versions[kind]

    def watch(self, kinds: Iterable[ResourceKind]) -> None:
        """Let plugins read these kinds from now on; their constructors run before their profile is in use."""
        for kind in kinds:
            self._objects.setdefault(kind, {})

    def set(self, kind: ResourceKind, obj: dict[str, Any]) -> dict[str, Any] | None:
        """Store an object and return the one it replaces."""
        store, key = self._objects.setdefault(kind, {}), _key(obj)
        before = store.get(key)
        store[key] = obj
        self._versions[kind] += 1
        return before

    def remove(self, kind: ResourceKind, namespace: str, name: str) -> dict[str, Any] | None:
        """Remove an object and return it; None if it was not stored."""
        self._versions[kind] += 1
        return self._objects.setdefault(kind, {}).pop((namespace, name), None)

    def _check(self, kind: ResourceKind) -> None:
        """Raise LookupError for a kind that no plugin watches, instead of returning no objects."""
        if self._profiles and not any(kind in profile.watches for profile in self._profiles.values()):
            name = f"{kind.plural}.{kind.group}".rstrip(".")
            raise LookupError(f"{name} are not watched: add the kind to the `watches` of the plugin")


def _key(obj: dict[str, Any]) -> tuple[str, str]:
    meta = obj.get("metadata") or {}
    return str(meta.get("namespace", "")), str(meta.get("name", ""))
