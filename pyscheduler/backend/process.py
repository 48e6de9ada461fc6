"""Runtime of a started backend: creates its parts and runs their tasks. A part that fails stops the whole backend."""

from __future__ import annotations

import asyncio
import contextlib
import logging
from collections.abc import Coroutine, Sequence
from functools import partial
from typing import Any

import msgspec

from pyscheduler.api import ApiError
from pyscheduler.backend.admission import AdmissionQueue
from pyscheduler.backend.backoff import ExponentialBackoff
from pyscheduler.backend.client import PodsApi
from pyscheduler.backend.context import BackendContext
from pyscheduler.backend.delivery import OnUpdate, UpdateDelivery
from pyscheduler.backend.errors import BackendStopped, retry_after
from pyscheduler.backend.executor import ApiCallExecutor
from pyscheduler.backend.groups import TaskPodGroups
from pyscheduler.backend.identity import acquire_lease, bind_state
from pyscheduler.backend.lifecycle import TaskPodsLifecycleManager
from pyscheduler.backend.logs import LogStore, PodLogs
from pyscheduler.backend.offers import Budget, QuotaAccountant
from pyscheduler.backend.polling import PodsPollingSnapshotSource
from pyscheduler.backend.releases import ReleaseHook
from pyscheduler.backend.resources import NOTHING, Resources
from pyscheduler.backend.settings import BackendSettings
from pyscheduler.backend.state import SavedState, StateProblem, StateStore
from pyscheduler.backend.state.lease import StateLease
from pyscheduler.backend.store import PodSnapshotStore, Subscription
from pyscheduler.backend.task import TaskRecord, TaskSpec, allocated_resources
from pyscheduler.backend.task_table import TaskTable
from pyscheduler.backend.template import pod_body, selector
from pyscheduler.backend.updates import UpdateQueue
from pyscheduler.backend.watchdog import LoopWatchdog
from pyscheduler.backend.watching import PodsWatchSnapshotSource
from pyscheduler.kube.numbers import natural

_log = logging.getLogger(__name__)
_MANAGER = "manager"
_LEAST_FORGET_SECONDS, _FORGET_SECONDS = 1.0, 60.0
"""Shortest and longest interval between two searches for finished tasks whose time to live is over."""


class OpenedState(msgspec.Struct, frozen=True, eq=False):
    """Opened state store, the records in it, and the offers that they leave room for."""

    store: StateStore
    saved: SavedState
    table: TaskTable
    quota: QuotaAccountant
    lease: StateLease


async def open_state(
    store: StateStore,
    budget: Budget | None,
    client: PodsApi,
    settings: BackendSettings,
    context: BackendContext,
) -> OpenedState:
    """Open the state and acquire the Lease. StateInUse, StateProblem; ApiError if the budget is unreadable."""
    saved, lease, quota = await store.open(), None, None
    try:
        identity = await bind_state(store, saved, client, settings.name, context)
        lease = await acquire_lease(client, identity, saved.place, context.clock)
        table = TaskTable(store, saved.records, saved.resource_version)
        quota = QuotaAccountant(budget, table)
        await quota.refresh(_used_by_pods(table))
    except BaseException:
        if quota is not None:
            quota.leave()
        if lease is not None:
            await lease.release()
        await store.close()
        raise
    return OpenedState(store, saved, table, quota, lease)


class BackendRuntime:
    """Backend with an opened state, which `stop` closes."""

    def __init__(
        self,
        client: PodsApi,
        opened: OpenedState,
        settings: BackendSettings,
        context: BackendContext,
        log_stores: Sequence[LogStore] = (),
    ) -> None:
        self.table, self.quota, self._lease = opened.table, opened.quota, opened.lease
        context = context._replace(may_call=lambda: self._lease.is_held)
        self.context = context
        context.problems.add_check("lease", lambda: "" if self._stopped is not None else self._lease.problem)
        self._state, self._settings, self._rng = opened.store, settings, context.rng
        self.logs = PodLogs(client.lister_watcher, client.namespace)
        resource_version = natural(opened.saved.resource_version or "")
        store = PodSnapshotStore(resource_version)
        self._subscription = store.subscribe()
        self._groups = TaskPodGroups(client, self.table, settings.name)
        body = partial(pod_body, backend=settings.name, scheduler=settings.scheduler, finalizer=settings.finalizer)
        releases = ReleaseHook(self.logs, log_stores, settings, context.problems)
        create_executor = partial(ApiCallExecutor, client, store, self._groups, body, releases, context)
        self.update_queue = UpdateQueue(self._confirm)
        context.metrics.collect_from(self.table, lambda: self.update_queue.size, context.problems)
        self.manager = TaskPodsLifecycleManager(
            self.table, settings, self._subscription, self.update_queue.put, create_executor, context
        )
        self.admission = AdmissionQueue(self.quota, settings.backfill_seconds, self.insert, context.clock)
        self.quota.listeners.append(self.admission.wake)
        self._watchdog = LoopWatchdog(context.problems, settings.blocked_seconds)
        labels = selector(settings.name)
        seconds, rng = settings.poll_seconds, context.rng
        self._watching = PodsWatchSnapshotSource(client, labels, store, resource_version, rng)
        self._polling = PodsPollingSnapshotSource(
            client, labels, store, seconds, rng, context.problems, self._watching.relist
        )
        self._tasks: dict[str, asyncio.Task[None]] = {}
        self._stopped: BackendStopped | None = None

    def start(self, saved: SavedState, on_update: OnUpdate | None) -> None:
        """Start the tasks of all parts, and notify the owner of the final records that it has not received."""
        for record in saved.records.values():
            if record.final and not record.acknowledged:
                self.update_queue.put(record)
        self._run(_MANAGER, self.manager.run())
        self._run("pods", _forward(self._subscription, self.manager))
        self._run("lease", self._lease.keep())
        self._run("state", self._check_state())
        self._run("watch", self._watching.run())
        self._run("poll", self._polling.run())
        self._run("quota", self._refresh_budget())
        if self._settings.ttl_seconds_after_finished is not None:
            self._run("finished tasks", self._forget_finished(self._settings.ttl_seconds_after_finished))
        self._run("admission", self.admission.run(self.flush))
        if any(record.spec.gang is not None for record in saved.records.values()):
            self._run("pod groups", self._delete_leftover_groups())
        if on_update is not None:
            delivery = UpdateDelivery(self.update_queue, on_update, self._settings, self.context)
            self._run("updates", delivery.run())
        self._watchdog.start()
        for number in range(self._settings.concurrency):
            self._run(f"worker {number}", self.manager.executor.run_worker())

    async def stop(self) -> None:
        """Stop after the current reconciliation, commit what has changed, close the state."""
        if self._stopped is None:
            self.manager.stop()
            await asyncio.wait([self._tasks[_MANAGER]])
        self._halt(BackendStopped("the backend has been stopped"))
        for task in self._tasks.values():
            task.cancel()
        self._watchdog.stop()
        await asyncio.gather(*self._tasks.values(), return_exceptions=True)
        await self.manager.executor.stop()
        with contextlib.suppress(StateProblem):
            await self.table.commit()
        await self._lease.release()
        await self._state.close()

    @property
    def problem(self) -> str:
        """Reason why the backend has stopped, or the current problems; "" if there are none."""
        return str(self._stopped) if self._stopped is not None else str(self.context.problems)

    def check(self) -> None:
        """Raise BackendStopped if the backend has stopped."""
        if self._stopped is not None:
            raise self._stopped

    def insert(self, spec: TaskSpec) -> None:
        """Add a task; its resources are allocated from now on."""
        now = self.context.clock()
        submission = f"{self.context.rng.getrandbits(64):016x}"
        self.table.change(None, TaskRecord(spec=spec, submission=submission, submitted_at=now, attempt_at=now))
        self.manager.enqueue(spec.id)

    async def flush(self) -> None:
        """Wait until all changes so far are durable. BackendStopped."""
        self.check()
        self.manager.enqueue()
        await self.table.wait()

    def _run(self, name: str, work: Coroutine[Any, Any, None]) -> None:
        task = asyncio.create_task(work, name=f"task backend: {name}")
        task.add_done_callback(self._ended)
        self._tasks[name] = task

    def _ended(self, task: asyncio.Task[None]) -> None:
        problem = None if task.cancelled() else task.exception()
        if problem is not None and self._stopped is None:
            _log.error("task backend failed, stopping: %s", problem, exc_info=problem)
            self._halt(BackendStopped(f"the backend stopped: {problem}"))
            for other in self._tasks.values():
                other.cancel()

    def _halt(self, why: BackendStopped) -> None:
        """Wake all waiters; they raise BackendStopped or end their iteration."""
        self._stopped = self._stopped or why
        self.table.fail(self._stopped)
        self.admission.fail(self._stopped)
        self.update_queue.end()
        self.manager.committed.notify_all()
        self.quota.changed.notify_all()
        self.quota.leave()

    def _confirm(self, record: TaskRecord) -> None:
        """Record that the owner has received the final record of a task."""
        now = self.table.records.get(record.id)
        if now is not None and now.final and not now.acknowledged and now.version == record.version:
            self.table.change(now, msgspec.structs.replace(now, acknowledged=True))
            self.manager.enqueue(record.id)

    async def _refresh_budget(self) -> None:
        """Notify offer listeners after each commit, and read the budget every `budget_seconds`."""
        loop = asyncio.get_running_loop()
        refreshed_at = loop.time()
        while True:
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout_at(refreshed_at + self._settings.budget_seconds):
                    await self.manager.committed.wait()
            self.quota.notify()
            if loop.time() < refreshed_at + self._settings.budget_seconds:
                continue
            refreshed_at = loop.time()
            try:
                await self.quota.refresh(_used_by_pods(self.table))
            except ApiError as problem:
                _log.warning("reading the budget failed, keeping the last limit: %s", problem)
                self.context.problems.report("budget", problem)
            else:
                self.context.problems.clear("budget")

    async def _check_state(self) -> None:
        """Check the state every few seconds, so that a removed file is noticed without a commit. StateLost."""
        while True:
            await asyncio.sleep(self._settings.place_seconds)
            await self._state.check()

    async def _forget_finished(self, ttl: float) -> None:
        """Forget the records of tasks that settled more than `ttl` seconds ago."""
        while True:
            await asyncio.sleep(min(max(ttl, _LEAST_FORGET_SECONDS), _FORGET_SECONDS))
            finished_before = self.context.clock() - ttl
            settled = [record for record in self.table.records.values() if record.settled and record.acknowledged]
            for record in settled:
                if (record.finished_at or 0.0) <= finished_before:
                    self.table.forget(record.id)
            self.manager.enqueue()

    async def _delete_leftover_groups(self) -> None:
        backoff = ExponentialBackoff(self._rng)
        while True:
            try:
                await self._groups.sweep()
            except ApiError as problem:
                pause = backoff.next_delay(retry_after(problem))
                _log.warning("deleting left-over PodGroups failed, retrying in %.1f s: %s", pause, problem)
                await asyncio.sleep(pause)
            else:
                return


def _used_by_pods(table: TaskTable) -> Resources:
    """Return the resources of existing pods as far as recorded: the backend's share of a quota's `used`."""
    requests = (allocated_resources(r) for r in table.durable.values() if r.pod_uid)
    return sum(requests, NOTHING)


async def _forward(subscription: Subscription, manager: TaskPodsLifecycleManager) -> None:
    """Pass snapshots to the manager, the next one once it has handled the last."""
    while True:
        await manager.handle_pods(await subscription.next())
