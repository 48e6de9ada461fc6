"""Clocks that jump: what is waited for is waited for no longer, and who leads goes on to lead."""

from __future__ import annotations

import asyncio
from functools import partial
from pathlib import Path

import pytest

from tests.e2e.test_failover import Times, holder, without_lease
from tests.e2e.test_failover import configuration as electing
from tests.faults.fault_namespace import FaultNamespace
from tests.faults.scheduler_under_test import configuration, started
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
    """By how much the clocks of the schedulers that start from now on are wrong."""
    file = tmp_path / "clock"
    file.write_text("0 0")
    monkeypatch.setenv("FAULTS_CLOCK", str(file))
    return file


def jump(clock: Path, wall: float, now: float = 0.0) -> None:
    """Have the clocks wrong by so many seconds."""
    clock.write_text(f"{wall} {now}")


async def test_under_load(world: FaultNamespace, tmp_path: Path, clock: Path) -> None:
    name = world.namespace
    async with started(world.plane, configuration(name, f"{name}-faulty"), tmp_path / "scheduler"):
        await world.pod("giant", name, cpu="64")
        for i, (wall, now) in enumerate(JUMPS.values(), 1):
            jump(clock, wall, now)
            await world.flood(10, name, prefix=f"after-{i}")
            await world.many_bound(10 * i)


async def test_the_leader_goes_on_to_lead(
    world: FaultNamespace, tmp_path: Path, clock: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    await without_lease(world.plane)
    text = electing(world.namespace, SHORT, 5000)
    async with started(world.plane, text, tmp_path / "leader") as leader:
        await until(partial(holder, world.plane))
        leads = await holder(world.plane)
        monkeypatch.delenv("FAULTS_CLOCK")
        async with started(world.plane, text, tmp_path / "follower"):
            for i, wall in enumerate((-DAY, DAY), 1):
                jump(clock, wall)
                await asyncio.sleep(SHORT.lease + SHORT.retry)
                assert await holder(world.plane) == leads
                await world.flood(5, world.namespace, prefix=f"after-{i}")
                await world.many_bound(5 * i)
        assert leader.process.returncode is None
