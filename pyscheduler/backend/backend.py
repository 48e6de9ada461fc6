"""The task backend as its owner sees it."""

from __future__ import annotations

import random
import time
from collections.abc import AsyncGenerator, Callable, Iterable, Mapping
from types import MappingProxyType
from typing import Self

import msgspec

from pyscheduler.backend.client import PodsApi
from pyscheduler.backend.errors import (
    BackendStopped,
    InsufficientResources,
    TaskExists,
    TaskFinal,
    TaskUnsettled,
    UnknownTask,
)
from pyscheduler.backend.offers import Budget, Offer
from pyscheduler.backend.pods import PodState
from pyscheduler.backend.process import BackendRuntime
from pyscheduler.backend.resources import Resources
from pyscheduler.backend.settings import BackendSettings
from pyscheduler.backend.state import StateStore
from pyscheduler.backend.task import TaskRecord, TaskSpec, allocated_resources, check
from pyscheduler.backend.updates import OnUpdate

IMMEDIATE_FIELDS = ("retry", "pending_seconds", "deadline_seconds", "owner")
"""The fields of a spec that count for a pod that is there already."""
_COMMIT_BATCH = 100


class KubernetesTaskBackend:
    """Runs tasks as pods: submit, watch, account, clean. Use it as an async context manager.

    `client` (a `KubernetesClient`) is opened and closed by whoever made it. `budget` None means no limit. `on_update`
    is called with every record that changed, in the event loop, one at a time; where it raises, it is called again
    later. If it is not given, `updates()` tells the same. `clock` gives seconds since the epoch.
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
        self._client, self._state, self._budget = client, state, budget
        self._settings = settings if settings is not None else BackendSettings()
        self._on_update, self._clock = on_update, clock
        self._rng = rng if rng is not None else random.Random()
        self._running: BackendRuntime | None = None

    async def __aenter__(self) -> Self:
        """Take the state, go on where the last process stopped. StateInUse, StateProblem, ClusterProblem."""
        process = BackendRuntime(self._client, self._state, self._budget, self._settings, self._clock, self._rng)
        await process.start(self._on_update)
        self._running = process
        return self

    async def __aexit__(self, *_: object) -> None:
        """Stop, and give the state back. Pods go on running; the next process takes them up."""
        if self._running is not None:
            await self._running.stop()

    async def submit(self, spec: TaskSpec) -> TaskRecord:
        """Have the task run; returns its record once it is durable. The same spec again is harmless.

        TaskProblem if it cannot be run as written, TaskExists if the id stands for another spec, InsufficientResources if the offer is
        too small now; BackendStopped.
        """
        process = self._process()
        self._insert(process, spec)
        await process.flush()
        return self.task(spec.id)

    async def submit_all(self, specs: Iterable[TaskSpec]) -> list[TaskRecord]:
        """Submit all, in order, each as soon as there is room. InsufficientResources only for one larger than the whole budget."""
        process = self._process()
        ids: list[str] = []
        for count, spec in enumerate(specs, 1):
            while spec.id not in process.table.records and self._process().quota.offer().missing(spec.requests()):
                lacks = process.quota.missing_from_limit(spec.requests())
                if lacks:
                    raise InsufficientResources(f"task {spec.id!r} is larger than the whole budget: it lacks {lacks}")
                await process.quota.changed.wait()
            self._insert(process, spec)
            ids.append(spec.id)
            if count % _COMMIT_BATCH == 0:
                await process.flush()
        await process.flush()
        return [self.task(task) for task in ids]

    async def update(self, spec: TaskSpec) -> TaskRecord:
        """Change a task that is not final. What its pod does not show (retry, pending_seconds, deadline_seconds, owner)
        counts at once; the rest when the next attempt is made, and until then the larger requests of both are held.

        UnknownTask, TaskFinal, TaskProblem, InsufficientResources, BackendStopped.
        """
        check(spec)
        process = self._process()
        record = self._newest(process, spec.id)
        if record.final:
            raise TaskFinal(f"task {spec.id!r} is {record.phase} and does not change any more")
        current = msgspec.structs.replace(record.spec, **{name: getattr(spec, name) for name in IMMEDIATE_FIELDS})
        later = spec if spec != current else None
        if (current, later) != (record.spec, record.next_spec):
            new = msgspec.structs.replace(record, spec=current, next_spec=later, version=record.version + 1)
            _fits(process, spec.id, allocated_resources(new) - allocated_resources(record))
            process.table.change(record, new)
            process.manager.enqueue(spec.id)
        await process.flush()
        return self.task(spec.id)

    async def kill(self, task: str) -> TaskRecord:
        """Have the task ended; returns once that wish is durable. One that succeeds first has succeeded.

        UnknownTask, BackendStopped.
        """
        process = self._process()
        record = self._newest(process, task)
        if not record.final and not record.killing:
            process.table.change(record, msgspec.structs.replace(record, killing=True, version=record.version + 1))
            process.manager.enqueue(task)
        await process.flush()
        return self.task(task)

    async def forget(self, task: str) -> None:
        """Drop a settled task's record; its id is free again. UnknownTask, TaskUnsettled, BackendStopped."""
        process = self._process()
        if not self._newest(process, task).settled:
            raise TaskUnsettled(f"task {task!r} is not over; kill it first, and wait until it is settled")
        process.table.forget(task)
        await process.flush()

    def task(self, task: str) -> TaskRecord:
        """The record of a task as it is durable. UnknownTask."""
        found = self.tasks().get(task)
        if found is None:
            raise UnknownTask(f"there is no task {task!r}")
        return found

    def tasks(self) -> Mapping[str, TaskRecord]:
        """All records by id as they are durable; it changes with them."""
        return MappingProxyType(self._process(allow_stopped=True).table.durable)

    def orphans(self) -> dict[str, PodState]:
        """Pods with the backend's label that are of no task known here, by name. They are left alone."""
        return self._process(allow_stopped=True).manager.orphans

    def allocated_resources(self) -> Resources:
        """What all tasks together hold now."""
        return self._process(allow_stopped=True).table.allocated

    def updates(self) -> AsyncGenerator[TaskRecord, None]:
        """Every change of a record, only the latest if several came meanwhile. Ends when the backend stops.

        A final one counts as told when the next is asked for; until then it is told again, by another iterator or after
        a restart: (id, version) names an update. RuntimeError if there is an `on_update`.
        """
        if self._on_update is not None:
            raise RuntimeError("updates go to on_update; make the backend without it to use updates()")
        return self._process().update_queue.stream()

    def offer(self) -> Offer:
        """What may be used now."""
        return self._process().quota.offer()

    def offers(self) -> AsyncGenerator[Offer, None]:
        """The offer as it is now, and again whenever resources have come back or the budget has grown."""
        return self._process().quota.offers()

    async def wait_until_settled(self) -> None:
        """Wait until every task is final and none of its pods is left. BackendStopped if that will not be."""
        while self._process().table.unsettled:
            await self._process().manager.committed.wait()

    def _insert(self, process: BackendRuntime, spec: TaskSpec) -> None:
        check(spec)
        there = process.table.records.get(spec.id)
        if there is not None:
            if spec not in (there.spec, there.next_spec):
                raise TaskExists(f"task {spec.id!r} exists with another spec; use update, or another id")
            return
        _fits(process, spec.id, spec.requests())
        now = self._clock()
        process.table.change(None, TaskRecord(spec=spec, submitted_at=now, attempt_at=now))
        process.manager.enqueue(spec.id)

    @staticmethod
    def _newest(process: BackendRuntime, task: str) -> TaskRecord:
        record = process.table.records.get(task)
        if record is None:
            raise UnknownTask(f"there is no task {task!r}")
        return record

    def _process(self, *, allow_stopped: bool = False) -> BackendRuntime:
        """What runs; `allow_stopped`: also what has run."""
        if self._running is None:
            raise BackendStopped("the backend is not started; use it in an `async with` block")
        if not allow_stopped:
            self._running.check()
        return self._running


def _fits(process: BackendRuntime, task: str, more: Resources) -> None:
    lacks = process.quota.offer().missing(more)
    if lacks:
        raise InsufficientResources(f"task {task!r} does not fit into the offer: it lacks {lacks}")
