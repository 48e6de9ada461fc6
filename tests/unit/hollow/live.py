"""An embedded API server, a client of it, and ways to wait for what a test expects."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from typing import Any

import msgspec

from pyscheduler.embedded.client import PODS, HttpClient, Resource, StatusError
from pyscheduler.embedded.server import ApiServer
from pyscheduler.testing import PodBuilder

Json = dict[str, Any]
PATIENCE_SECONDS = 30.0


@asynccontextmanager
async def server() -> AsyncIterator[HttpClient]:
    """A client of an API server that is gone after the block."""
    async with ApiServer() as running, HttpClient(running.url) as client:
        yield client


async def create_pod(client: HttpClient, builder: PodBuilder) -> None:
    """Create the pod; the server gives it its uid."""
    manifest = builder.manifest
    del manifest["metadata"]["uid"]
    await client.create(PODS, manifest)


async def bind(client: HttpClient, name: str, node: str) -> None:
    """What a scheduler does."""
    target = {"apiVersion": "v1", "kind": "Node", "name": node}
    meta = {"name": name, "namespace": "default"}
    binding = {"apiVersion": "v1", "kind": "Binding", "metadata": meta, "target": target}
    await client.create(Resource("", "v1", f"pods/{name}/binding"), binding)


async def listed(client: HttpClient, resource: Resource) -> list[Json]:
    """All objects of a resource."""
    return [msgspec.json.decode(raw) for raw in (await client.list(resource)).items]


async def shown(client: HttpClient, resource: Resource, name: str, says: Callable[[Json], object]) -> Json:
    """The object as soon as `says` finds in it what it looks for."""

    async def look() -> Json | None:
        try:
            obj = await client.get(resource, "default", name)
        except StatusError:
            return None
        return obj if says(obj) else None

    return await until(look)


async def until(look: Callable[[], Awaitable[Json | None]]) -> Json:
    """The first answer that is not None; the test fails if it takes too long."""
    async with asyncio.timeout(PATIENCE_SECONDS):
        while True:
            found = await look()
            if found is not None:
                return found
            await asyncio.sleep(0.01)


async def gone(client: HttpClient, resource: Resource, name: str) -> None:
    """Return when there is no such object."""

    async def look() -> Json | None:
        try:
            await client.get(resource, "default", name)
        except StatusError as refusal:
            return {} if refusal.is_not_found else None
        return None

    await until(look)


def in_phase(phase: str) -> Callable[[Json], bool]:
    """Whether a pod's status says so."""
    return lambda pod: pod.get("status", {}).get("phase") == phase
