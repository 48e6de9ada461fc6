"""Clock jumps: pods are bound without extra delay, and the leader keeps its lease."""

from __future__ import annotations

import asyncio
from functools import partial
from pathlib import Path

import pytest

from tests.e2e.test_failover import Times, holder, without_lease
from tests.e2e.test_failover import configuration as electing
from tests.faults.fault_namespace import FaultNamespace
from tests.faults.scheduler_under_test import configuration, run_scheduler
from tests.faults.waiting import until

pytestmark = pytest.mark.asyncio(loop_scope="session")

DAY = 86_400.0
JUMPS = {
    "a day back": (-DAY, 0.0),
    "a year ahead": (365 * DAY, 0.0),
    "to before 1970": (-100 * 365 * DAY, 0.0),
    "asleep for an hour": (3600.0, 3600.0),
}
SHORT = Times(lease=6.0, deadline=5.0, retry=0.25)


@pytest.fixture
def clock(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """File with the clock offsets of schedulers that start from now on."""
    file = tmp_path / "clock"
    file.write_text("0 0")
    monkeypatch.setenv("FAULTS_CLOCK", str(file))
    return file


def jump(clock: Path, wall: float, now: float = 0.0) -> None:
    """Set the clock offsets in seconds."""
    clock.write_text(f"{wall} {now}")


async def test_pods_are_bound_when_the_clock_jumps(ns: FaultNamespace, tmp_path: Path, clock: Path) -> None:
    name = ns.namespace
    async with run_scheduler(ns.plane, configuration(name, f"{name}-faulty"), tmp_path / "scheduler"):
        await ns.create_pod("giant", name, cpu="64")
        for i, (wall, now) in enumerate(JUMPS.values(), 1):
            jump(clock, wall, now)
            await ns.create_pods(10, name, prefix=f"after-{i}")
            await ns.wait_for_bound(10 * i)


async def test_leader_keeps_its_lease_when_its_clock_jumps(
    ns: FaultNamespace, tmp_path: Path, clock: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    await without_lease(ns.plane)
    text = electing(ns.namespace, SHORT, 5000)
    async with run_scheduler(ns.plane, text, tmp_path / "leader") as leader:
        await until(partial(holder, ns.plane))
        leads = await holder(ns.plane)
        monkeypatch.delenv("FAULTS_CLOCK")
        async with run_scheduler(ns.plane, text, tmp_path / "follower"):
            for i, wall in enumerate((-DAY, DAY), 1):
                jump(clock, wall)
                await asyncio.sleep(SHORT.lease + SHORT.retry)
                assert await holder(ns.plane) == leads
                await ns.create_pods(5, ns.namespace, prefix=f"after-{i}")
                await ns.wait_for_bound(5 * i)
        assert leader.process.returncode is None
