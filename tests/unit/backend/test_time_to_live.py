"""Records of finished tasks with the shortest time to live."""

from __future__ import annotations

import asyncio

import msgspec

from tests.properties.task_simulation import SETTINGS
from tests.unit.backend.test_backend import BackendFixture, on_virtual_time, task


@on_virtual_time
async def test_time_to_live_of_zero_forgets_soon_and_leaves_the_event_loop_free() -> None:
    settings = msgspec.structs.replace(SETTINGS, ttl_seconds_after_finished=0.0)
    received = asyncio.Event()

    async def receive(record: object) -> None:
        received.set()

    async with BackendFixture().backend(settings=settings, on_update=receive) as backend:
        await backend.submit(task("a"))
        await received.wait()
        await backend.wait_until_settled()
        await asyncio.sleep(5.0)
        assert not backend.tasks()
