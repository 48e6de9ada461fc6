"""Informer: a local cache of all objects of one kind, kept current by a reflector, as client-go's shared informer."""

from __future__ import annotations

import asyncio
import random
from collections.abc import Callable
from typing import Any, Generic, TypeVar

from pyscheduler.clock import Clock
from pyscheduler.embedded.objects import Key, key_of
from pyscheduler.kube.connection import Connection
from pyscheduler.kube.decode import ObjectDecoder, Refusals
from pyscheduler.kube.reflector import Change, Progress, Reflector, Upsert, Watched

T = TypeVar("T")
Listener = Callable[[T | None, T | None], None]
"""Called with (before, after) on each change: before is None for an addition, after is None for a deletion."""


class Informer(Generic[T]):
    """Cache `objects` with `listeners` for changes; `synced` is set when the first list has been read.

    `type` is dict[str, Any], or a struct whose `metadata` has namespace, name, uid and resource_version.
    """

    def __init__(self, watched: Watched, type: type[T], *listeners: Listener[T]) -> None:
        self._watched, self._type = watched, type
        self.kind = watched.kind
        self.listeners = list(listeners)
        self.objects: dict[Key, T] = {}
        self.synced = asyncio.Event()

    async def run(self, connection: Connection, clock: Clock) -> None:
        """List and watch until cancelled."""
        decoder, rng = ObjectDecoder(self.kind.plural, self._type, Refusals()), random.Random()
        await Reflector(connection, self._watched, decoder, self.handle, clock, rng, self._mark_synced).run()

    def handle(self, change: Change[T]) -> None:
        """Apply one change to the cache and call the listeners."""
        if isinstance(change, Upsert):
            key, after = _key(change.object), change.object
            before = self.objects.get(key)
            self.objects[key] = after
            self._notify_listeners(before, after)
            return
        before = self.objects.pop((change.namespace, change.name), change.object)
        if before is not None:
            self._notify_listeners(before, None)

    def _mark_synced(self, _: Progress) -> None:
        self.synced.set()

    def _notify_listeners(self, before: T | None, after: T | None) -> None:
        for listener in self.listeners:
            listener(before, after)


def _key(obj: Any) -> Key:
    return key_of(obj) if isinstance(obj, dict) else (obj.metadata.namespace, obj.metadata.name)
