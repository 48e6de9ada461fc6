"""Carries out calls: so many at once, those that end something before those that begin something."""

from __future__ import annotations

import asyncio
import random
from collections import deque
from collections.abc import Awaitable, Callable
from typing import NamedTuple

from pyscheduler.backend.backoff import ExponentialBackoff
from pyscheduler.backend.client import ClusterProblem, PodsApi
from pyscheduler.backend.decide import Call, Create, Delete, Get
from pyscheduler.backend.groups import PodGroups
from pyscheduler.backend.pods import PodsSnapshot, PodState
from pyscheduler.backend.store import PodSnapshotStore
from pyscheduler.backend.task import Json, TaskRecord

_MISSING, _CONFLICT = 404, 409


class TaskCall(NamedTuple):
    """One call about one task; the record is the durable one that it was decided on."""

    record: TaskRecord
    call: Call


ResultHandler = Callable[[TaskCall, PodState | ClusterProblem | None], None]
"""How an task_call went: for a create or a look the pod as the store has it by now."""


class ApiCallExecutor:
    """`on_result` receives how each task_call went. What a create is answered with is merged into the store before that."""

    def __init__(
        self,
        client: PodsApi,
        store: PodSnapshotStore,
        groups: PodGroups,
        body: Callable[[TaskRecord], Json],
        on_result: ResultHandler,
        rng: random.Random,
    ) -> None:
        self._client, self._store, self._groups = client, store, groups
        self._body, self._on_result, self._rng = body, on_result, rng
        self._deletions: deque[TaskCall] = deque()
        self._creations: deque[TaskCall] = deque()
        self._group_deletions: set[asyncio.Task[None]] = set()
        self._queued = asyncio.Semaphore(0)

    def submit(self, task_call: TaskCall) -> None:
        """Carry it out as soon as there is a hand free."""
        (self._creations if isinstance(task_call.call, Create) else self._deletions).append(task_call)
        self._queued.release()

    def delete_group(self, gang: str) -> None:
        """Delete the gang's PodGroup, trying until it works."""
        task = asyncio.create_task(self._drop(gang), name=f"drop pod group {gang}")
        self._group_deletions.add(task)
        task.add_done_callback(self._group_deletions.discard)

    async def run_worker(self) -> None:
        """One hand: carries out one task_call after the other until cancelled. Run as many as may be under way."""
        while True:
            await self._queued.acquire()
            task_call = (self._deletions or self._creations).popleft()
            try:
                answer: PodState | ClusterProblem | None = await self._carry_out(task_call)
            except ClusterProblem as problem:
                answer = problem
            self._on_result(task_call, answer)

    async def stop(self) -> None:
        """Leave what is not done."""
        for task in self._group_deletions:
            task.cancel()
        await asyncio.gather(*self._group_deletions, return_exceptions=True)

    async def _carry_out(self, task_call: TaskCall) -> PodState | None:
        call = task_call.call
        if isinstance(call, Create):
            return await self._create(task_call.record)
        if isinstance(call, Get):
            return await self._get(task_call.record)
        if isinstance(call, Delete):
            await self._unless_gone(self._client.delete_pod(call.pod.name, call.pod.uid, call.grace))
        else:
            await self._release(call.pod)
        return None

    async def _create(self, record: TaskRecord) -> PodState:
        await self._groups.ensure(record.spec)
        body = self._body(record)
        try:
            pod = await self._client.create_pod(body)
        except ClusterProblem as problem:
            if problem.reason != "AlreadyExists":
                raise
            pod = await self._get_own_pod(record, str(body["metadata"]["name"]))
        self._store.merge(PodsSnapshot(pods={pod.name: pod}))
        newest = self._store.pods.get(pod.name)
        if newest is None:
            # It went meanwhile, which subscribers hear of; or it bears no label of ours, and is seen by no source.
            raise ClusterProblem(0, "Unseen", f"pod {pod.name} was created and is not seen")
        return newest

    async def _get(self, record: TaskRecord) -> PodState | None:
        name = str(self._body(record)["metadata"]["name"])
        try:
            pod = await self._get_own_pod(record, name)
        except ClusterProblem as problem:
            if problem.reason in ("NotFound", "AlreadyExists"):
                return None
            raise
        self._store.merge(PodsSnapshot(pods={pod.name: pod}))
        return self._store.pods.get(pod.name)

    async def _get_own_pod(self, record: TaskRecord, name: str) -> PodState:
        """The pod that has the name already: the one that an earlier try has made. 422 if it is somebody else's."""
        try:
            pod = await self._client.get_pod(name)
        except ClusterProblem as problem:
            if problem.status != _MISSING:
                raise
            raise ClusterProblem(0, problem.reason, f"pod {name} went while its name was taken") from None
        if (pod.task, pod.attempt) != (record.id, record.attempt):
            raise ClusterProblem(422, "AlreadyExists", f"pod {name} exists and is not of task {record.id!r}")
        return pod

    async def _release(self, pod: PodState) -> None:
        if pod.has_finalizer:
            await self._unless_gone(self._client.release_pod(pod.name, pod.uid))
        if not (pod.deleting and pod.grace == 0):
            await self._unless_gone(self._client.delete_pod(pod.name, pod.uid, 0 if pod.deleting else None))

    @staticmethod
    async def _unless_gone(call: Awaitable[None]) -> None:
        try:
            await call
        except ClusterProblem as problem:
            if problem.status not in (_MISSING, _CONFLICT):
                raise

    async def _drop(self, gang: str) -> None:
        backoff = ExponentialBackoff(self._rng)
        while True:
            try:
                await self._groups.drop(gang)
            except ClusterProblem as problem:
                await asyncio.sleep(backoff.next_delay(problem.retry_after))
            else:
                return
