"""Assume cache of volumes and claims: objects as they will be once the decided bindings are written.

An assumed object is valid as long as the informer has the version that it was made from; any other version replaces it.
"""

from __future__ import annotations

from collections.abc import Iterable

from pyscheduler.api import Handle, ResourceKind
from pyscheduler.intree.volumes.match import PersistentVolume, read_volume
from pyscheduler.intree.volumes.objects import VOLUME, Object, name_of, namespace_of, text

_Key = tuple[str, str]
_SPARE = 64
"""Assumed entries kept before the outdated ones are pruned."""


class AssumeCache:
    """Objects of one kind, with assumed objects in place of those of the informer."""

    def __init__(self, kind: ResourceKind, handle: Handle) -> None:
        self._kind = kind
        self._handle = handle
        self._assumed: dict[_Key, Object] = {}
        self._limit = _SPARE

    def get(self, namespace: str, name: str) -> Object | None:
        """Return the object, assumed or from the informer; None if the informer does not have it."""
        current = self._handle.objects[self._kind].get((namespace, name))
        return None if current is None else self.assumed_or(current)

    def assume(self, obj: Object) -> None:
        """Store the object as it will be. It has the resourceVersion that it was made from."""
        if len(self._assumed) >= self._limit:
            self._prune()
        self._assumed[_key(obj)] = obj

    def restore(self, obj: Object) -> None:
        """Drop the assumed object, unless a later version of it has been assumed since."""
        assumed = self._assumed.get(_key(obj))
        if assumed is not None and version_of(assumed) == version_of(obj):
            del self._assumed[_key(obj)]

    def __len__(self) -> int:
        return len(self._assumed)

    def assumed_or(self, current: Object) -> Object:
        """Return the assumed version of an informer's object, or the object itself if there is none."""
        key = _key(current) if self._assumed else None
        assumed = self._assumed.get(key) if key else None
        if key is None or assumed is None:
            return current
        if version_of(assumed) == version_of(current):
            return assumed
        del self._assumed[key]
        return current

    def _prune(self) -> None:
        for key in tuple(self._assumed):
            self.get(*key)
            if key not in self._handle.objects[self._kind]:
                del self._assumed[key]
        self._limit = 2 * len(self._assumed) + _SPARE


class VolumeAssumeCache(AssumeCache):
    """Assume cache of volumes. What is parsed from a volume is cached until the volume changes."""

    def __init__(self, handle: Handle) -> None:
        super().__init__(VOLUME, handle)
        self._read: dict[str, PersistentVolume] = {}
        self._by_class: dict[str, list[PersistentVolume]] = {}
        self._indexed = -1

    def of_classes(self, classes: Iterable[str]) -> list[PersistentVolume]:
        """Return the volumes of some storage classes."""
        self._index()
        current = [volume for name in frozenset(classes) for volume in self._by_class.get(name, ())]
        return [self.read(self.assumed_or(volume.source)) for volume in current] if len(self) else current

    def _index(self) -> None:
        version = self._handle.objects.version(VOLUME)
        if version == self._indexed:
            return
        self._indexed = version
        self._by_class = {}
        for source in self._handle.objects[VOLUME].values():
            volume = self.read(source)
            self._by_class.setdefault(volume.storage_class, []).append(volume)

    def read(self, source: Object) -> PersistentVolume:
        """Return the parsed volume, cached by source object."""
        name = name_of(source)
        volume = self._read.get(name)
        if volume is None or volume.source is not source:
            if len(self._read) > 2 * len(self._handle.objects[VOLUME]) + _SPARE:
                self._read.clear()
            volume = self._read[name] = read_volume(source)
        return volume


def version_of(obj: Object) -> str:
    return text(obj, "metadata", "resourceVersion")


def is_newer(a: Object, b: Object) -> bool:
    """Return True if `a` has a later resourceVersion than `b`; versions that are no numbers compare as equal."""
    older, newer = version_of(b), version_of(a)
    return older.isdecimal() and newer.isdecimal() and int(newer) > int(older)


def _key(obj: Object) -> _Key:
    return namespace_of(obj), name_of(obj)
