"""Which ConfigMap a record is in, and what each of them says: plain bookkeeping, no calls.

A record stays in the shard that it was first put in. Shards are filled one after another, so that tasks which run at
the same time are mostly neighbours, and what changes together is written together. A shard takes no new records beyond
`LIMITS.filled` bytes, which leaves those that it has the room to grow up to `LIMITS.full`.
"""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from typing import Final, NamedTuple

from pyscheduler.backend.state import StateProblem


class ShardLimits(NamedTuple):
    """Bytes of a shard, keys counted in, and how many shards there may be. A ConfigMap may have 1 MiB."""

    filled: int = 64 * 1024
    """Each write writes a whole shard, and etcd keeps every version for minutes: small ones are cheap."""
    full: int = 900 * 1024
    shards: int = 512


LIMITS: Final = ShardLimits()
_KEY_CHARACTERS: Final = 32


def key_of(id: str) -> str:
    """The key of a task's record in its ConfigMap, which takes letters, digits, `-`, `_` and `.` only."""
    return hashlib.sha256(id.encode()).hexdigest()[:_KEY_CHARACTERS]


class Shards:
    """All records, by shard and key. Numbers of shards count from 0."""

    def __init__(self, limits: ShardLimits = LIMITS) -> None:
        self.limits = limits
        self.texts: list[dict[str, str]] = []
        """Of each shard, what its ConfigMap is to say."""
        self._sizes: list[int] = []
        self._shard_of: dict[str, int] = {}

    def add(self, texts: Mapping[str, str]) -> None:
        """One more shard, which says this already."""
        number = len(self.texts)
        self.texts.append(dict(texts))
        self._sizes.append(sum(map(_size, texts, texts.values())))
        self._shard_of.update(dict.fromkeys(texts, number))

    def text(self, id: str) -> str | None:
        """A record as it is kept, None if there is none."""
        number = self._shard_of.get(key_of(id))
        return None if number is None else self.texts[number][key_of(id)]

    def put(self, id: str, text: str) -> int:
        """Keep a record; the shard that is to be written. StateProblem, with nothing changed, if there is no room."""
        key = key_of(id)
        number = self._shard_of.get(key)
        if number is None:
            number = self._room(id, _size(key, text))
            self._shard_of[key] = number
        was = self.texts[number].get(key)
        size = self._sizes[number] + _size(key, text) - (0 if was is None else _size(key, was))
        if size > self.limits.full:
            raise StateProblem(
                f"the record of task {id!r} takes {_size(key, text)} bytes, and its ConfigMap would have {size}: "
                f"{self.limits.full} may be used; keep what tasks carry small, or keep the state in a file"
            )
        self.texts[number][key], self._sizes[number] = text, size
        return number

    def drop(self, id: str) -> int | None:
        """Forget a record; the shard that is to be written, None if there is no such record."""
        key = key_of(id)
        number = self._shard_of.pop(key, None)
        if number is not None:
            self._sizes[number] -= _size(key, self.texts[number].pop(key))
        return number

    def _room(self, id: str, size: int) -> int:
        """The shard that a new record goes to."""
        if size > self.limits.full:
            raise StateProblem(
                f"the record of task {id!r} takes {size} bytes, and a ConfigMap has room for {self.limits.full}: "
                "keep what tasks carry small, or keep the state in a file"
            )
        for number, taken in enumerate(self._sizes):
            if taken + size <= self.limits.filled or not taken:
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
