"""Permissions for Volcano's kinds may be granted while the controllers run."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from typing import Any

import pytest

from pyscheduler.api import ResourceKind
from pyscheduler.clock import SystemClock
from pyscheduler.controllers.status_writer import ObjectStatusWriter
from pyscheduler.controllers.volcano.controller import VolcanoControllers
from pyscheduler.controllers.volcano.store import JOBS, POD_GROUPS, QUEUES
from pyscheduler.kube import reflector
from pyscheduler.kube.paths import PODS, collection
from tests.unit.controllers.volcano.jobs import job, task
from tests.unit.hollow.live import connected
from tests.unit.kube.fake_api import Call, FakeApi, listed, ok, refused

FORBIDDEN = refused(403, "Forbidden", "the objects are forbidden")
CREATED_POD = "/api/v1/namespaces/ns/pods"


@pytest.fixture
async def api(monkeypatch: pytest.MonkeyPatch) -> AsyncIterator[FakeApi]:
    monkeypatch.setattr(reflector, "NOT_FOUND_RETRY", 0.05)
    api = FakeApi()
    await api.start()
    yield api
    await api.stop()


async def calls_until_a_pod_is_created(api: FakeApi) -> list[Call]:
    """Run the controllers; return the calls until they create the first pod."""

    async def patch(kind: ResourceKind, key: tuple[str, str], change: dict[str, Any]) -> None:
        raise AssertionError("no status of a PodGroup or Queue is written")

    async with connected(api.url) as connection:
        writer = ObjectStatusWriter(patch, SystemClock().wall)
        controllers = VolcanoControllers(("pyscheduler",), writer, connection, SystemClock())
        running = asyncio.create_task(controllers.run())
        async with api.calling, asyncio.timeout(10):
            await api.calling.wait_for(lambda: bool(api.of("POST", CREATED_POD)))
        running.cancel()
        await asyncio.gather(running, return_exceptions=True)
    return api.calls


@pytest.mark.parametrize("late", [JOBS, QUEUES, POD_GROUPS], ids=lambda kind: kind.plural)
async def test_job_runs_once_all_kinds_may_be_listed(late: ResourceKind, api: FakeApi) -> None:
    found: dict[ResourceKind, list[Any]] = {JOBS: [job(task("a", 1))], POD_GROUPS: [], QUEUES: [], PODS: []}
    for kind, objects in found.items():
        api.script(collection(kind), *[FORBIDDEN] * (3 * (kind is late)), listed(*objects))
    api.script("/apis/scheduling.volcano.sh/v1beta1/namespaces/ns/podgroups", ok({}))
    api.script("/apis/batch.volcano.sh/v1alpha1/namespaces/ns/jobs/j/status", ok({}))
    api.script(CREATED_POD, ok({}))
    calls = await calls_until_a_pod_is_created(api)
    lists = [i for i, call in enumerate(calls) if call.path == collection(late) and "watch" not in call.query]
    writes = [i for i, call in enumerate(calls) if call.method != "GET"]
    assert len(lists) == 4
    assert max(lists) < min(writes)
