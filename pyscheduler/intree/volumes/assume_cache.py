"""Assume cache of volumes and claims: objects as they will be once the decided bindings are written.

An assumed object is valid as long as the informer has the version that it was made from; any other version replaces it.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable

from pyscheduler.api import Handle, ResourceKind
from pyscheduler.intree._object_index import Key, ObjectIndex
from pyscheduler.intree.volumes.claim import DelayedClaim
from pyscheduler.intree.volumes.match import PersistentVolume, claim_of_volume, read_volume
from pyscheduler.intree.volumes.objects import VOLUME, Object, ParsedObjects, name_of, namespace_of, text

_SPARE = 64
"""Assumed entries kept before the outdated ones are pruned."""
_MAX_PARSED = 4096


class AssumeCache:
    """Objects of one kind, with assumed objects in place of those of the informer."""

    def __init__(self, kind: ResourceKind, handle: Handle) -> None:
        self._objects = handle.objects[kind]
        self._assumed: dict[Key, Object] = {}
        self._limit = _SPARE

    def get(self, namespace: str, name: str) -> Object | None:
        """Return the object, assumed or from the informer; None if the informer does not have it."""
        key = (namespace, name)
        current, assumed = self._objects.get(key), self._assumed.get(key)
        if assumed is None:
            return current
        if current is not None and version_of(assumed) == version_of(current):
            return assumed
        del self._assumed[key]
        return current

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

    def _prune(self) -> None:
        for key in tuple(self._assumed):
            self.get(*key)
        self._limit = 2 * len(self._assumed) + _SPARE


class VolumeAssumeCache(AssumeCache):
    """Assume cache of parsed volumes, by storage class or, if they have a claimRef, by the claim."""

    def __init__(self, handle: Handle) -> None:
        super().__init__(VOLUME, handle)
        self._unclaimed = ObjectIndex(handle, VOLUME, self._read_unclaimed, lambda volume: (volume.storage_class,))
        self._claimed = ObjectIndex(handle, VOLUME, self._read_claimed, lambda source: (claim_of_volume(source),))
        self._parse = ParsedObjects(read_volume, _MAX_PARSED).of
        """Parses claimed volumes when they are looked up: most are not, after they have been bound."""

    def volume(self, name: str) -> PersistentVolume | None:
        """Return the volume; None if it does not exist."""
        unclaimed = self._unclaimed.get(("", name))
        if unclaimed is not None:
            return unclaimed
        source = self._claimed.get(("", name))
        return None if source is None else self._parse(source)

    def claimed_by(self, claim: DelayedClaim) -> Iterable[PersistentVolume]:
        """Return the volumes of the claim's storage class that have a claimRef to it."""
        of_claim = self._claimed.by_value((claim.namespace, claim.name)).values()
        return (v for v in map(self._parse, of_claim) if v.storage_class == claim.request.storage_class)

    def unclaimed(self, storage_class: str) -> Collection[PersistentVolume]:
        """Return the volumes of a storage class that have no claimRef."""
        return self._unclaimed.by_value(storage_class).values()

    def assume(self, obj: Object) -> None:
        super().assume(obj)
        self._update(_key(obj))

    def restore(self, obj: Object) -> None:
        super().restore(obj)
        self._update(_key(obj))

    def _update(self, key: Key) -> None:
        self._unclaimed.update(key)
        self._claimed.update(key)

    def read(self, source: Object) -> PersistentVolume:
        """Return the parsed volume."""
        volume = self.volume(name_of(source))
        return volume if volume is not None and volume.source is source else read_volume(source)

    def _read_unclaimed(self, key: Key) -> PersistentVolume | None:
        source = self.get(*key)
        return None if source is None or claim_of_volume(source) is not None else read_volume(source)

    def _read_claimed(self, key: Key) -> Object | None:
        source = self.get(*key)
        return None if source is None or claim_of_volume(source) is None else source


def version_of(obj: Object) -> str:
    return text(obj, "metadata", "resourceVersion")


def is_newer(a: Object, b: Object) -> bool:
    """Return True if `a` has a later resourceVersion than `b`; versions that are no numbers compare as equal."""
    older, newer = version_of(b), version_of(a)
    return older.isdecimal() and newer.isdecimal() and int(newer) > int(older)


def _key(obj: Object) -> Key:
    return namespace_of(obj), name_of(obj)
