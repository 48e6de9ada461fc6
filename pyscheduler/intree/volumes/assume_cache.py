"""Volumes and claims as they will be once the bindings that were decided on are written: kube-scheduler's assume cache.

An assumed object counts as long as the watch shows the version that it was made from; any newer version wins.
"""

from __future__ import annotations

from collections.abc import Iterable

from pyscheduler.api import Handle, ResourceKind
from pyscheduler.intree.volumes.match import PersistentVolume, read_volume
from pyscheduler.intree.volumes.objects import VOLUME, Object, name_of, namespace_of, text

_Key = tuple[str, str]
_SPARE = 64
"""So many entries may lie about before those that the watch has overtaken are looked for."""


class AssumeCache:
    """The objects of one kind, the assumed ones in place of those that they were made from."""

    def __init__(self, kind: ResourceKind, handle: Handle) -> None:
        self._kind = kind
        self._handle = handle
        self._assumed: dict[_Key, Object] = {}
        self._limit = _SPARE

    def get(self, namespace: str, name: str) -> Object | None:
        """The object, assumed or as last seen; None if the watch does not show it."""
        seen = self._handle.objects(self._kind).get((namespace, name))
        return None if seen is None else self.assumed_or(seen)

    def assume(self, obj: Object) -> None:
        """Take it that the object will be so. It carries the version that it was made from."""
        if len(self._assumed) >= self._limit:
            self._prune()
        self._assumed[_key(obj)] = obj

    def restore(self, obj: Object) -> None:
        """Take it back, unless the object has been assumed again since, from a newer version."""
        assumed = self._assumed.get(_key(obj))
        if assumed is not None and version_of(assumed) == version_of(obj):
            del self._assumed[_key(obj)]

    def __len__(self) -> int:
        return len(self._assumed)

    def assumed_or(self, seen: Object) -> Object:
        """What is assumed of an object that the watch shows so; the object itself if nothing is."""
        key = _key(seen) if self._assumed else None
        assumed = self._assumed.get(key) if key else None
        if key is None or assumed is None:
            return seen
        if version_of(assumed) == version_of(seen):
            return assumed
        del self._assumed[key]
        return seen

    def _prune(self) -> None:
        for key in tuple(self._assumed):
            self.get(*key)
            if key not in self._handle.objects(self._kind):
                del self._assumed[key]
        self._limit = 2 * len(self._assumed) + _SPARE


class VolumeAssumeCache(AssumeCache):
    """The volumes, assumed claims of them counted in; what is read of a volume is kept until it changes."""

    def __init__(self, handle: Handle) -> None:
        super().__init__(VOLUME, handle)
        self._read: dict[str, PersistentVolume] = {}
        self._by_class: dict[str, list[PersistentVolume]] = {}
        self._indexed = -1

    def of_classes(self, classes: Iterable[str]) -> list[PersistentVolume]:
        """The volumes of some storage classes."""
        self._index()
        seen = [volume for name in frozenset(classes) for volume in self._by_class.get(name, ())]
        return [self.read(self.assumed_or(volume.source)) for volume in seen] if len(self) else seen

    def _index(self) -> None:
        version = self._handle.objects_version(VOLUME)
        if version == self._indexed:
            return
        self._indexed = version
        self._by_class = {}
        for source in self._handle.objects(VOLUME).values():
            volume = self.read(source)
            self._by_class.setdefault(volume.storage_class, []).append(volume)

    def read(self, source: Object) -> PersistentVolume:
        """What matching reads of the volume."""
        name = name_of(source)
        volume = self._read.get(name)
        if volume is None or volume.source is not source:
            if len(self._read) > 2 * len(self._handle.objects(VOLUME)) + _SPARE:
                self._read.clear()
            volume = self._read[name] = read_volume(source)
        return volume


def version_of(obj: Object) -> str:
    return text(obj, "metadata", "resourceVersion")


def is_newer(a: Object, b: Object) -> bool:
    """Whether `a` is of a later version than `b`; versions that are no numbers compare as equal."""
    older, newer = version_of(b), version_of(a)
    return older.isdecimal() and newer.isdecimal() and int(newer) > int(older)


def _key(obj: Object) -> _Key:
    return namespace_of(obj), name_of(obj)
