"""Worker pool for API calls: deletions before creations, with bounded concurrency."""

from __future__ import annotations

import asyncio
import logging
from collections import deque
from collections.abc import Awaitable, Callable
from typing import NamedTuple

import msgspec

from pyscheduler.api import ApiError
from pyscheduler.backend.backoff import ExponentialBackoff
from pyscheduler.backend.client import PodsApi
from pyscheduler.backend.context import BackendContext
from pyscheduler.backend.decide import Call, CreatePod, DeletePod, Get
from pyscheduler.backend.errors import retry_after
from pyscheduler.backend.groups import TaskPodGroups
from pyscheduler.backend.pods import PodsSnapshot, PodState
from pyscheduler.backend.releases import ReleaseHook
from pyscheduler.backend.store import PodSnapshotStore
from pyscheduler.backend.task import Json, TaskRecord
from pyscheduler.backend.template import BACKEND, TASK

_FORBIDDEN, _MISSING, _CONFLICT, _TOO_MANY_REQUESTS = 403, 404, 409, 429
_log = logging.getLogger(__name__)


class TaskCall(NamedTuple):
    """API call for one task, and the durable record that it was decided on."""

    record: TaskRecord
    call: Call


ResultHandler = Callable[[TaskCall, PodState | ApiError | None], None]
"""Callback with the result of a call: its error, for a create or get the pod as stored, otherwise None."""


class ApiCallExecutor:
    """Queue and workers for API calls. A created or read pod is merged into the store before `on_result` is called."""

    def __init__(
        self,
        client: PodsApi,
        store: PodSnapshotStore,
        groups: TaskPodGroups,
        body: Callable[[TaskRecord], Json],
        releases: ReleaseHook,
        context: BackendContext,
        on_result: ResultHandler,
    ) -> None:
        self._releases, self._metrics, self._context = releases, context.metrics, context
        self._client, self._store, self._groups = client, store, groups
        self._body, self._on_result, self._rng = body, on_result, context.rng
        self._deletions: deque[TaskCall] = deque()
        self._creations: deque[TaskCall] = deque()
        self._group_deletions: set[asyncio.Task[None]] = set()
        self._queued = asyncio.Semaphore(0)

    def submit(self, task_call: TaskCall) -> None:
        """Queue the call for the next free worker."""
        (self._creations if isinstance(task_call.call, CreatePod) else self._deletions).append(task_call)
        self._queued.release()

    def delete_group(self, gang: str) -> None:
        """Delete the gang's PodGroup, with retries until it succeeds."""
        task = asyncio.create_task(self._delete_group(gang), name=f"delete pod group {gang}")
        self._group_deletions.add(task)
        task.add_done_callback(self._group_deletions.discard)

    async def run_worker(self) -> None:
        """Execute one queued call after the other until cancelled. Run one per concurrent call."""
        while True:
            await self._queued.acquire()
            task_call = (self._deletions or self._creations).popleft()
            began = asyncio.get_running_loop().time()
            try:
                result: PodState | ApiError | None = await self._execute(task_call)
            except ApiError as problem:
                result = problem
            self._observe(task_call.call, result, asyncio.get_running_loop().time() - began)
            self._on_result(task_call, result)

    def _observe(self, call: Call, result: PodState | ApiError | None, seconds: float) -> None:
        name = {CreatePod: "create", Get: "get", DeletePod: "delete"}.get(type(call), "release")
        self._metrics.observe_call(name, result.status if isinstance(result, ApiError) else 200, seconds)

    async def stop(self) -> None:
        """Cancel the deletions of PodGroups that are in flight."""
        for task in self._group_deletions:
            task.cancel()
        await asyncio.gather(*self._group_deletions, return_exceptions=True)

    async def _execute(self, task_call: TaskCall) -> PodState | None:
        call = task_call.call
        if not self._context.may_call():
            raise ApiError(_TOO_MANY_REQUESTS, "LeaseExpired", "the backend's Lease has expired and is renewed first")
        if isinstance(call, CreatePod):
            return await self._create(task_call.record)
        if isinstance(call, Get):
            return await self._get(task_call.record, call)
        if isinstance(call, DeletePod):
            await self._ignore_gone(self._client.delete_pod(call.pod.name, call.pod.uid, call.grace))
        else:
            await self._releases.before_release(task_call.record, call.pod)
            await self._release(call.pod)
        return None

    async def _create(self, record: TaskRecord) -> PodState | None:
        await self._groups.ensure(record.spec)
        body = self._body(record)
        try:
            pod = await self._client.create_pod(body)
        except ApiError as problem:
            if problem.reason != "AlreadyExists":
                raise
            pod = await self._get_own_pod(record, str(body["metadata"]["name"]))
            if not pod.labelled:  # since an earlier process has created it
                return await self._restore(pod, body["metadata"]["labels"])
        self._store.merge(PodsSnapshot(pods={pod.name: pod}))
        newest = self._store.pods.get(pod.name)
        if newest is None:
            # Deleted meanwhile, which subscribers receive as an event; or without our label, invisible to sources.
            raise ApiError(0, "Unseen", f"pod {pod.name} was created but is not in the pod store")
        return newest

    async def _get(self, record: TaskRecord, call: Get) -> PodState | None:
        record = msgspec.structs.replace(record, attempt=call.attempt)
        meta = self._body(record)["metadata"]
        try:
            pod = await self._get_own_pod(record, str(meta["name"]))
        except ApiError as problem:
            if problem.reason in ("NotFound", "AlreadyExists"):
                return None
            raise
        if call.uid not in ("", pod.uid):
            return None  # a copy, as a restored backup creates it
        return await self._restore(pod, meta["labels"])

    async def _restore(self, pod: PodState, labels: Json) -> PodState | None:
        """Store a pod that exists although it is not listed, and label it again if that is the reason."""
        if not pod.labelled:
            await self._restore_labels(pod, labels)
        self._store.restore(pod)
        return self._store.pods.get(pod.name)

    async def _restore_labels(self, pod: PodState, labels: Json) -> None:
        _log.warning("pod %s has lost the label %s, restoring it", pod.name, BACKEND)
        try:
            await self._client.label_pod(pod.name, pod.uid, {name: labels[name] for name in (BACKEND, TASK)})
        except ApiError as problem:
            if problem.status != _FORBIDDEN:
                raise  # the pod is read again: without its label its deletion could not be observed
            _log.warning("restoring the labels of pod %s failed: %s", pod.name, problem)

    async def _get_own_pod(self, record: TaskRecord, name: str) -> PodState:
        """Return the pod of the record's attempt under this name. 422 if the pod belongs to another task or owner."""
        try:
            pod = await self._client.get_pod(name)
        except ApiError as problem:
            if problem.status != _MISSING:
                raise
            raise ApiError(0, problem.reason, f"pod {name} was deleted while it was being created") from None
        if (pod.task, pod.attempt, pod.submission) != (record.id, record.attempt, record.submission):
            of = (
                f"of another submission of task {record.id!r}"
                if pod.task == record.id
                else f"not of task {record.id!r}"
            )
            hint = "`pyscheduler tasks orphans` adopts or releases it"
            raise ApiError(422, "AlreadyExists", f"pod {name} exists and is {of}; {hint}")
        return pod

    async def _release(self, pod: PodState) -> None:
        if pod.has_finalizer:
            await self._ignore_gone(self._client.release_pod(pod.name, pod.uid))
        if not (pod.deleting and pod.grace == 0):
            await self._ignore_gone(self._client.delete_pod(pod.name, pod.uid, 0 if pod.deleting else None))

    @staticmethod
    async def _ignore_gone(call: Awaitable[None]) -> None:
        try:
            await call
        except ApiError as problem:
            if problem.status not in (_MISSING, _CONFLICT):
                raise

    async def _delete_group(self, gang: str) -> None:
        backoff = ExponentialBackoff(self._rng)
        while True:
            try:
                await self._groups.drop(gang)
            except ApiError as problem:
                await asyncio.sleep(backoff.next_delay(retry_after(problem)))
            else:
                return
