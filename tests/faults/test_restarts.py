"""The API server and etcd are killed and started anew under a scheduler that is at work, with nothing in between."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from pathlib import Path

import pytest
import yaml

from tests.e2e.plane import Plane
from tests.faults.fault_namespace import FaultNamespace
from tests.faults.request_matchers import watches
from tests.faults.scheduler_under_test import configuration, started

pytestmark = pytest.mark.asyncio(loop_scope="session")

PODS = 60
RATE = 30
"""Bindings a second, so that there is a middle to be hit."""


async def restart_api_server(plane: Plane) -> None:
    if plane.real is not None:
        await plane.real.restart("kube-apiserver")
    elif plane.embedded is not None:
        await plane.embedded.server.stop()
        await plane.embedded.server.start()


async def restart_etcd(plane: Plane) -> None:
    """The embedded API server has none: it forgets the history that watches resume from, as etcd does in time."""
    if plane.real is not None:
        await plane.real.restart("etcd")
    elif plane.embedded is not None:
        plane.embedded.server.api.state.store.compact()


@pytest.mark.parametrize("restart", [restart_api_server, restart_etcd], ids=["API server", "etcd"])
async def test_under_load(world: FaultNamespace, tmp_path: Path, restart: Callable[[Plane], Awaitable[None]]) -> None:
    document = yaml.safe_load(configuration(world.namespace, f"{world.namespace}-faulty"))
    document["clientConnection"] = {"qps": RATE, "burst": 1}
    async with started(world.plane, yaml.safe_dump(document), tmp_path / "scheduler"):
        await world.flood(PODS, world.namespace)
        await world.many_bound(PODS // 6)
        await restart(world.plane)
        world.proxy.cut(watches())
        await world.many_bound(PODS)
        await world.flood(10, world.namespace, prefix="after")
        await world.many_bound(PODS + 10)
