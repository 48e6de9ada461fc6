"""The real API server reads our protobuf like JSON, and its errors are decoded."""

from __future__ import annotations

from collections.abc import AsyncIterator

import msgspec
import pytest
import pytest_asyncio

from pyscheduler.api import ApiError, Pod
from pyscheduler.core.commands import EventType, Record
from pyscheduler.kube.connection import Connection, ConnectionOptions, connect
from pyscheduler.kube.http1 import JSON, PROTOBUF
from pyscheduler.kube.paths import EVENTS, collection
from pyscheduler.shell.writers import protobuf
from pyscheduler.shell.writers.event_series import EventSeries
from pyscheduler.testing import pod
from tests.e2e.client import Json
from tests.e2e.plane import Plane

pytestmark = pytest.mark.asyncio(loop_scope="session")


@pytest_asyncio.fixture(loop_scope="session")
async def connection(control_plane: Plane) -> AsyncIterator[Connection]:
    connection = await connect(control_plane.kubeconfig, ConnectionOptions(qps=-1))
    yield connection
    await connection.close()


async def made(control_plane: Plane, namespace: str, name: str) -> Pod:
    """A pending pod without a scheduler."""
    built = pod(name).namespace(namespace)
    spec = {"schedulerName": "no-scheduler", "containers": [{"name": "main", "image": "pause"}]}
    created = await control_plane.api.create(
        f"/api/v1/namespaces/{namespace}/pods", {"metadata": {"name": name}, "spec": spec}
    )
    return built.uid(created["metadata"]["uid"]).build()


async def test_protobuf_binding_binds_the_pod(control_plane: Plane, namespace: str, connection: Connection) -> None:
    subject = await made(control_plane, namespace, "a")
    path = f"/api/v1/namespaces/{namespace}/pods/a"
    await connection.request("POST", f"{path}/binding", protobuf.binding(subject, "somewhere"), PROTOBUF)
    assert (await control_plane.api.get(path))["spec"]["nodeName"] == "somewhere"


async def test_protobuf_error_is_decoded(namespace: str, connection: Connection) -> None:
    path = f"/api/v1/namespaces/{namespace}/pods/missing/binding"
    missing = pod("missing").namespace(namespace).build()
    with pytest.raises(ApiError, match='"missing" not found') as refused:
        await connection.request("POST", path, protobuf.binding(missing, "somewhere"), PROTOBUF)
    assert (refused.value.status, refused.value.reason) == (404, "NotFound")


@pytest.mark.parametrize("times", [1, 3])
async def test_event_is_equal_in_json_and_protobuf(
    control_plane: Plane, namespace: str, connection: Connection, times: int
) -> None:
    about, related = (pod(name).namespace(namespace).build() for name in ("a", "b"))
    record = Record(EventType.WARNING, "FailedScheduling", "Scheduling", "kein Platz für «a»", about, related)
    read: list[Json] = []
    for form in (JSON, PROTOBUF):
        series = EventSeries(record, f"{form.rpartition('.')[2].replace('/', '-')}-{times}", 1_700_000_000.25)
        for repetition in range(1, times):
            series.again(1_700_000_000.5 + repetition)
        body = protobuf.event(series, "host") if form == PROTOBUF else msgspec.json.encode(series.body("host"))
        path = collection(EVENTS, namespace)
        await connection.request("POST", path, body, form)
        event = await control_plane.api.get(f"{path}/{series.name}")
        del event["metadata"]
        for reference in ("regarding", "related"):
            assert not event[reference].pop("resourceVersion", "")  # these pods have none; JSON has an empty one
        read.append(event)
    assert read[0] == read[1]
