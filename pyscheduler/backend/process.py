"""Runtime of a started backend: creates its parts and runs their tasks. A part that fails stops the whole backend."""

from __future__ import annotations

import asyncio
import contextlib
import logging
import random
from collections.abc import Callable, Coroutine
from functools import partial
from typing import Any

import msgspec

from pyscheduler.api import ApiError
from pyscheduler.backend.backoff import ExponentialBackoff
from pyscheduler.backend.client import PodsApi
from pyscheduler.backend.errors import BackendStopped, retry_after
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
    """Backend between opening and closing its state."""

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
        """Open the state and start all parts. StateInUse, StateProblem; ApiError if the budget cannot be read."""
        saved = await self._state.open()
        try:
            self.table = TaskTable(self._state, saved.records, saved.resource_version)
            self.quota = QuotaAccountant(self._budget, self.table)
            await self.quota.refresh(self._used_by_pods())
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
            if record.final and not record.acknowledged:
                self.update_queue.put(record)
        self._managing = self._run("manager", self.manager.run(self._executor))
        self._run("pods", _forward(subscription, self.manager))
        self._run("poll", polling.run())
        self._run("watch", watching.run())
        self._run("quota", self._refresh_budget())
        if any(record.spec.gang is not None for record in saved.records.values()):
            self._run("pod groups", self._delete_leftover_groups(groups))
        if on_update is not None:
            self._run("updates", self.update_queue.call(on_update))
        for number in range(self._settings.concurrency):
            self._run(f"worker {number}", self._executor.run_worker())

    async def stop(self) -> None:
        """Stop after the current reconciliation, commit what has changed, close the state."""
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
        """Raise BackendStopped if the backend has stopped."""
        if self._stopped is not None:
            raise self._stopped

    async def flush(self) -> None:
        """Wait until all changes so far are durable. BackendStopped."""
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
            _log.error("task backend failed, stopping: %s", problem, exc_info=problem)
            self._halt(BackendStopped(f"the backend stopped: {problem}"))
            for other in self._tasks:
                other.cancel()

    def _halt(self, why: BackendStopped) -> None:
        """Wake all waiters; they raise BackendStopped or end their iteration."""
        self._stopped = self._stopped or why
        self.table.fail(self._stopped)
        self.update_queue.end()
        self.manager.committed.notify_all()
        self.quota.changed.notify_all()

    def _confirm(self, record: TaskRecord) -> None:
        """Record that the owner has received the final record of a task."""
        now = self.table.records.get(record.id)
        if now is not None and now.final and not now.acknowledged and now.version == record.version:
            self.table.change(now, msgspec.structs.replace(now, acknowledged=True))
            self.manager.enqueue(record.id)

    def _used_by_pods(self) -> Resources:
        """Return the resources of existing pods as far as recorded: the backend's share of a quota's `used`."""
        requests = (allocated_resources(r) for r in self.table.durable.values() if r.pod_uid)
        return sum(requests, NOTHING)

    async def _refresh_budget(self) -> None:
        """Notify offer listeners after each commit, and read the budget every `budget_seconds`."""
        loop = asyncio.get_running_loop()
        refreshed_at = loop.time()
        while True:
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout_at(refreshed_at + self._settings.budget_seconds):
                    await self.manager.committed.wait()
            if loop.time() < refreshed_at + self._settings.budget_seconds:
                self.quota.changed.notify_all()
                continue
            refreshed_at = loop.time()
            try:
                await self.quota.refresh(self._used_by_pods())
            except ApiError as problem:
                _log.warning("reading the budget failed, keeping the last limit: %s", problem)

    async def _delete_leftover_groups(self, groups: PodGroups) -> None:
        backoff = ExponentialBackoff(self._rng)
        while True:
            try:
                await groups.sweep()
            except ApiError as problem:
                pause = backoff.next_delay(retry_after(problem))
                _log.warning("deleting left-over PodGroups failed, retrying in %.1f s: %s", pause, problem)
                await asyncio.sleep(pause)
            else:
                return


async def _forward(subscription: Subscription, manager: TaskPodsLifecycleManager) -> None:
    """Pass snapshots to the manager, the next one once it has handled the last."""
    while True:
        await manager.handle_pods(await subscription.next())
