"""Victims of one pod go side by side and the last one last; several pods' victims go at once."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any, cast

import pytest

from pyscheduler.api import ApiError
from pyscheduler.core.commands import Evict
from pyscheduler.core.events import EvictFailed
from pyscheduler.shell.evictor import REST, WORKERS, Evictor
from pyscheduler.shell.kube.in_flight import InFlightCounter
from pyscheduler.testing import pod

from .virtual import SteppedClock


class Cluster:
    """Where evictions arrive and wait to be let go; `refused` ones fail."""

    def __init__(self) -> None:
        self.asked: list[str] = []
        self.refused: set[str] = set()
        self.let_go: dict[str, asyncio.Event] = {}
        self.clock = SteppedClock()
        self.in_flight = InFlightCounter()
        self.told: list[Any] = []

    async def evict(self, command: Evict) -> bool:
        name = command.victim.name
        self.asked.append(name)
        await self.let_go.setdefault(name, asyncio.Event()).wait()
        if name in self.refused:
            raise ApiError(403, "Forbidden", "no")
        return True

    @asynccontextmanager
    async def evictor(self) -> AsyncIterator[Evictor]:
        evictor = Evictor(cast(Any, self), cast(Any, None), self.in_flight, self.clock)
        evictor.emit = self.told.append
        task = asyncio.create_task(evictor.run())
        yield evictor
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)


async def settle() -> None:
    for _ in range(20):
        await asyncio.sleep(0)


def eviction(victim: str, preemptor: str) -> Evict:
    return Evict(pod(victim).build(), pod(preemptor).build(), "")


async def test_the_last_victim_goes_when_the_others_have_gone() -> None:
    cluster = Cluster()
    async with cluster.evictor() as evictor:
        for victim in "abc":
            evictor.add(eviction(victim, "high"))
        await settle()
        assert cluster.asked == ["a", "b"]
        cluster.let_go["b"].set()
        await settle()
        assert cluster.asked == ["a", "b"]
        cluster.let_go["a"].set()
        await settle()
        assert cluster.asked == ["a", "b", "c"]


async def test_room_is_made_for_several_pods_at_once() -> None:
    cluster = Cluster()
    async with cluster.evictor() as evictor:
        for i in range(WORKERS + 1):
            evictor.add(eviction(f"v{i}", f"high{i}"))
        await settle()
        assert cluster.asked == [f"v{i}" for i in range(WORKERS)]


@pytest.mark.parametrize("refused", ["a", "b"])
async def test_a_failure_is_told_after_a_rest_and_holds_up_nobody(refused: str) -> None:
    cluster = Cluster()
    cluster.refused.add(refused)
    async with cluster.evictor() as evictor:
        for victim in "ab":
            cluster.let_go[victim] = asyncio.Event()
            cluster.let_go[victim].set()
            evictor.add(eviction(victim, "high"))
        await settle()
        assert (cluster.asked, cluster.told) == (["a", "b"], [])
        await cluster.clock.advance(REST)
        await settle()
    failed = cast(EvictFailed, cluster.told[0])
    assert (failed.victim_uid, failed.at) == (pod(refused).build().uid, cluster.clock.now())


@pytest.mark.parametrize(("refused", "result"), [("", "success"), ("a", "error"), ("b", "error")])
async def test_who_counts_is_told_how_it_went_and_how_long_it_took(refused: str, result: str) -> None:
    cluster, told = Cluster(), list[tuple[str, float]]()
    cluster.refused.add(refused)
    async with cluster.evictor() as evictor:
        evictor.evictions_finished = lambda *outcome: told.append(outcome)
        for victim in "ab":
            evictor.add(eviction(victim, "high"))
        await settle()
        cluster.clock.at += 2.5
        for victim in "ab":
            cluster.let_go.setdefault(victim, asyncio.Event()).set()
        await settle()
    assert told == [(result, 2.5)]


@pytest.mark.parametrize("refused", ["", "a", "b"])
async def test_others_can_see_for_how_many_pods_room_is_being_made(refused: str) -> None:
    cluster = Cluster()
    cluster.refused.add(refused)
    async with cluster.evictor() as evictor:
        for victim, preemptor in (("a", "high"), ("b", "high"), ("c", "other")):
            evictor.add(eviction(victim, preemptor))
        await settle()
        seen = [cluster.in_flight.evictions]
        for victim in "abc":
            cluster.let_go.setdefault(victim, asyncio.Event()).set()
        await settle()
        seen.append(cluster.in_flight.evictions)
    assert seen == [2, 0]
