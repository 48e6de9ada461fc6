"""An embedded API server with a connection, and helpers that wait for an expected state."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from typing import Any

import msgspec

from pyscheduler.api import ApiError, ResourceKind
from pyscheduler.embedded.server import ApiServer
from pyscheduler.kube.connection import Connection, ConnectionOptions, connect
from pyscheduler.kube.errors import is_not_found
from pyscheduler.kube.object_client import ObjectClient
from pyscheduler.kube.paths import PODS
from pyscheduler.testing import PodBuilder

Json = dict[str, Any]
TIMEOUT_SECONDS = 30.0


@asynccontextmanager
async def connected(url: str) -> AsyncIterator[Connection]:
    """Yield a connection without a rate limit that is closed after the block."""
    connection = await connect(None, ConnectionOptions(qps=-1), server=url)
    try:
        yield connection
    finally:
        await connection.close()


@asynccontextmanager
async def server() -> AsyncIterator[Connection]:
    """Yield a connection to an API server that is stopped after the block."""
    async with ApiServer() as running, connected(running.url) as connection:
        yield connection


async def create_pod(client: ObjectClient, builder: PodBuilder) -> None:
    """Create the pod; the server sets the uid."""
    manifest = builder.manifest
    del manifest["metadata"]["uid"]
    await client.create(PODS, manifest)


async def bind(client: ObjectClient, name: str, node: str) -> None:
    """Bind the pod as a scheduler does."""
    target = {"apiVersion": "v1", "kind": "Node", "name": node}
    meta = {"name": name, "namespace": "default"}
    binding = {"apiVersion": "v1", "kind": "Binding", "metadata": meta, "target": target}
    await client.create(ResourceKind("", "v1", f"pods/{name}/binding", "Binding"), binding)


async def list_objects(client: ObjectClient, resource: ResourceKind) -> list[Json]:
    """Return all objects of a resource."""
    return [msgspec.json.decode(raw) for raw in (await client.list(resource)).items]


async def wait_for(
    client: ObjectClient, resource: ResourceKind, name: str, condition: Callable[[Json], object]
) -> Json:
    """Return the object as soon as `condition` is true for it."""

    async def poll() -> Json | None:
        try:
            obj = await client.get(resource, "default", name)
        except ApiError:
            return None
        return obj if condition(obj) else None

    return await until(poll)


async def until(poll: Callable[[], Awaitable[Json | None]]) -> Json:
    """Return the first result that is not None. TimeoutError after 30 s."""
    async with asyncio.timeout(TIMEOUT_SECONDS):
        while True:
            found = await poll()
            if found is not None:
                return found
            await asyncio.sleep(0.01)


async def wait_until_deleted(client: ObjectClient, resource: ResourceKind, name: str) -> None:
    """Return when the object does not exist."""

    async def poll() -> Json | None:
        try:
            await client.get(resource, "default", name)
        except ApiError as error:
            return {} if is_not_found(error) else None
        return None

    await until(poll)


def in_phase(phase: str) -> Callable[[Json], bool]:
    """Return a predicate of pods in that phase."""
    return lambda pod: pod.get("status", {}).get("phase") == phase
