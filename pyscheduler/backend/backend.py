"""Public interface of the task backend: submit, update, kill and forget tasks, receive their updates."""

from __future__ import annotations

import asyncio
import random
import time
from collections.abc import AsyncGenerator, Callable, Iterable, Mapping
from contextlib import aclosing
from pathlib import Path
from types import MappingProxyType
from typing import Self

import msgspec

from pyscheduler.backend.adoption import adopted_record
from pyscheduler.backend.client import PodsApi
from pyscheduler.backend.context import BackendContext
from pyscheduler.backend.delivery import OnUpdate
from pyscheduler.backend.errors import (
    BackendStopped,
    InsufficientResources,
    TaskExists,
    TaskFinal,
    TaskUnsettled,
    UnknownTask,
)
from pyscheduler.backend.logs import LogStore
from pyscheduler.backend.metrics import BackendMetrics
from pyscheduler.backend.offers import Budget, Offer
from pyscheduler.backend.pods import PodState
from pyscheduler.backend.problems import Problems
from pyscheduler.backend.process import BackendRuntime, open_state
from pyscheduler.backend.resources import Resources
from pyscheduler.backend.settings import BackendSettings
from pyscheduler.backend.state import StateStore
from pyscheduler.backend.steady_clock import SteadyClock
from pyscheduler.backend.task import TaskRecord, TaskSpec, allocated_resources, checked
from pyscheduler.backend.template import pod_name

IMMEDIATE_FIELDS = (
    "retry",
    "pending_seconds",
    "start_seconds",
    "deadline_seconds",
    "owner",
    "priority",
    "update_policy",
)
"""Fields of a spec that take effect while the pod exists."""
_WINDOW = 1000
"""Most tasks of one `submit_all` that wait in the queue."""


class KubernetesTaskBackend:
    """Runs tasks as pods: submits, watches, accounts, cleans up. Use it as an async context manager.

    The caller opens and closes `client` (a `KubernetesClient`). `budget` None means no limit. `on_update` is called
    with the records that have changed: a coroutine function in the event loop, any other function in a thread. Calls
    for different tasks are concurrent, those for one task in order; if one raises, it is retried later. Without it,
    `updates()` yields the records. `clock` returns seconds since the epoch and is read once, at the start.
    """

    def __init__(
        self,
        client: PodsApi,
        state: StateStore,
        budget: Budget | None = None,
        *,
        settings: BackendSettings | None = None,
        on_update: OnUpdate | None = None,
        clock: Callable[[], float] = time.time,
        rng: random.Random | None = None,
    ) -> None:
        if isinstance(state, str | Path):
            raise TypeError(f"state is a store such as SqliteState(path), not {type(state).__name__}")
        self.metrics = BackendMetrics()
        """Prometheus metrics: `metrics.text()`, or `metrics.registry` for an HTTP server of prometheus_client."""
        self._log_stores: list[LogStore] = []
        self._client, self._state, self._budget = client, state, budget
        self._settings = settings if settings is not None else BackendSettings()
        self._on_update, self._wall = on_update, clock
        self._clock = clock
        self._rng = rng if rng is not None else random.Random()
        self._problems: Problems | None = None
        """Problems of the start, until the backend runs."""
        self._running: BackendRuntime | None = None

    async def __aenter__(self) -> Self:
        """Open the state and resume where the last process stopped. StateInUse, StateProblem, ApiError."""
        self._clock = SteadyClock(self._wall)
        self._problems = Problems()
        context = BackendContext(self._clock, self._rng, self._problems, self.metrics)
        opened = await open_state(self._state, self._budget, self._client, self._settings, context)
        process = BackendRuntime(self._client, opened, self._settings, context, self._log_stores)
        process.start(opened.saved, self._on_update)
        self._running = process
        return self

    async def __aexit__(self, *_: object) -> None:
        """Stop and close the state. Pods keep running; the next process manages them."""
        if self._running is not None:
            await self._running.stop()

    def add_log_store(self, store: LogStore) -> None:
        """Pass the logs of each pod to the store before the pod is deleted. Call it before the backend starts."""
        self._log_stores.append(store)

    async def submit(self, spec: TaskSpec) -> TaskRecord:
        """Submit the task and return its record once it is durable. Submitting an equal spec again changes nothing.

        TaskProblem if the spec is invalid, TaskExists if the id has another spec, InsufficientResources if the offer
        is too small now; BackendStopped. StateProblem if the state cannot be written: nothing is done meanwhile, and
        the task may become durable later, so submit it again.
        """
        process = self._process()
        spec = checked(spec)
        self._insert(process, spec)
        await process.flush()
        return self.task(spec.id)

    async def submit_all(self, specs: Iterable[TaskSpec]) -> list[TaskRecord]:
        """Submit all, each as soon as the offer has room for it and no task before it in the queue keeps it waiting.

        At the first invalid spec it waits for those before and raises as `submit_when_room` does.
        """
        ids: list[str] = []
        waiting: set[asyncio.Future[None]] = set()
        try:
            for spec in specs:
                waiting.add(self.submit_when_room(spec))
                ids.append(spec.id)
                if len(waiting) >= _WINDOW:
                    _, waiting = await asyncio.wait(waiting, return_when=asyncio.FIRST_COMPLETED)
        except asyncio.CancelledError:
            for future in waiting:
                future.cancel()
            raise
        finally:
            await asyncio.gather(*waiting)
        return [self.task(task) for task in ids]

    def submit_when_room(self, spec: TaskSpec) -> asyncio.Future[None]:
        """Queue a task until the offer has room for it; return a future that is done once the task is durable.

        Tasks of a higher `priority` go first; smaller ones may pass one that does not fit, for a time. The queue is not
        durable: submit again after a restart. TaskProblem, TaskExists; InsufficientResources if the task is larger than
        the whole budget; BackendStopped, also of the future.
        """
        process = self._process()
        spec = checked(spec)
        existing = process.table.records.get(spec.id)
        queued = process.admission.find(spec.id)
        if (existing is not None and spec not in (existing.spec, existing.next_spec)) or queued not in (None, spec):
            raise TaskExists(f"task {spec.id!r} exists with another spec; use update, or another id")
        if existing is not None:
            return asyncio.ensure_future(process.flush())
        lacks = process.quota.missing_from_limit(spec.requests())
        if lacks:
            raise InsufficientResources(f"task {spec.id!r} is larger than the whole budget: it lacks {lacks}")
        return process.admission.put(spec)

    def withdraw(self, task: str) -> bool:
        """Remove a task from the queue of `submit_when_room`; return False if it does not wait there."""
        return self._process().admission.withdraw(task)

    async def update(self, spec: TaskSpec) -> TaskRecord:
        """Change the spec of a task that is not final.

        Fields that are not part of the pod (`IMMEDIATE_FIELDS`) take effect at once, the others with the next attempt;
        until then the larger of the old and new requests is allocated. When the current pod ends, the task runs again
        with the new spec, unless its `update_policy` is to discard it. UnknownTask, TaskFinal, TaskProblem,
        InsufficientResources, BackendStopped.
        """
        spec = checked(spec)
        process = self._process()
        record = self._newest(process, spec.id)
        if record.final:
            raise TaskFinal(f"task {spec.id!r} is {record.phase} and does not change any more")
        current = msgspec.structs.replace(record.spec, **{name: getattr(spec, name) for name in IMMEDIATE_FIELDS})
        later = spec if spec != current else None
        if (current, later) != (record.spec, record.next_spec):
            new = msgspec.structs.replace(record, spec=current, next_spec=later, version=record.version + 1)
            _check_fits(process, spec.id, allocated_resources(new) - allocated_resources(record))
            process.table.change(record, new)
            process.manager.enqueue(spec.id)
        await process.flush()
        return self.task(spec.id)

    async def kill(self, task: str) -> TaskRecord:
        """Request the end of the task; return its record once the request is durable. UnknownTask, BackendStopped.

        If its pod succeeds before it is stopped, the task counts as succeeded.
        """
        process = self._process()
        record = self._newest(process, task)
        if not record.final and not record.killing:
            process.table.change(record, msgspec.structs.replace(record, killing=True, version=record.version + 1))
            process.manager.enqueue(task)
        await process.flush()
        return self.task(task)

    async def forget(self, task: str) -> None:
        """Delete the record of a settled task; its id can be reused. UnknownTask, TaskUnsettled, BackendStopped."""
        process = self._process()
        if not self._newest(process, task).settled:
            raise TaskUnsettled(f"task {task!r} is not over; kill it first, and wait until it is settled")
        process.table.forget(task)
        await process.flush()

    def task(self, task: str) -> TaskRecord:
        """Return the durable record of a task. UnknownTask."""
        record = self.tasks().get(task)
        if record is None:
            raise UnknownTask(f"there is no task {task!r}")
        return record

    def tasks(self) -> Mapping[str, TaskRecord]:
        """Return a live view of all durable records, by task id."""
        return MappingProxyType(self._process(allow_stopped=True).table.durable)

    def orphans(self) -> dict[str, PodState]:
        """Return the pods with the backend's label that belong to no task, by name. The backend never changes them."""
        return self._process(allow_stopped=True).manager.orphans

    async def adopt(self, pod: str) -> TaskRecord:
        """Make the task of an orphan again: its end is awaited and reported, and further attempts repeat the pod.

        Adopting the pod of a task again changes nothing, so it can be repeated after a crash. NoOrphan, TaskExists,
        TaskProblem, ApiError, BackendStopped.
        """
        process = self._process()
        while not process.manager.synced:
            await process.manager.committed.wait()
            process.check()
        task = process.manager.task_of(pod)
        if task:
            await process.flush()
            return self.task(task)
        record = await adopted_record(self._client, self.orphans(), pod, self._settings.name)
        existing = process.table.records.get(record.id)
        if existing is not None and existing.pod_uid == record.pod_uid:  # a concurrent call has adopted it
            await process.flush()
            return self.task(record.id)
        if not process.table.change(None, record):
            raise TaskExists(f"task {record.id!r} exists; forget it before its pod {pod} is adopted")
        process.manager.enqueue(record.id)
        await process.flush()
        return self.task(record.id)

    @property
    def problem(self) -> str:
        """One line with all that fails now, or why the backend has stopped; "" if it is healthy."""
        if self._running is None and self._problems is not None:
            return str(self._problems)
        return self._process(allow_stopped=True).problem

    async def logs(
        self, task: str, container: str = "", *, tail: int | None = None, follow: bool = False
    ) -> AsyncGenerator[bytes, None]:
        """Yield the log of the task's current pod as it arrives, with `follow` until the container has ended.

        `container` may be "" for pods with one; `tail` limits it to the last lines. UnknownTask; LogsUnavailable if the
        pod is gone or the server has no logs; ApiError.
        """
        record = self.task(task)
        pod = pod_name(self._settings.name, task, record.attempt)
        async with aclosing(self._process().logs.read(pod, container, tail=tail, follow=follow)) as chunks:
            async for chunk in chunks:
                yield chunk

    def allocated_resources(self) -> Resources:
        """Return the resources allocated to all tasks together."""
        return self._process(allow_stopped=True).table.allocated

    def updates(self) -> AsyncGenerator[TaskRecord, None]:
        """Yield each changed record, of each task only the latest. Ends when the backend stops.

        A final record is acknowledged when the next one is requested; until then another iterator, or the next
        process, delivers it again: (id, submission, version) identifies an update. RuntimeError if there is an
        `on_update`.
        """
        if self._on_update is not None:
            raise RuntimeError("updates go to on_update; make the backend without it to use updates()")
        return self._process().update_queue.stream()

    def offer(self) -> Offer:
        """Return the resources that may be used now."""
        return self._process().quota.offer()

    def offers(self) -> AsyncGenerator[Offer, None]:
        """Yield the current offer, and a new one whenever resources were released or the budget grew."""
        return self._process().quota.offers()

    async def wait_until_settled(self) -> None:
        """Wait until every task is final and all its pods are deleted. BackendStopped if the backend stops first."""
        while self._process().table.unsettled:
            await self._process().manager.committed.wait()

    def _insert(self, process: BackendRuntime, spec: TaskSpec) -> None:
        existing = process.table.records.get(spec.id)
        if existing is not None:
            if spec not in (existing.spec, existing.next_spec):
                raise TaskExists(f"task {spec.id!r} exists with another spec; use update, or another id")
            return
        if process.admission.find(spec.id) not in (None, spec):
            raise TaskExists(f"task {spec.id!r} waits with another spec; withdraw it, or use another id")
        _check_fits(process, spec.id, spec.requests())
        process.insert(spec)

    @staticmethod
    def _newest(process: BackendRuntime, task: str) -> TaskRecord:
        record = process.table.records.get(task)
        if record is None:
            raise UnknownTask(f"there is no task {task!r}")
        return record

    def _process(self, *, allow_stopped: bool = False) -> BackendRuntime:
        """Return the running process; with `allow_stopped` also one that has stopped. BackendStopped."""
        if self._running is None:
            raise BackendStopped("the backend is not started; use it in an `async with` block")
        if not allow_stopped:
            self._running.check()
        return self._running


def _check_fits(process: BackendRuntime, task: str, more: Resources) -> None:
    lacks = process.quota.offer().missing(more)
    if lacks:
        raise InsufficientResources(f"task {task!r} does not fit into the offer: it lacks {lacks}")
