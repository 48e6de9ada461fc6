"""The parts of a running backend, and what runs them. Whatever part fails for good stops the whole."""

from __future__ import annotations

import asyncio
import contextlib
import logging
import random
from collections.abc import Callable, Coroutine
from functools import partial
from typing import Any

import msgspec

from pyscheduler.backend.client import ClusterProblem, PodsApi
from pyscheduler.backend.errors import BackendStopped
from pyscheduler.backend.groups import PodGroups
from pyscheduler.backend.guard import UpdateGuard
from pyscheduler.backend.hands import Hands
from pyscheduler.backend.lifecycle import TaskPodsLifecycleManager
from pyscheduler.backend.offers import Budget, Purse
from pyscheduler.backend.pauses import Pauses
from pyscheduler.backend.polling import PodsPollingSnapshotSource
from pyscheduler.backend.resources import NOTHING, Resources
from pyscheduler.backend.settings import BackendSettings
from pyscheduler.backend.state import StateProblem, StateStore
from pyscheduler.backend.store import PodSnapshotStore, Subscription
from pyscheduler.backend.task import TaskRecord, held
from pyscheduler.backend.template import pod_body, selector
from pyscheduler.backend.updates import OnUpdate, Outbox
from pyscheduler.backend.watching import PodsWatchSnapshotSource
from pyscheduler.kube.numbers import natural

_log = logging.getLogger(__name__)


class Process:
    """One life of a backend, from taking the state to giving it back."""

    guard: UpdateGuard
    manager: TaskPodsLifecycleManager
    purse: Purse
    outbox: Outbox

    def __init__(
        self,
        client: PodsApi,
        state: StateStore,
        budget: Budget | None,
        settings: BackendSettings,
        clock: Callable[[], float],
        chance: random.Random,
    ) -> None:
        self._client, self._state, self._budget = client, state, budget
        self._settings, self._clock, self._chance = settings, clock, chance
        self._tasks: list[asyncio.Task[None]] = []
        self._stopped: BackendStopped | None = None

    async def start(self, on_update: OnUpdate | None) -> None:
        """Take the state and begin. StateHeld, StateProblem; ClusterProblem if the budget cannot be told."""
        saved = await self._state.open()
        try:
            self.guard = UpdateGuard(self._state, saved.records, saved.place)
            self.purse = Purse(self._budget, self.guard)
            await self.purse.refresh(self._in_cluster())
        except BaseException:
            await self._state.close()
            raise
        place = natural(saved.place or "")
        store = PodSnapshotStore(place)
        subscription = store.subscribe()
        self.outbox = Outbox(self._confirm)
        self.manager = TaskPodsLifecycleManager(
            self.guard, self._settings, subscription, self.outbox.put, self._clock, self._chance
        )
        groups = PodGroups(self._client, self.guard, self._settings.name)
        body = partial(pod_body, backend=self._settings.name, scheduler=self._settings.scheduler)
        self._hands = Hands(self._client, store, groups, body, self.manager.answered, self._chance)
        labels = selector(self._settings.name)
        polling = PodsPollingSnapshotSource(self._client, labels, store, self._settings.poll_seconds, self._chance)
        watching = PodsWatchSnapshotSource(self._client, labels, store, place, self._chance)
        for record in saved.records.values():
            if record.final and not record.told:
                self.outbox.put(record)
        self._managing = self._run("manager", self.manager.run(self._hands))
        self._run("pods", _serve(subscription, self.manager))
        self._run("poll", polling.run())
        self._run("watch", watching.run())
        self._run("purse", self._keep_purse())
        if any(record.spec.gang is not None for record in saved.records.values()):
            self._run("pod groups", self._sweep(groups))
        if on_update is not None:
            self._run("updates", self.outbox.call(on_update))
        for number in range(self._settings.concurrency):
            self._run(f"hand {number}", self._hands.work())

    async def stop(self) -> None:
        """Stop after what is being written, write what is left, give the state back."""
        if self._stopped is None:
            self.manager.stop()
            await asyncio.wait([self._managing])
        self._halt(BackendStopped("the backend has been stopped"))
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)
        await self._hands.stop()
        with contextlib.suppress(StateProblem):
            await self.guard.commit()
        await self._state.close()

    def check(self) -> None:
        """BackendStopped if it does not run any more."""
        if self._stopped is not None:
            raise self._stopped

    async def written(self) -> None:
        """Wait until all that has been changed is durable. BackendStopped."""
        self.check()
        self.manager.kick()
        await self.guard.wait()

    def _run(self, name: str, work: Coroutine[Any, Any, None]) -> asyncio.Task[None]:
        task = asyncio.create_task(work, name=f"task backend: {name}")
        task.add_done_callback(self._ended)
        self._tasks.append(task)
        return task

    def _ended(self, task: asyncio.Task[None]) -> None:
        problem = None if task.cancelled() else task.exception()
        if problem is not None and self._stopped is None:
            _log.error("the task backend stops: %s", problem, exc_info=problem)
            self._halt(BackendStopped(f"the backend stopped: {problem}"))
            for other in self._tasks:
                other.cancel()

    def _halt(self, why: BackendStopped) -> None:
        """Everyone who waits hears that it is in vain."""
        self._stopped = self._stopped or why
        self.guard.fail(self._stopped)
        self.outbox.end()
        self.manager.settled.ring()
        self.purse.bell.ring()

    def _confirm(self, record: TaskRecord) -> None:
        """The owner has seen the end of a task."""
        now = self.guard.records.get(record.id)
        if now is not None and now.final and not now.told and now.version == record.version:
            self.guard.change(now, msgspec.structs.replace(now, told=True))
            self.manager.kick(record.id)

    def _in_cluster(self) -> Resources:
        """What the pods of our tasks take now, as far as is known: what a quota counts as used by us."""
        holding = (held(r) for r in self.guard.durable.values() if r.pod_uid)
        return sum(holding, NOTHING)

    async def _keep_purse(self) -> None:
        """Pass on that something may have come back, and ask the budget now and then."""
        loop = asyncio.get_running_loop()
        asked = loop.time()
        while True:
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout_at(asked + self._settings.budget_seconds):
                    await self.manager.settled.wait()
            if loop.time() < asked + self._settings.budget_seconds:
                self.purse.bell.ring()
                continue
            asked = loop.time()
            try:
                await self.purse.refresh(self._in_cluster())
            except ClusterProblem as problem:
                _log.warning("the budget could not be asked; the last answer holds: %s", problem)

    async def _sweep(self, groups: PodGroups) -> None:
        pauses = Pauses(self._chance)
        while True:
            try:
                await groups.sweep()
            except ClusterProblem as problem:
                pause = pauses.failed(problem.retry_after)
                _log.warning("left-over PodGroups could not be deleted; again in %.1f s: %s", pause, problem)
                await asyncio.sleep(pause)
            else:
                return


async def _serve(subscription: Subscription, manager: TaskPodsLifecycleManager) -> None:
    """Tell the manager at its own pace."""
    while True:
        await manager.pods_changed(await subscription.next())
