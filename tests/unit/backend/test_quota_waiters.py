"""Tasks that a quota rejects are created one after the other, also if a response to a create is lost."""

from __future__ import annotations

import asyncio

from pyscheduler.api import ApiError
from pyscheduler.backend import PodState
from pyscheduler.backend.task import Json
from tests.properties.task_cluster import Fate
from tests.properties.task_simulation import CrashSwitch
from tests.unit.backend.test_backend import BackendFixture, ObjectsConnection, on_virtual_time, task


class LostResponse(ObjectsConnection):
    """Connection on which the response to the first create that succeeds is lost, after the watch has shown the pod."""

    is_lost = False

    async def create_pod(self, body: Json) -> PodState:
        pod = await super().create_pod(body)
        if not self.is_lost:
            self.is_lost = True
            await asyncio.sleep(5.0)
            raise ApiError(0, "ConnectionLost", "the connection broke")
        return pod


@on_virtual_time
async def test_others_do_not_wait_for_a_task_with_a_pod_that_only_the_watch_shows() -> None:
    """Its image cannot be pulled, so it would keep the others waiting until it fails."""
    fixture = BackendFixture(first=Fate.IMAGE)
    fixture.connection = LostResponse(fixture.cluster, CrashSwitch(fixture.rng, 0.0))
    fixture.cluster.refusals.update({"first": 1, "second": 1})
    async with fixture.backend() as backend:
        for name, priority in (("first", 1), ("second", 0)):
            await backend.submit(task(name, priority=priority))
        await asyncio.sleep(10.0)
        assert backend.task("second").pod_uid
        assert not backend.task("first").final
