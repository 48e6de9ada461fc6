"""Requests of the benchmark to the real API server besides objects."""

from __future__ import annotations

import re

import pytest

from bench import bulk
from tests.controlplane.cluster import ControlPlane
from tests.e2e.client import ApiClient

pytestmark = pytest.mark.asyncio(loop_scope="session")


async def forced(api: ApiClient) -> int:
    """Return the number of forced garbage collections of the API server."""
    found = re.search(r"^go_gc_cycles_forced_gc_cycles_total (\d+)$", await api.text("/metrics"), re.MULTILINE)
    assert found, "the API server has no such metric"
    return int(found[1])


async def test_api_server_collects_garbage_on_request(real_control_plane: ControlPlane) -> None:
    before = await forced(real_control_plane.api)
    async with bulk.connect(real_control_plane.api) as calls:
        await calls.collect_garbage()
    assert await forced(real_control_plane.api) == before + 1
