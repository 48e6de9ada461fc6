"""Evictions: concurrent per pod with the last victim last, and for several pods at once."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any, cast

import pytest

from pyscheduler.api import ApiError
from pyscheduler.core.commands import Evict
from pyscheduler.core.events import EvictFailed
from pyscheduler.shell.binding.concurrency import InFlightCounter
from pyscheduler.shell.evictor import REST, WORKERS, Evictor
from pyscheduler.testing import pod
from tests.unit.kube.virtual import SteppedClock


class Cluster:
    """Receives evictions, which wait for `release`; those in `refused` fail."""

    def __init__(self) -> None:
        self.evicted: list[str] = []
        self.refused: set[str] = set()
        self.release: dict[str, asyncio.Event] = {}
        self.clock = SteppedClock()
        self.in_flight = InFlightCounter()
        self.emitted: list[Any] = []
        self.finished: list[tuple[str, float]] = []

    def evictions_finished(self, result: str, seconds: float) -> None:
        self.finished.append((result, seconds))

    async def evict(self, command: Evict) -> bool:
        name = command.victim.name
        self.evicted.append(name)
        await self.release.setdefault(name, asyncio.Event()).wait()
        if name in self.refused:
            raise ApiError(403, "Forbidden", "no")
        return True

    @asynccontextmanager
    async def evictor(self) -> AsyncIterator[Evictor]:
        status, recorder, instrument = cast(Any, self), cast(Any, None), cast(Any, self)
        evictor = Evictor(status, recorder, self.in_flight, self.clock, self.emitted.append, instrument)
        task = asyncio.create_task(evictor.run())
        yield evictor
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)


async def settle() -> None:
    for _ in range(20):
        await asyncio.sleep(0)


def eviction(victim: str, preemptor: str) -> Evict:
    return Evict(pod(victim).build(), pod(preemptor).build(), "")


async def test_last_victim_is_evicted_after_the_others() -> None:
    cluster = Cluster()
    async with cluster.evictor() as evictor:
        for victim in "abc":
            evictor.add(eviction(victim, "high"))
        await settle()
        assert cluster.evicted == ["a", "b"]
        cluster.release["b"].set()
        await settle()
        assert cluster.evicted == ["a", "b"]
        cluster.release["a"].set()
        await settle()
        assert cluster.evicted == ["a", "b", "c"]


async def test_victims_of_several_pods_are_evicted_concurrently() -> None:
    cluster = Cluster()
    async with cluster.evictor() as evictor:
        for i in range(WORKERS + 1):
            evictor.add(eviction(f"v{i}", f"high{i}"))
        await settle()
        assert cluster.evicted == [f"v{i}" for i in range(WORKERS)]


@pytest.mark.parametrize("refused", ["a", "b"])
async def test_failure_is_emitted_after_a_pause_and_does_not_block_other_victims(refused: str) -> None:
    cluster = Cluster()
    cluster.refused.add(refused)
    async with cluster.evictor() as evictor:
        for victim in "ab":
            cluster.release[victim] = asyncio.Event()
            cluster.release[victim].set()
            evictor.add(eviction(victim, "high"))
        await settle()
        assert (cluster.evicted, cluster.emitted) == (["a", "b"], [])
        await cluster.clock.advance(REST)
        await settle()
    failed = cast(EvictFailed, cluster.emitted[0])
    assert (failed.victim_uid, failed.at) == (pod(refused).build().uid, cluster.clock.now())


@pytest.mark.parametrize(("refused", "result"), [("", "success"), ("a", "error"), ("b", "error")])
async def test_result_and_duration_are_observed(refused: str, result: str) -> None:
    cluster = Cluster()
    cluster.refused.add(refused)
    async with cluster.evictor() as evictor:
        for victim in "ab":
            evictor.add(eviction(victim, "high"))
        await settle()
        cluster.clock.at += 2.5
        for victim in "ab":
            cluster.release.setdefault(victim, asyncio.Event()).set()
        await settle()
    assert cluster.finished == [(result, 2.5)]


@pytest.mark.parametrize("refused", ["", "a", "b"])
async def test_preemptors_with_evictions_in_flight_are_counted(refused: str) -> None:
    cluster = Cluster()
    cluster.refused.add(refused)
    async with cluster.evictor() as evictor:
        for victim, preemptor in (("a", "high"), ("b", "high"), ("c", "other")):
            evictor.add(eviction(victim, preemptor))
        await settle()
        seen = [cluster.in_flight.evictions]
        for victim in "abc":
            cluster.release.setdefault(victim, asyncio.Event()).set()
        await settle()
        seen.append(cluster.in_flight.evictions)
    assert seen == [2, 0]
