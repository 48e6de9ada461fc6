"""A plugin that blocks the scheduler's main loop for longer than a lease lasts costs neither the lease nor a probe."""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import pytest
import yaml

from tests.e2e.client import ApiError
from tests.e2e.metrics_page import page
from tests.e2e.plane import Plane
from tests.e2e.scheduler import SchedulerProcess, replica
from tests.e2e.test_failover import LEASES, NAME, Times, configuration, holder, until_held, without_lease
from tests.e2e.workloads import hollow_nodes, placed, pod, pod_spec

pytestmark = [pytest.mark.asyncio(loop_scope="session"), pytest.mark.slow]

INSIDE = Path(__file__).parent / "inside"
SHORT = Times(lease=6.0, deadline=4.0, retry=0.5)
BLOCKED = 9.0
"""Seconds: longer than the lease."""
PROMPT = 3.0
"""Seconds within which probes and scrapes must be answered meanwhile."""
POLL = 0.1
"""Seconds."""
POINTS = {"filter": "Filter", "pre_bind": "PreBind"}


def blocking(name: str) -> str:
    """Return the configuration of a replica with the plugin."""
    document = yaml.safe_load(configuration(name, SHORT, rate=5000))
    document["profiles"][0]["plugins"] = {"multiPoint": {"enabled": [{"name": "blocking:Blocking"}]}}
    return yaml.safe_dump(document)


@asynccontextmanager
async def replicas(plane: Plane, name: str, folder: Path) -> AsyncIterator[tuple[SchedulerProcess, SchedulerProcess]]:
    """Run a leader and a standby, both with the plugin."""
    await without_lease(plane)
    files = [folder / each / "config.yaml" for each in "ab"]
    for file in files:
        file.parent.mkdir()
        file.write_text(blocking(name))
    async with replica(plane, files[0], files[0].parent, INSIDE) as leader:
        await until_held(plane)
        async with replica(plane, files[1], files[1].parent, INSIDE) as standby:
            yield leader, standby


async def blocked_by(plane: Plane, running: SchedulerProcess) -> dict[str, str]:
    """Return the labels of the blocking plugin from the metric; empty while the loop runs."""
    async with asyncio.timeout(PROMPT):
        family = page(await running.text(plane.api, "/metrics")).get("pyscheduler_loop_blocked_seconds")
    return dict(family.series[0]) if family is not None and family.series else {}


async def named(plane: Plane, running: SchedulerProcess) -> dict[str, str]:
    """Wait until the metric names the blocking plugin."""
    for _ in range(int(BLOCKED / POLL)):
        found = await blocked_by(plane, running)
        if found:
            return found
        await asyncio.sleep(POLL)
    raise AssertionError("the metric names nothing")


async def prompt(plane: Plane, running: SchedulerProcess, path: str) -> str:
    async with asyncio.timeout(PROMPT):
        return await running.text(plane.api, path)


@pytest.mark.parametrize("method", POINTS)
async def test_blocking_plugin_is_named_and_keeps_lease_and_probes(
    control_plane: Plane, namespace: str, tmp_path: Path, method: str
) -> None:
    plane, pods = control_plane, f"/api/v1/namespaces/{namespace}/pods"
    spec = pod_spec(namespace, namespace, cpu="10m")
    async with (
        hollow_nodes(plane, namespace, 3),
        replicas(plane, namespace, tmp_path) as (leader, standby),
    ):
        was = await holder(plane)
        began = time.monotonic()
        await plane.api.create(pods, pod("blocks", spec, {"blocks": method, "seconds": str(BLOCKED)}))
        assert await named(plane, leader) == {"plugin": "Blocking", "extension_point": POINTS[method]}
        assert time.monotonic() - began < BLOCKED - 3.0
        for i in range(5):
            await plane.api.create(pods, pod(f"neighbour-{i}", spec))
        while time.monotonic() - began < BLOCKED - 1.0:
            assert await prompt(plane, leader, "/livez") == "ok"
            assert await holder(plane) == was
            await asyncio.sleep(0.2)
        assert 'leader_election_master_status{name="kube-scheduler"} 1.0' in await prompt(plane, leader, "/metrics")
        await plane.api.until(pods, lambda found: len(placed(found)) == 6)
        assert time.monotonic() - began > BLOCKED
        await asyncio.sleep(SHORT.lease)
        lease = await plane.api.get(f"{LEASES}/{NAME}")
        assert (await holder(plane), lease["spec"]["leaseTransitions"]) == (was, 0)
        assert (leader.process.returncode, standby.process.returncode) == (None, None)
        text = leader.log.read_text()
        assert f'"Plugin blocks the scheduling loop" plugin="Blocking" extensionPoint="{POINTS[method]}"' in text
        assert "blocking.py:" in text
        assert await blocked_by(plane, leader) == {}


async def test_dumps_return_503_while_the_loop_is_blocked(control_plane: Plane, namespace: str, tmp_path: Path) -> None:
    plane, pods = control_plane, f"/api/v1/namespaces/{namespace}/pods"
    spec = pod_spec(namespace, namespace, cpu="10m")
    async with (
        hollow_nodes(plane, namespace, 1),
        replicas(plane, namespace, tmp_path) as (leader, _),
    ):
        assert '"counts"' in await prompt(plane, leader, "/debug/queue")
        await plane.api.create(pods, pod("blocks", spec, {"blocks": "filter", "seconds": str(2 * BLOCKED)}))
        await named(plane, leader)
        for path in ("/debug/queue", "/debug/cache", "/metrics/resources"):
            with pytest.raises(ApiError, match="503"):
                await prompt(plane, leader, path)
        assert "time.sleep" in await prompt(plane, leader, "/debug/pprof/goroutine")
        assert "componentconfig" in await prompt(plane, leader, "/configz")
        await plane.api.until(pods, lambda found: len(placed(found)) == 1)
        assert '"counts"' in await prompt(plane, leader, "/debug/queue")
