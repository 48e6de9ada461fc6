"""One connection: what is left of it when it has ended."""

from __future__ import annotations

import gc
import weakref
from collections.abc import Iterator

import pytest

from pyscheduler.shell.kube.faults import Refused
from pyscheduler.shell.kube.wire import StreamWire


@pytest.fixture
def no_collections() -> Iterator[None]:
    gc.disable()
    yield
    gc.enable()


@pytest.mark.usefixtures("no_collections")
async def test_a_stream_that_broke_is_freed_without_the_garbage_collector() -> None:
    wire = StreamWire(silence=30)
    wire.connection_lost(ConnectionResetError("gone"))
    try:
        await anext(wire)
    except Refused as problem:
        said = str(problem)
    left = weakref.ref(wire)
    del wire
    assert said == "the connection broke: gone"
    assert left() is None
