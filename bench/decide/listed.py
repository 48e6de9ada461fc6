"""Objects that reach the machine as in `pyscheduler run`: as JSON, through the reflector and the decoder."""

from __future__ import annotations

import asyncio
import random
from collections.abc import AsyncIterator, Callable, Iterable
from contextlib import asynccontextmanager
from itertools import islice
from typing import Final, TypeVar

import msgspec

from bench.pod_features import Json
from pyscheduler.api import ResourceKind
from pyscheduler.clock import SystemClock
from pyscheduler.kube.deadlines import Deadlines
from pyscheduler.kube.decode import ObjectDecoder, Refusals
from pyscheduler.kube.outage import watch_outage_log
from pyscheduler.kube.reflector import Change, Deleted, Reflector, Watched

T = TypeVar("T")
_CHUNK: Final = 500
"""Objects that arrive at once."""


class Lister:
    """API server that has one list and watches without events."""

    deadlines = Deadlines()

    def __init__(self, items: Iterable[Json]) -> None:
        self._items = items
        self.watch_outages = watch_outage_log(SystemClock())

    @asynccontextmanager
    async def reading(self, path: str) -> AsyncIterator[AsyncIterator[bytes]]:  # noqa: ARG002
        """Read the list."""
        yield self._chunks()

    @asynccontextmanager
    async def watching(self, path: str, seconds: float) -> AsyncIterator[AsyncIterator[bytes]]:  # noqa: ARG002
        """Open a watch that lasts until it is cancelled."""
        await asyncio.Event().wait()
        yield self._chunks()

    async def _chunks(self) -> AsyncIterator[bytes]:
        items, before = iter(self._items), b'{"metadata":{"resourceVersion":"1"},"items":['
        while chunk := list(islice(items, _CHUNK)):
            yield before + b",".join(map(msgspec.json.encode, chunk))
            before = b","
        yield b"]}"


def list_objects(
    kind: ResourceKind, type: type[T], items: Iterable[Json], handle: Callable[[T], object]
) -> Reflector[T]:
    """Pass all objects to `handle`; return the reflector, which has stored their versions."""
    return asyncio.run(_list(kind, type, items, handle))


async def _list(
    kind: ResourceKind, type: type[T], items: Iterable[Json], handle: Callable[[T], object]
) -> Reflector[T]:
    decoder = ObjectDecoder(kind.plural, type, Refusals(lambda *_: None))

    def emit(change: Change[T]) -> None:
        assert not isinstance(change, Deleted)
        handle(change.object)

    reflector = Reflector(Lister(items), Watched(kind), decoder, emit, SystemClock(), random.Random(0))
    task = asyncio.create_task(reflector.run())
    await reflector.synced.wait()
    task.cancel()
    return reflector
