"""Prometheus' own linter finds nothing in the metrics."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest

from tests.controlplane.build import ToolchainMissing, binaries
from tests.e2e.plane import Plane
from tests.e2e.scheduler import Configured, scheduler
from tests.e2e.workloads import hollow_nodes, pod, pod_spec

pytestmark = [pytest.mark.asyncio(loop_scope="session"), pytest.mark.slow]
BROKEN = "# TYPE pods_total gauge\npods_total 1\n"


async def problems(text: str) -> list[str]:
    """Return what the linter finds in metrics in the text format."""
    try:
        folder = await asyncio.to_thread(binaries, ["promlint"])
    except ToolchainMissing as error:
        pytest.skip(str(error))
    process = await asyncio.create_subprocess_exec(
        str(folder / "promlint"), stdin=asyncio.subprocess.PIPE, stdout=asyncio.subprocess.PIPE
    )
    found, _ = await process.communicate(text.encode())
    assert process.returncode == 0
    return found.decode().splitlines()


async def test_linter_finds_a_gauge_that_is_named_as_a_counter() -> None:
    assert any("_total" in line for line in await problems(BROKEN))


async def test_metrics_of_a_scheduler_that_has_bound_a_pod(
    control_plane: Plane, namespace: str, tmp_path: Path
) -> None:
    pods = f"/api/v1/namespaces/{namespace}/pods"
    async with (
        hollow_nodes(control_plane, namespace, 1),
        scheduler(control_plane, Configured("linted"), tmp_path) as running,
    ):
        await control_plane.api.create(pods, pod("bound", pod_spec("linted", namespace)))
        await control_plane.api.create(pods, pod("large", pod_spec("linted", namespace, cpu="99")))
        await control_plane.api.until(f"{pods}/bound", lambda found: found["spec"].get("nodeName"))
        for path in ("/metrics", "/metrics/resources"):
            assert await problems(await running.text(control_plane.api, path)) == []
