"""Permissions for Volcano's kinds may be granted while the controllers run."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from typing import Any

import pytest

from pyscheduler.api import ApiError, ResourceKind
from pyscheduler.clock import SystemClock
from pyscheduler.controllers.status_writer import ObjectStatusWriter
from pyscheduler.controllers.volcano.controller import VolcanoControllers
from pyscheduler.controllers.volcano.job_controller import VolcanoJobController
from pyscheduler.controllers.volcano.store import JOBS, POD_GROUPS, QUEUES, VolcanoStore
from pyscheduler.kube import reflector
from pyscheduler.kube.object_client import ObjectClient
from pyscheduler.kube.paths import PODS, collection
from tests.unit.controllers.volcano.jobs import job, task
from tests.unit.hollow.live import connected
from tests.unit.kube.fake_api import Call, FakeApi, listed, ok, refused

CONFLICT = refused(409, "AlreadyExists", "the object exists")
FORBIDDEN = refused(403, "Forbidden", "the objects are forbidden")
CREATED_POD = "/api/v1/namespaces/ns/pods"
SECRETS = "/api/v1/namespaces/ns/secrets"
SERVICES = "/api/v1/namespaces/ns/services"
CONFIG_MAPS = "/api/v1/namespaces/ns/configmaps"
EVENTS = "/apis/events.k8s.io/v1/namespaces/ns/events"


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


async def test_keys_are_generated_once_while_secrets_may_not_be_created(api: FakeApi) -> None:
    generated: list[dict[str, str]] = []

    async def generate() -> dict[str, str]:
        generated.append({"id_rsa": "private"})
        return generated[-1]

    for path, replies in {
        SECRETS: [FORBIDDEN, FORBIDDEN, ok({})], EVENTS: [ok({})], CREATED_POD: [ok({})] * 4, SERVICES: [ok({})],
        CONFIG_MAPS: [ok({}), CONFLICT], f"{CONFIG_MAPS}/j-svc": [ok({})],
        "/apis/scheduling.volcano.sh/v1beta1/namespaces/ns/podgroups": [ok({})] * 2,
        "/apis/batch.volcano.sh/v1alpha1/namespaces/ns/jobs/j/status": [ok({})],
    }.items():  # fmt: skip
        api.script(path, *replies)
    store = VolcanoStore(("pyscheduler",), lambda kind, key: None)
    plugins = {"ssh": [], "svc": ["--disable-network-policy"]}
    async with connected(api.url) as connection:
        client = ObjectClient(connection)
        controller = VolcanoJobController(client, store, lambda: 0.0, lambda key, after: None, generate)
        for replicas in (1, 2):  # the second attempt updates the ConfigMap first
            store.set_job(("ns", "j"), job(task("a", replicas), plugins=plugins))
            with pytest.raises(ApiError):
                await controller.process(("ns", "j"))
        assert not api.of("POST", CREATED_POD)
        await controller.process(("ns", "j"))
        await controller.process(("ns", "j"))
    assert (len(generated), len(api.of("POST", SECRETS)), len(api.of("POST", EVENTS))) == (1, 3, 1)
    assert "private" not in str([call.body for call in api.of("POST", EVENTS)])
    assert api.of("POST", SECRETS)[-1].json["data"]["id_rsa"] == "cHJpdmF0ZQ=="
