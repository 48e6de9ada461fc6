"""Task controller: observe pods, decide, commit the records, call the API server, notify the owner.

This order makes any crash harmless. A decision is a function of record and pods. It is durable before anything is
called or delivered. A call that was lost is decided again, because the finalizer keeps the pod until its end is
recorded.
"""

from __future__ import annotations

import asyncio
import contextlib
import heapq
import logging
import math
from collections import defaultdict
from collections.abc import Callable, Mapping

import msgspec

from pyscheduler.api import ApiError
from pyscheduler.backend.adoption import is_orphan
from pyscheduler.backend.backoff import ExponentialBackoff
from pyscheduler.backend.broadcast import BroadcastEvent
from pyscheduler.backend.context import BackendContext
from pyscheduler.backend.decide import (
    Call,
    CreatePod,
    DeletePod,
    Get,
    Observation,
    ReleasePod,
    act,
    observe,
)
from pyscheduler.backend.errors import retry_after
from pyscheduler.backend.executor import ApiCallExecutor, ResultHandler, TaskCall
from pyscheduler.backend.outcomes import Outcome
from pyscheduler.backend.pods import PodsSnapshot, PodState, PodTimes
from pyscheduler.backend.quota_waiters import QuotaWaiters
from pyscheduler.backend.rejections import CreateRejection, rejection_of
from pyscheduler.backend.settings import BackendSettings
from pyscheduler.backend.state import StateLost, StateProblem
from pyscheduler.backend.store import Subscription
from pyscheduler.backend.task import TaskRecord
from pyscheduler.backend.task_table import TaskTable
from pyscheduler.backend.template import pod_name

REPEAT_SECONDS = 30.0
"""Seconds after which an accepted deletion without visible effect is sent again."""
COMMIT_INTERVAL_SECONDS = 0.025
"""Shortest time between two reconciliations, unless the owner waits: a commit costs as much as ten tasks in it."""
_SERVER_FAILED = 500
_log = logging.getLogger(__name__)


class _TaskRuntime(msgspec.Struct):
    """In-memory state of one task; a restart may lose it."""

    busy: bool = False
    create_unconfirmed: bool = False
    absence_confirmed: bool = False
    rejection: CreateRejection | None = None
    retry_at: float = 0.0
    backoff: ExponentialBackoff | None = None
    deleted: dict[str, PodState] = {}
    """Deleted pods, by uid, until the next decision has recorded their end."""
    accepted_at: dict[tuple[str, str], float] = {}
    """Time when the server accepted a deletion, by pod uid and kind of call."""
    gone: frozenset[str] = frozenset()
    """Uids of pods that are deleted or released."""


class TaskPodsLifecycleManager:
    """Subscriber of the pod store that updates task records, deletes finished pods and so releases their resources.

    `notify` is called with each durable record that the owner should see. Only durable records lead to calls.
    """

    def __init__(
        self,
        table: TaskTable,
        settings: BackendSettings,
        subscription: Subscription,
        notify: Callable[[TaskRecord], None],
        create_executor: Callable[[ResultHandler], ApiCallExecutor],
        context: BackendContext,
    ) -> None:
        self.committed = BroadcastEvent()
        """Notified after each commit."""
        self._table, self._settings, self._subscription = table, settings, subscription
        self._notify = notify
        self._clock, self._rng = context.clock, context.rng
        self._problems, self._metrics = context.problems, context.metrics
        self._pods: defaultdict[str, dict[str, PodState]] = defaultdict(dict)
        self._quota_waiters = QuotaWaiters()
        self._times: dict[str, PodTimes] = {}
        self._runtimes: defaultdict[str, _TaskRuntime] = defaultdict(_TaskRuntime)
        self._dirty: dict[str, None] = dict.fromkeys(table.records)
        self._timers: list[tuple[float, str]] = []
        self._due: dict[str, float] = {}
        self.synced = False
        """True once a complete list of the pods was read."""
        self._resource_version_at = -math.inf
        self._warned: set[str] = set()
        self._stopping = False
        self._wake, self._urgent = asyncio.Event(), asyncio.Event()
        self._reconcile_lock = asyncio.Lock()
        self.executor = create_executor(self.handle_result)

    @property
    def orphans(self) -> dict[str, PodState]:
        """Pods with the backend's label that belong to no task, by name. They are never changed."""
        return {pod.name: pod for pods in self._pods.values() for pod in pods.values() if self._is_orphan(pod)}

    def task_of(self, name: str) -> str:
        """Return the id of the task that a pod belongs to, "" if it belongs to none."""
        own = (pod for pods in self._pods.values() for pod in pods.values() if pod.name == name)
        return next((pod.task for pod in own if not self._is_orphan(pod)), "")

    def stop(self) -> None:
        """Let `run` return after the current reconciliation."""
        self._stopping = True
        self._wake.set()
        self._urgent.set()

    # -- events ----------------------------------------------------------------------------------------------------

    def enqueue(self, *tasks: str) -> None:
        """Reconcile these tasks soon; without tasks, commit what has changed at once."""
        self._dirty.update(dict.fromkeys(tasks))
        self._wake.set()
        if not tasks:
            self._urgent.set()

    async def handle_pods(self, snapshot: PodsSnapshot) -> None:
        """Handle changed pods. Returns after a reconciliation that is in progress; the store merges later changes."""
        self._apply_snapshot(snapshot)
        self._wake.set()
        async with self._reconcile_lock:
            pass

    def handle_result(self, task_call: TaskCall, result: PodState | ApiError | None) -> None:
        """Handle the result of a call: its error, for a create or get the newest state of the pod, otherwise None."""
        task, now = task_call.record.id, self._clock()
        runtime = self._runtimes[task]
        runtime.busy = False
        self.enqueue(task)
        if not isinstance(result, ApiError):
            self._handle_success(runtime, task_call, result, now)
            if result is not None:
                # At once: the next decision must not conclude that the pod does not exist.
                self._apply_snapshot(PodsSnapshot(pods={result.name: result}))
            return
        problem = result
        if isinstance(task_call.call, CreatePod) and (problem.status == 0 or problem.status >= _SERVER_FAILED):
            runtime.create_unconfirmed = True
        if isinstance(task_call.call, CreatePod):
            since = runtime.rejection.since if runtime.rejection is not None else now
            name = pod_name(self._settings.name, task, task_call.record.attempt)
            runtime.rejection = rejection_of(problem, name, since) or runtime.rejection
            if runtime.rejection is not None and runtime.rejection.outcome is Outcome.QUOTA:
                self._quota_waiters.add(task_call.record.spec)
        runtime.backoff = runtime.backoff or ExponentialBackoff(self._rng)
        runtime.retry_at = now + runtime.backoff.next_delay(retry_after(problem))
        _log.info("task %r: API call failed, retrying in %.1f s if needed: %s", task, runtime.retry_at - now, problem)

    def _handle_success(self, runtime: _TaskRuntime, task_call: TaskCall, result: PodState | None, now: float) -> None:
        runtime.rejection, runtime.backoff, runtime.retry_at = None, None, 0.0
        if isinstance(task_call.call, CreatePod | Get):
            self._handle_read(runtime, task_call, result)
            self._end_quota_wait(task_call.record.id)
        if isinstance(task_call.call, DeletePod | ReleasePod):
            runtime.accepted_at = {**runtime.accepted_at, _kind(task_call.call): now}
        if isinstance(task_call.call, ReleasePod):
            runtime.gone |= {task_call.call.pod.uid}

    @staticmethod
    def _handle_read(runtime: _TaskRuntime, task_call: TaskCall, result: PodState | None) -> None:
        call, record = task_call.call, task_call.record
        if isinstance(call, Get) and result is None:
            runtime.gone |= {call.uid}
        if isinstance(call, CreatePod) or (isinstance(call, Get) and call.attempt == record.attempt):
            runtime.create_unconfirmed = False
            runtime.absence_confirmed = result is None

    def _apply_snapshot(self, snapshot: PodsSnapshot) -> None:
        if snapshot.complete:
            self.synced = True
            self._dirty.update(dict.fromkeys(self._table.records))
        for pod in snapshot.deleted.values():
            self._handle_deleted(pod)
        now = self._clock()
        for pod in snapshot.pods.values():
            times = self._times.get(pod.uid, PodTimes(observed=now))
            self._times[pod.uid] = times.after(pod, now)
            if pod.terminal and times.stopped is None:
                self._retry_after_quota()
            if self._is_orphan(pod):
                self._warn_of_orphan(pod)
            before = self._pods[pod.task].get(pod.name)
            if before is not None and before.uid != pod.uid:
                self._handle_deleted(before)
            self._pods[pod.task][pod.name] = pod
            self._dirty[pod.task] = None
            if pod.task in self._runtimes:
                self._runtimes[pod.task].absence_confirmed = False

    def _handle_deleted(self, pod: PodState) -> None:
        self._warned.discard(pod.uid)
        times = self._times.pop(pod.uid, None)
        if times is not None:
            if times.stopped is None:
                self._retry_after_quota()
            self._metrics.observe_pod(times, self._clock())
        pods = self._pods.get(pod.task, {})
        if pod.name in pods and pods[pod.name].uid == pod.uid:
            del pods[pod.name]
            if not pods:
                del self._pods[pod.task]
        if pod.task in self._table.records:
            runtime = self._runtimes[pod.task]
            runtime.deleted = {**runtime.deleted, pod.uid: pod}
            if not pod.has_finalizer:  # otherwise it has only lost its label
                runtime.gone |= {pod.uid}
            runtime.accepted_at = {key: at for key, at in runtime.accepted_at.items() if key[0] != pod.uid}
            self._dirty[pod.task] = None

    def _end_quota_wait(self, task: str) -> None:
        """Let the next task try if this one no longer waits for a quota."""
        if self._quota_waiters.discard(task):
            self._retry_after_quota()

    def _retry_after_quota(self) -> None:
        """Create the first pod that a quota has rejected: there may be room for it now."""
        first = self._quota_waiters.first
        if first:
            self._runtimes[first].retry_at = 0.0
            self._dirty[first] = None

    def _is_orphan(self, pod: PodState) -> bool:
        return is_orphan(pod, self._table.records.get(pod.task), self._settings.name)

    def _warn_of_orphan(self, pod: PodState) -> None:
        if pod.uid not in self._warned:
            self._warned.add(pod.uid)
            _log.warning("pod %s has the backend's label but no task (%r), ignoring it", pod.name, pod.task)

    # -- reconciliation --------------------------------------------------------------------------------------------

    async def run(self) -> None:
        """Reconcile until stopped. StateLost when another process has taken the state."""
        backoff, loop = ExponentialBackoff(self._rng), asyncio.get_running_loop()
        next_at = loop.time()
        while not self._stopping:
            await self._sleep()
            if loop.time() < next_at:
                with contextlib.suppress(TimeoutError):
                    async with asyncio.timeout_at(next_at):
                        await self._urgent.wait()
            next_at = loop.time() + COMMIT_INTERVAL_SECONDS
            try:
                async with self._reconcile_lock:
                    await self._reconcile()
            except StateLost:
                raise
            except StateProblem as problem:
                pause = backoff.next_delay()
                _log.error("writing the state failed, retrying in %.1f s: %s", pause, problem)
                self._problems.report("state", problem)
                await asyncio.sleep(pause)
                self._wake.set()
            else:
                backoff.reset()
                self._problems.clear("state")

    async def _sleep(self) -> None:
        until = min(
            self._timers[0][0] if self._timers else math.inf, self._resource_version_at + self._settings.place_seconds
        )
        seconds = until - self._clock()
        try:
            async with asyncio.timeout(max(0.0, seconds) if math.isfinite(seconds) else None):
                await self._wake.wait()
        except TimeoutError:
            return

    async def _reconcile(self) -> None:
        """Decide on all dirty tasks, commit their records, notify the owner, then call the API server."""
        self._wake.clear()
        self._urgent.clear()
        now = self._clock()
        self._fire_timers(now)
        tasks, self._dirty = self._dirty, {}
        try:
            observations = {task: self._decide(task, now) for task in tasks}
            due = bool(tasks) or now >= self._resource_version_at + self._settings.place_seconds
            resource_version = self._subscription.resource_version if due else None
            began = asyncio.get_running_loop().time()
            committed = await self._table.commit(None if resource_version is None else str(resource_version))
            self._metrics.observe_step("commit", asyncio.get_running_loop().time() - began)
            self._resource_version_at = now if due else self._resource_version_at
        except BaseException:
            self._dirty = {**tasks, **self._dirty}
            raise
        for record in committed:
            self._notify(record)
            self._delete_unused_group(record)
        self._act_on(observations)
        self.committed.notify_all()

    def _delete_unused_group(self, record: TaskRecord) -> None:
        """Delete the PodGroup of the task's gang once all tasks of the gang are final."""
        gang = record.spec.gang
        if record.final and gang is not None and not self._table.gang_size(gang.name):
            self.executor.delete_group(gang.name)

    def _decide(self, task: str, now: float) -> Observation | None:
        """Change the task's record as its pods require; return the observation for the new record."""
        record = self._table.records.get(task)
        if record is None:  # forgotten, maybe since the last decision
            self._runtimes.pop(task, None)
            return None
        observation = self._observation(record)
        if observation.pod is not None:  # created, although the response to the create may be lost
            self._end_quota_wait(task)
        while True:
            new = observe(record, observation, now, self._settings)
            if new is record:
                break
            self._table.change(record, new)
            if new.attempt != record.attempt or (new.final and not record.final):
                self._metrics.count_attempt(new.reason)
                self._end_quota_wait(task)
            if new.attempt != record.attempt:
                self._runtimes[task].rejection, self._runtimes[task].create_unconfirmed = None, False
                self._runtimes[task].absence_confirmed = False
            if not _has_equal_pods(record, new):
                observation = self._observation(new)
            record = new
        runtime = self._runtimes[task]
        if runtime.deleted:
            # The record has their end now, except of a pod that may still exist without its label.
            is_open = not record.settled and observation.pod is None and observation.deleted is not None
            runtime.deleted = {uid: p for uid, p in runtime.deleted.items() if is_open and p is observation.deleted}
            observation = self._observation(record)
        return observation

    def _act_on(self, observations: Mapping[str, Observation | None]) -> None:
        now = self._clock()
        for task, observation in observations.items():
            record = self._table.records.get(task)
            if record is None:
                self._runtimes.pop(task, None)  # forgotten during the commit; its id may be used again
            if record is None or observation is None or task in self._dirty or not self._table.is_durable(task):
                continue  # changed meanwhile: the next reconciliation decides on the new record
            self._act(record, observation, now)

    def _act(self, record: TaskRecord, observation: Observation, now: float) -> None:
        runtime = self._runtimes[record.id]
        call: Call | None
        call, wake = act(record, observation, now, self._settings)
        if call is not None and now < runtime.retry_at:
            call, wake = None, runtime.retry_at
        if isinstance(call, CreatePod) and not self._quota_waiters.may_try(record.id):
            call = None
        if isinstance(call, DeletePod | ReleasePod):
            repeat_at = runtime.accepted_at.get(_kind(call), -math.inf) + REPEAT_SECONDS
            call, wake = (None, repeat_at) if now < repeat_at else (call, wake)
        if call is not None:
            runtime.busy = True
            self.executor.submit(TaskCall(record, call))
        if math.isfinite(wake):
            self._set_timer(record.id, wake)
        elif record.settled and record.id not in self._pods:
            del self._runtimes[record.id]

    # -- observation -----------------------------------------------------------------------------------------------

    def _observation(self, record: TaskRecord) -> Observation:
        runtime = self._runtimes[record.id]
        name = pod_name(self._settings.name, record.id, record.attempt)
        pod, others = None, []
        for candidate in self._pods.get(record.id, {}).values():
            if (candidate.uid, "release") in runtime.accepted_at:
                continue  # finalizer removed and pod deleted already
            if self._is_orphan(candidate):
                continue
            if candidate.name == name and record.pod_uid in ("", candidate.uid):
                pod = candidate
            elif candidate.attempt <= record.attempt:
                others.append(candidate)
        own = (p for p in runtime.deleted.values() if p.name == name and not self._is_orphan(p))
        deleted = next((p for p in own if record.pod_uid in ("", p.uid)), None)
        return Observation(
            synced=self.synced,
            pod=pod,
            deleted=deleted,
            others=tuple(others),
            busy=runtime.busy,
            create_unconfirmed=runtime.create_unconfirmed,
            absence_confirmed=runtime.absence_confirmed,
            gone=runtime.gone,
            missing=self._missing(record, runtime) if record.unreleased and not record.cleaned else (),
            rejection=runtime.rejection,
            times=self._times,
        )

    def _missing(self, record: TaskRecord, runtime: _TaskRuntime) -> tuple[Get, ...]:
        known = runtime.gone.union(pod.uid for pod in self._pods.get(record.id, {}).values())
        return tuple(Get(attempt, uid) for uid, attempt in record.unreleased.items() if uid not in known)

    # -- timers ----------------------------------------------------------------------------------------------------

    def _set_timer(self, task: str, at: float) -> None:
        if self._due.get(task) != at:
            self._due[task] = at
            heapq.heappush(self._timers, (at, task))

    def _fire_timers(self, now: float) -> None:
        while self._timers and self._timers[0][0] <= now:
            at, task = heapq.heappop(self._timers)
            if self._due.get(task) == at:
                del self._due[task]
                self._dirty[task] = None


def _has_equal_pods(old: TaskRecord, new: TaskRecord) -> bool:
    """Return True if an observation for one record holds for the other."""
    return (
        old.attempt == new.attempt
        and old.pod_uid == new.pod_uid
        and old.unreleased is new.unreleased
        and old.cleaned == new.cleaned
    )


def _kind(call: DeletePod | ReleasePod) -> tuple[str, str]:
    if isinstance(call, ReleasePod):
        return call.pod.uid, "release"
    return call.pod.uid, "force" if call.grace == 0 else "delete"
