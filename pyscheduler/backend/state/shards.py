"""Distribution of records over ConfigMaps ("shards"): plain bookkeeping, no API calls.

A record stays in its first shard. Shards are filled one after another, so that tasks of the same time mostly share a
shard and their changes share a write. A shard takes no new records beyond `LIMITS.filled` bytes, which leaves its
records room to grow up to `LIMITS.full`.
"""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from typing import Final, NamedTuple

from pyscheduler.backend.state import StateProblem


class ShardLimits(NamedTuple):
    """Limits of a shard in bytes including keys, and of the number of shards. A ConfigMap may have 1 MiB."""

    filled: int = 64 * 1024
    """Small, because each write sends the whole shard and etcd keeps every version for minutes."""
    full: int = 900 * 1024
    shards: int = 512


LIMITS: Final = ShardLimits()
_KEY_CHARACTERS: Final = 32


def key_of(id: str) -> str:
    """Return the key of a task's record in its ConfigMap: a hash, as keys allow only letters, digits and `-_.`."""
    return hashlib.sha256(id.encode()).hexdigest()[:_KEY_CHARACTERS]


class Shards:
    """Records by shard (numbered from 0) and key."""

    def __init__(self, limits: ShardLimits = LIMITS) -> None:
        self.limits = limits
        self.texts: list[dict[str, str]] = []
        """Data of each shard's ConfigMap."""
        self._sizes: list[int] = []
        self._shard_of: dict[str, int] = {}

    def add(self, texts: Mapping[str, str]) -> None:
        """Append a shard with these records."""
        number = len(self.texts)
        self.texts.append(dict(texts))
        self._sizes.append(sum(map(_size, texts, texts.values())))
        self._shard_of.update(dict.fromkeys(texts, number))

    def text(self, id: str) -> str | None:
        """Return the stored record of a task, None if there is none."""
        number = self._shard_of.get(key_of(id))
        return None if number is None else self.texts[number][key_of(id)]

    def put(self, id: str, text: str) -> int:
        """Store a record and return its shard. StateProblem, with nothing changed, if there is no room."""
        key = key_of(id)
        number = self._shard_of.get(key)
        if number is None:
            number = self._assign_shard(id, _size(key, text))
            self._shard_of[key] = number
        old_text = self.texts[number].get(key)
        size = self._sizes[number] + _size(key, text) - (0 if old_text is None else _size(key, old_text))
        if size > self.limits.full:
            raise StateProblem(
                f"the record of task {id!r} has {_size(key, text)} bytes, which makes its ConfigMap {size} bytes, "
                f"over the limit of {self.limits.full}: use smaller task specs, or keep the state in a file"
            )
        self.texts[number][key], self._sizes[number] = text, size
        return number

    def drop(self, id: str) -> int | None:
        """Remove a record and return its shard, None if there is no such record."""
        key = key_of(id)
        number = self._shard_of.pop(key, None)
        if number is not None:
            self._sizes[number] -= _size(key, self.texts[number].pop(key))
        return number

    def _assign_shard(self, id: str, size: int) -> int:
        """Return the shard for a new record, a new one if all are filled. StateProblem if there is no room."""
        if size > self.limits.full:
            raise StateProblem(
                f"the record of task {id!r} has {size} bytes, over the limit of {self.limits.full} per ConfigMap: "
                "use smaller task specs, or keep the state in a file"
            )
        for number, used in enumerate(self._sizes):
            if used + size <= self.limits.filled or not used:
                return number
        if len(self.texts) == self.limits.shards:
            raise StateProblem(
                f"{self.limits.shards} ConfigMaps are full and there is no room for task {id!r}: "
                "forget tasks that have ended, or keep the state in a file"
            )
        self.add({})
        return len(self.texts) - 1


def _size(key: str, text: str) -> int:
    return len(key) + len(text.encode())
