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

from pyscheduler.backend.backoff import ExponentialBackoff
from pyscheduler.backend.client import ClusterProblem, PodsApi
from pyscheduler.backend.errors import BackendStopped
from pyscheduler.backend.executor import ApiCallExecutor
from pyscheduler.backend.groups import PodGroups
from pyscheduler.backend.lifecycle import TaskPodsLifecycleManager
from pyscheduler.backend.offers import Budget, QuotaAccountant
from pyscheduler.backend.polling import PodsPollingSnapshotSource
from pyscheduler.backend.resources import NOTHING, Resources
from pyscheduler.backend.settings import BackendSettings
from pyscheduler.backend.state import StateProblem, StateStore
from pyscheduler.backend.store import PodSnapshotStore, Subscription
from pyscheduler.backend.task import TaskRecord, allocated_resources
from pyscheduler.backend.task_table import TaskTable
from pyscheduler.backend.template import pod_body, selector
from pyscheduler.backend.updates import OnUpdate, UpdateQueue
from pyscheduler.backend.watching import PodsWatchSnapshotSource
from pyscheduler.kube.numbers import natural

_log = logging.getLogger(__name__)


class BackendRuntime:
    """One life of a backend, from taking the state to giving it back."""

    table: TaskTable
    manager: TaskPodsLifecycleManager
    quota: QuotaAccountant
    update_queue: UpdateQueue

    def __init__(
        self,
        client: PodsApi,
        state: StateStore,
        budget: Budget | None,
        settings: BackendSettings,
        clock: Callable[[], float],
        rng: random.Random,
    ) -> None:
        self._client, self._state, self._budget = client, state, budget
        self._settings, self._clock, self._rng = settings, clock, rng
        self._tasks: list[asyncio.Task[None]] = []
        self._stopped: BackendStopped | None = None

    async def start(self, on_update: OnUpdate | None) -> None:
        """Take the state and begin. StateInUse, StateProblem; ClusterProblem if the budget cannot be told."""
        saved = await self._state.open()
        try:
            self.table = TaskTable(self._state, saved.records, saved.resource_version)
            self.quota = QuotaAccountant(self._budget, self.table)
            await self.quota.refresh(self._in_cluster())
        except BaseException:
            await self._state.close()
            raise
        resource_version = natural(saved.resource_version or "")
        store = PodSnapshotStore(resource_version)
        subscription = store.subscribe()
        self.update_queue = UpdateQueue(self._confirm)
        self.manager = TaskPodsLifecycleManager(
            self.table, self._settings, subscription, self.update_queue.put, self._clock, self._rng
        )
        groups = PodGroups(self._client, self.table, self._settings.name)
        body = partial(pod_body, backend=self._settings.name, scheduler=self._settings.scheduler)
        self._executor = ApiCallExecutor(self._client, store, groups, body, self.manager.handle_result, self._rng)
        labels = selector(self._settings.name)
        polling = PodsPollingSnapshotSource(self._client, labels, store, self._settings.poll_seconds, self._rng)
        watching = PodsWatchSnapshotSource(self._client, labels, store, resource_version, self._rng)
        for record in saved.records.values():
            if record.final and not record.told:
                self.update_queue.put(record)
        self._managing = self._run("manager", self.manager.run(self._executor))
        self._run("pods", _serve(subscription, self.manager))
        self._run("poll", polling.run())
        self._run("watch", watching.run())
        self._run("quota", self._refresh_budget())
        if any(record.spec.gang is not None for record in saved.records.values()):
            self._run("pod groups", self._sweep(groups))
        if on_update is not None:
            self._run("updates", self.update_queue.call(on_update))
        for number in range(self._settings.concurrency):
            self._run(f"hand {number}", self._executor.run_worker())

    async def stop(self) -> None:
        """Stop after what is being written, write what is left, give the state back."""
        if self._stopped is None:
            self.manager.stop()
            await asyncio.wait([self._managing])
        self._halt(BackendStopped("the backend has been stopped"))
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)
        await self._executor.stop()
        with contextlib.suppress(StateProblem):
            await self.table.commit()
        await self._state.close()

    def check(self) -> None:
        """BackendStopped if it does not run any more."""
        if self._stopped is not None:
            raise self._stopped

    async def flush(self) -> None:
        """Wait until all that has been changed is durable. BackendStopped."""
        self.check()
        self.manager.enqueue()
        await self.table.wait()

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
        self.table.fail(self._stopped)
        self.update_queue.end()
        self.manager.committed.notify_all()
        self.quota.changed.notify_all()

    def _confirm(self, record: TaskRecord) -> None:
        """The owner has seen the end of a task."""
        now = self.table.records.get(record.id)
        if now is not None and now.final and not now.told and now.version == record.version:
            self.table.change(now, msgspec.structs.replace(now, told=True))
            self.manager.enqueue(record.id)

    def _in_cluster(self) -> Resources:
        """What the pods of our tasks take now, as far as is known: what a quota counts as used by us."""
        holding = (allocated_resources(r) for r in self.table.durable.values() if r.pod_uid)
        return sum(holding, NOTHING)

    async def _refresh_budget(self) -> None:
        """Pass on that something may have come back, and ask the budget now and then."""
        loop = asyncio.get_running_loop()
        asked = loop.time()
        while True:
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout_at(asked + self._settings.budget_seconds):
                    await self.manager.committed.wait()
            if loop.time() < asked + self._settings.budget_seconds:
                self.quota.changed.notify_all()
                continue
            asked = loop.time()
            try:
                await self.quota.refresh(self._in_cluster())
            except ClusterProblem as problem:
                _log.warning("the budget could not be asked; the last answer holds: %s", problem)

    async def _sweep(self, groups: PodGroups) -> None:
        backoff = ExponentialBackoff(self._rng)
        while True:
            try:
                await groups.sweep()
            except ClusterProblem as problem:
                pause = backoff.next_delay(problem.retry_after)
                _log.warning("left-over PodGroups could not be deleted; again in %.1f s: %s", pause, problem)
                await asyncio.sleep(pause)
            else:
                return


async def _serve(subscription: Subscription, manager: TaskPodsLifecycleManager) -> None:
    """Tell the manager at its own pace."""
    while True:
        await manager.handle_pods(await subscription.next())
