"""Restart of the API server or etcd while the scheduler binds pods."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from pathlib import Path

import pytest
import yaml

from tests.e2e.plane import Plane
from tests.faults.fault_namespace import FaultNamespace
from tests.faults.request_matchers import watches
from tests.faults.scheduler_under_test import configuration, run_scheduler

pytestmark = pytest.mark.asyncio(loop_scope="session")

PODS = 60
RATE = 30
"""Bindings per second, slow enough for the restart to happen in between."""


async def restart_api_server(plane: Plane) -> None:
    if plane.real is not None:
        await plane.real.restart("kube-apiserver")
    elif plane.embedded is not None:
        await plane.embedded.server.stop()
        await plane.embedded.server.start()


async def restart_etcd(plane: Plane) -> None:
    """Restart etcd; the embedded API server, which has none, compacts its watch history instead."""
    if plane.real is not None:
        await plane.real.restart("etcd")
    elif plane.embedded is not None:
        plane.embedded.server.api.state.store.compact()


@pytest.mark.parametrize("restart", [restart_api_server, restart_etcd], ids=["API server", "etcd"])
async def test_pods_are_bound_after_a_restart_of_the_control_plane(
    ns: FaultNamespace, tmp_path: Path, restart: Callable[[Plane], Awaitable[None]]
) -> None:
    document = yaml.safe_load(configuration(ns.namespace, f"{ns.namespace}-faulty"))
    document["clientConnection"] = {"qps": RATE, "burst": 1}
    async with run_scheduler(ns.plane, yaml.safe_dump(document), tmp_path / "scheduler"):
        await ns.create_pods(PODS, ns.namespace)
        await ns.wait_for_bound(PODS // 6)
        await restart(ns.plane)
        ns.proxy.cut(watches())
        await ns.wait_for_bound(PODS)
        await ns.create_pods(10, ns.namespace, prefix="after")
        await ns.wait_for_bound(PODS + 10)
