"""Heartbeat of the main loop."""

from __future__ import annotations

import asyncio

from pyscheduler.shell import heartbeat
from pyscheduler.shell.heartbeat import DEAD_AFTER, PERIOD, Heartbeat
from tests.unit.kube.virtual import SteppedClock


async def test_silence_grows_only_while_the_loop_is_blocked() -> None:
    clock = SteppedClock()
    async with Heartbeat(clock) as beating:
        await asyncio.sleep(0)
        for _ in range(100):
            await clock.advance(PERIOD)
            await asyncio.sleep(0)
        assert beating.silence() < 2 * PERIOD
        clock.at += 12.0  # a plugin blocks the loop
        assert beating.silence() >= 12.0
        assert beating.check() is None
        await clock.advance(PERIOD)
        await asyncio.sleep(0)
        assert beating.silence() < 2 * PERIOD


async def test_a_loop_that_is_blocked_for_a_minute_is_dead_until_it_runs_again() -> None:
    clock = SteppedClock()
    async with Heartbeat(clock) as beating:
        await asyncio.sleep(0)
        clock.at += DEAD_AFTER
        assert beating.check() is None
        clock.at += 1.0
        assert beating.check() == "the main loop has been blocked for 61 s"
        await clock.advance(PERIOD)
        await asyncio.sleep(0)
        assert beating.check() is None


def test_a_plugin_may_block_for_longer_than_the_default_lease_lasts() -> None:
    assert heartbeat.DEAD_AFTER >= 4 * 15.0
