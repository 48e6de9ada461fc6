"""Operations while a scheduler runs: churn, deletions, updates and barriers."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Coroutine, Sequence
from typing import Any

from bench import proc
from bench.bulk import BulkClient
from bench.manifests import Batch, collection
from bench.program import Barrier, Churn, Create, Delete, Pods, Sleep, Step, Update
from bench.watch import BindWatch, WaitLimit


class Live:
    """Performs the steps of one turn; `changed` collects the paths of objects to delete afterwards."""

    def __init__(
        self, bulk: BulkClient, watch: BindWatch, scheduler_name: str, pending: Sequence[Pods], changed: set[str]
    ) -> None:
        self._changed = changed
        self._bulk = bulk
        self._watch = watch
        self._scheduler_name = scheduler_name
        self._pods = list(pending)
        self._background: list[asyncio.Task[None]] = []

    async def run(self, steps: Sequence[Step], limit: WaitLimit) -> None:
        """Run all steps in order, then wait for the measured pods. Unfinished or ApiError."""
        try:
            for step in steps:
                await self._step(step, limit)
            await self._watch.all_bound(limit)
        finally:
            for task in self._background:
                task.cancel()
            ends = await asyncio.gather(*self._background, return_exceptions=True)
        for end in ends:
            if isinstance(end, Exception):
                raise end

    async def _step(self, step: Step, limit: WaitLimit) -> None:
        match step:
            case Sleep():
                await asyncio.sleep(step.seconds)
            case Barrier():
                pods = [
                    key for pods in self._pods if pods.fits(step.namespaces, step.labels) for key in pods.full_names()
                ]
                wait = self._watch.attempted if step.attempted else self._watch.bound
                await wait(pods, limit)
            case Create():
                await self._create(step, limit)
            case Churn():
                self._run_in_background(self._churn(step))
            case Update():
                await self._update(step)
            case Delete():
                work = self._delete(step)
                await work if step.wait else self._run_in_background(work)

    def _run_in_background(self, work: Coroutine[Any, Any, None]) -> None:
        self._background.append(asyncio.create_task(work))

    async def _create(self, step: Create, limit: WaitLimit) -> None:
        if isinstance(step.what, Pods):
            self._pods.append(step.what)
            await self._bulk.create(step.what.batch.for_scheduler(self._scheduler_name))
            if step.wait:
                await self._watch.bound(step.what.full_names(), limit)
        else:
            self._changed.update(_paths(step.what))
            await self._bulk.create(step.what)

    async def _churn(self, step: Churn) -> None:
        batches = [batch.for_scheduler(self._scheduler_name) for batch in step.batches]
        existing: set[int] = set()
        number = 0
        async for _ in _ticks(step.interval):
            if step.recreate:
                number %= step.number
            elif step.number and number >= step.number:
                return
            for batch in batches:
                path = f"{batch.path}/{batch.name_of(number)}"
                self._changed.add(path)
                if number in existing:
                    await self._bulk.delete_one(path)
                else:
                    await self._bulk.create_one(batch.path, batch.body_of(number))
            existing ^= {number}
            number += 1

    async def _update(self, step: Update) -> None:
        self._changed.update(_paths(step.batch))
        pace = _Pace(step.rate)
        batch = step.batch.for_scheduler(self._scheduler_name)
        await asyncio.gather(*(self._merge(batch, number, pace) for number in range(batch.count)))

    async def _merge(self, batch: Batch, number: int, pace: _Pace) -> None:
        await pace.turn(number)
        await self._bulk.merge(f"{batch.path}/{batch.name_of(number)}", batch.body_of(number))

    async def _delete(self, step: Delete) -> None:
        path = collection("Pod", step.namespace)
        if not step.rate:
            await self._bulk.delete_all(path, labels=step.selector)
            return
        pace = _Pace(step.rate)
        for number, name in enumerate(await self._bulk.names(path, labels=step.selector)):
            await pace.turn(number)
            await self._bulk.delete_one(f"{path}/{name}")


class _Pace:
    """Rate limiter in calls per second; 0: no limit."""

    def __init__(self, rate: float) -> None:
        self._rate = rate
        self._began = proc.now()

    async def turn(self, number: int) -> None:
        """Wait until the time of call `number`, counted from 0."""
        if self._rate and (early := self._began + number / self._rate - proc.now()) > 0:
            await asyncio.sleep(early)


async def _ticks(interval: float) -> AsyncIterator[None]:
    """Yield at once, then once per interval."""
    pace, number = _Pace(1 / interval), 0
    while True:
        await pace.turn(number)
        yield
        number += 1


def _paths(batch: Batch) -> list[str]:
    return [f"{batch.path}/{name}" for name in batch.names()]
