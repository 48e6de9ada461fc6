"""Index of volumes: those of a claim, and the free ones of a class by capacity."""

from __future__ import annotations

from collections.abc import Iterator

from sortedcontainers import SortedDict

from pyscheduler.api.quantity import QuantityError, value
from pyscheduler.embedded.objects import Json, Key, dig
from pyscheduler.embedded.workloads.objects import is_deleting, key_of

_Size = tuple[int, str]
"""Capacity in bytes and name."""


class VolumeIndex:
    """Volumes by name, by the claim of their claimRef, and without a claimRef by class and capacity."""

    def __init__(self) -> None:
        self._by_name: dict[str, Json] = {}
        self._by_claim: dict[Key, dict[str, Json]] = {}
        self._free: dict[str, SortedDict[_Size, Json]] = {}

    def change(self, before: Json | None, after: Json | None) -> None:
        """Apply one change of a volume."""
        if before is not None:
            self._remove(before)
        if after is not None:
            self._add(after)

    def get(self, name: str) -> Json | None:
        """Return the volume of this name, None if there is none."""
        return self._by_name.get(name)

    def reserved_for(self, claim: Key) -> Iterator[Json]:
        """Yield the volumes with a claimRef of this namespace and name, of whatever uid."""
        yield from self._by_claim.get(claim, {}).values()

    def free(self, storage_class: str, least: int) -> Iterator[Json]:
        """Yield the free volumes of a class ("" for none) of at least `least` bytes, the smallest first."""
        volumes = self._free.get(storage_class)
        if volumes is not None:
            yield from (volumes[size] for size in volumes.irange((least, "")))

    def _add(self, volume: Json) -> None:
        name = key_of(volume)[1]
        self._by_name[name] = volume
        if claim := claim_of(volume):
            self._by_claim.setdefault(claim, {})[name] = volume
        elif not is_deleting(volume):
            self._free.setdefault(class_of(volume), SortedDict())[capacity(volume), name] = volume

    def _remove(self, volume: Json) -> None:
        name = key_of(volume)[1]
        self._by_name.pop(name, None)
        if claim := claim_of(volume):
            self._by_claim.get(claim, {}).pop(name, None)
            if not self._by_claim.get(claim):
                self._by_claim.pop(claim, None)
        else:
            volumes = self._free.get(class_of(volume), SortedDict())
            volumes.pop((capacity(volume), name), None)
            if not volumes:
                self._free.pop(class_of(volume), None)


def claim_of(volume: Json) -> Key | None:
    """Return namespace and name in the claimRef of a volume, None if it has none."""
    reference = dig(volume, "spec", "claimRef")
    return (reference.get("namespace", ""), reference.get("name", "")) if reference else None


def class_of(obj: Json) -> str:
    """Return the class of a volume or claim, "" if it has none."""
    return str(obj["spec"].get("storageClassName") or "")


def capacity(volume: Json) -> int:
    """Return the capacity of a volume in bytes, 0 if it is malformed."""
    return storage_bytes(dig(volume, "spec", "capacity", "storage"))


def storage_bytes(quantity: str | None) -> int:
    """Return a quantity in bytes, 0 if it is missing or malformed."""
    try:
        return value(quantity or "0")
    except QuantityError:
        return 0
