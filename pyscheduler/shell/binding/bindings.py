"""Binding cycles in flight: start, supervise and cancel them.

Pods wait in one queue for workers, of which no more are busy than the concurrency limit allows: a burst, such as the
members of a group, neither opens a thousand connections nor starves the watches. A pod that waits there was placed on a
cluster that has changed since, so `is_full` stops the scheduling loop while the limit is reached. PreBind may take
minutes (volumes), so pods with PreBind plugins run in their own task until they can be bound.

Slow cycles are checked every second: a slow plugin is logged, its worker is detached and replaced by a new one, so that
other pods do not wait for it, and after the binding timeout the cycle is cancelled. A worker that waits for the API
server is not detached: a burst opens no more connections than there are workers. The cycle of a deleted or preempted
pod is cancelled too.
"""

from __future__ import annotations

import asyncio
from collections import Counter, deque
from collections.abc import Awaitable, Callable, Coroutine, Sequence, Set
from typing import Any, Final, Protocol

from msgspec import Struct

from pyscheduler import logs
from pyscheduler.api.handle import ApiWriter
from pyscheduler.clock import Clock
from pyscheduler.core.commands import Bind, Evict, Record
from pyscheduler.core.events import BindFailed, Bound, Event, Tick
from pyscheduler.core.instrument import Instrument
from pyscheduler.shell.binding.cancellation import resolve_outcome, wait_until_stopped
from pyscheduler.shell.binding.concurrency import TOO_LONG, ConcurrencyLimit, InFlightCounter
from pyscheduler.shell.binding.cycle import BIND, POST_BIND, PRE_BIND, BindingClient, bind, prepare
from pyscheduler.shell.binding.plugin_tasks import contain_plugin_tasks

LONG: Final = 5.0
"""Seconds that a plugin may block a worker, without the binding call itself, before the worker is replaced.

Divided by one more than the number of pods that the plugin blocks already.
"""
SLOW_PRE_BIND: Final = 120.0
"""Seconds before a PreBind plugin is reported as slow; provisioning a volume may take a minute."""
_CHECK_EVERY: Final = 1.0
STOPPING: Final = 2.0
"""Seconds that cancelled plugins have to stop."""
log = logs.get("bindings")


class StatusWrites(Protocol):
    """Status writes, which a binding of the same pod must not overtake."""

    @property
    def pods(self) -> Set[str]:
        """UIDs of the pods with a queued write, or one in flight."""

    def withdraw(self, uid: str) -> asyncio.Event | None:
        """Drop the queued write of a pod; return an event that is set when a write in flight ends, None without one."""


class BindingPorts(Struct, frozen=True):
    """Where the outcomes of bindings go."""

    emit: Callable[[Event], None]
    """Receives the outcome of each binding cycle."""
    record: Callable[[Record], None]
    """Receives the Kubernetes Events of preempted pods."""
    statuses: StatusWrites
    instrument: Instrument


class Bindings:
    """Run binding cycles without blocking the caller; results are passed to `emit`."""

    def __init__(
        self,
        api: ApiWriter,
        in_flight: InFlightCounter,
        clock: Clock,
        limit: ConcurrencyLimit,
        ports: BindingPorts,
        timeout: float = 0.0,
    ) -> None:
        self.timeout = timeout
        """Seconds that PreBind, or Bind with PostBind, may take before the cycle is cancelled; 0 for no limit."""
        self.unfinished = 0
        """Number of binding cycles that have not ended."""
        self._api = api
        self._ports = ports
        self._in_flight = in_flight
        self._clock = clock
        self._limit = limit
        self._nodes = 0
        """Number of nodes of the cluster when the scheduling loop last called `is_full`."""
        self._waiting = 0
        """Number of pods that were ready for an attempt then."""
        self._log = logs.LimitedLog("binding", clock.now)
        self._workers = WorkerPool(self._new_client, self._bind, limit.most, self._limit_with)
        self._preparing: dict[str, BindingClient] = {}
        """Clients of the pods in PreBind, by pod UID."""
        self._tasks: set[asyncio.Task[None]] = set()

    def is_full(self, waiting: int, nodes: int) -> bool:
        """Return True while the concurrency limit is reached, with `waiting` pods ready for an attempt.

        An event is emitted when it no longer is. Pods in PreBind and pods that a slow plugin blocks do not count: they
        occupy no worker.
        """
        self._waiting, self._nodes = waiting, nodes
        return self._workers.pod_count >= self._limit_with(self._workers.queued)

    def _new_client(self) -> BindingClient:
        return BindingClient(self._api, self._log)

    def _limit_with(self, queued: int) -> float:
        """Return the concurrency limit while that many pods are queued for binding."""
        return self._limit.limit(self._waiting + queued, self._nodes)

    def detached_by_plugin(self) -> dict[tuple[str, ...], float]:
        """Return the number of pods that each plugin blocks for long, by plugin name and extension point."""
        held = (client for client, _ in self._in_progress() if client.is_detached and not client.is_cancelled)
        return dict(Counter((client.plugin, client.point) for client in held))

    def begin(self, command: Bind) -> None:
        """Start the binding cycle of a pod; its result is emitted."""
        self.unfinished += 1
        if command.plan.pre_bind:
            client = self._preparing[command.pod.uid] = self._new_client()
            client.start(command, self._clock.now())
            client.point, client.plugin = PRE_BIND, command.plan.pre_bind[0].name
            client.task = self._spawn(self._pre_bind(client, command))
        else:
            self._workers.put(command)

    def cancel(self, uid: str) -> None:
        """Cancel the binding cycle of a deleted pod; no result is emitted."""
        if self._workers.remove(uid):
            self.unfinished -= 1
        for client, command in self._in_progress():
            if command.pod.uid == uid and not client.is_cancelled:
                self._cancel(client, "gone", self._forget(client))

    def preempt(self, eviction: Evict) -> bool:
        """Cancel the binding cycle of a victim in PreBind. Return True if it is in PreBind."""
        client = self._preparing.get(eviction.victim.uid)
        if client is not None and not client.is_cancelled:
            self._cancel(client, "preempted", self._finish_preempted(client, eviction))
        return client is not None

    async def run(self) -> None:
        """Work until cancelled."""
        contain_plugin_tasks(asyncio.get_running_loop())
        try:
            async with asyncio.TaskGroup() as group:
                group.create_task(self._workers.run())
                group.create_task(self._check_periodically())
        finally:
            await cancel_and_wait(self._tasks)

    def check_cycles(self) -> None:
        """Report and detach slow binding cycles, and cancel those that exceed the timeout."""
        now, held = self._clock.now(), self.detached_by_plugin()
        late: dict[tuple[str, str], list[BindingClient]] = {}
        for client, command in self._in_progress():
            took, key = now - client.began, (client.plugin, client.point)
            if client.is_binding or client.is_cancelled:
                continue
            if self.timeout and took > self.timeout:
                self._cancel(client, "timeout", self._finish_timed_out(client, command))
            elif not client.is_detached and took > _long(client.point) / (1 + held.get(key, 0)):
                late.setdefault(key, []).append(client)
        for (plugin, point), clients in late.items():
            self._report_slow(plugin, point, clients, now)
        if late:
            self._ports.emit(Tick(now))  # detached cycles no longer count, so the loop may go on

    def _report_slow(self, plugin: str, point: str, clients: Sequence[BindingClient], now: float) -> None:
        """Log one line for all pods that a plugin blocks (it may be hundreds), and detach their cycles."""
        first = min(clients, key=lambda client: client.began)
        if first.command is not None:
            pod, node, took = first.command.pod.key, first.command.node_name, round(now - first.began, 1)
            text = "Binding plugin is slow, detaching its pods"
            self._log.warning(text, plugin=plugin, point=point, pod=pod, node=node, seconds=took, pods=len(clients))
        for client in clients:
            self._detach(client)
            if point == POST_BIND and client.command is not None:
                self._end(client, Bound(now, client.command.pod.uid))

    def _detach(self, client: BindingClient) -> None:
        if client.is_detached:
            return
        if client in self._workers.clients:
            self._in_flight.end()
            self._workers.replace(client)
        client.is_detached = True

    def _in_progress(self) -> list[tuple[BindingClient, Bind]]:
        clients = (*self._preparing.values(), *self._workers.clients)
        return [(client, client.command) for client in clients if client.command is not None]

    def _spawn(self, doing: Coroutine[Any, Any, None]) -> asyncio.Task[None]:
        task = asyncio.create_task(doing)
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)
        return task

    async def _check_periodically(self) -> None:
        while True:
            await asyncio.sleep(_CHECK_EVERY)
            self.check_cycles()

    async def _pre_bind(self, client: BindingClient, command: Bind) -> None:
        failed = await prepare(command, client, self._clock, self._ports.instrument)
        if client.is_cancelled:
            return  # the canceller cleans up
        self._pre_bind_done(client)
        if failed is None:
            self._workers.put(command)
        else:
            self._end(client, failed)

    def _pre_bind_done(self, client: BindingClient) -> None:
        uid = client.command.pod.uid if client.command is not None else ""
        if self._preparing.get(uid) is client:
            del self._preparing[uid]

    async def _bind(self, client: BindingClient, command: Bind) -> None:
        began, in_flight = self._clock.now(), self._workers.busy
        client.start(command, began)
        self._in_flight.begin()
        try:
            statuses, uid = self._ports.statuses, command.pod.uid
            if uid in statuses.pods and (written := statuses.withdraw(uid)) is not None:
                client.point, client.plugin = BIND, ""  # no plugin is running yet
                await client.wait_for_write(written)
                if client.is_cancelled:
                    return
            outcome = await bind(command, client, self._clock, self._ports.instrument)
        finally:
            if not client.is_detached:
                self._in_flight.end()
        if client.is_cancelled:
            return
        took = self._clock.now() - began
        if isinstance(outcome, Bound) or took > TOO_LONG:  # fast failures would make successful bindings look slow
            self._limit.observe(took, in_flight)
        if isinstance(outcome, BindFailed) and client.may_be_bound:
            outcome = await resolve_outcome(client, command, outcome, self._api, self._clock)
        self._end(client, outcome)

    def _end(self, client: BindingClient, outcome: Bound | BindFailed) -> None:
        if not client.is_reported:
            client.is_reported = True
            self.unfinished -= 1
            self._ports.emit(outcome)

    def _cancel(self, client: BindingClient, reason: str, then: Coroutine[Any, Any, None]) -> None:
        """Cancel a cycle; only a call that was already sent to the API server can still have an effect."""
        self._ports.instrument.binding_cancelled(client.plugin, client.point, reason)
        client.cancel()
        self._detach(client)
        self._spawn(then)

    async def _forget(self, client: BindingClient) -> None:
        await wait_until_stopped(client, self._ports.instrument)
        self._pre_bind_done(client)
        if not client.is_reported:
            client.is_reported = True
            self.unfinished -= 1

    async def _finish_preempted(self, client: BindingClient, eviction: Evict) -> None:
        await wait_until_stopped(client, self._ports.instrument)
        self._pre_bind_done(client)
        record = eviction.cancelled_record()
        if record is not None:
            self._ports.record(record)
        uid = eviction.victim.uid
        self._end(client, BindFailed(self._clock.now(), uid, f"preempted by {eviction.plugin}"))

    async def _finish_timed_out(self, client: BindingClient, command: Bind) -> None:
        point, plugin, uid = client.point, client.plugin, command.pod.uid
        message = f'running {point} plugin "{plugin}": no end after {self.timeout:g}s'
        await wait_until_stopped(client, self._ports.instrument)
        self._pre_bind_done(client)
        failed = BindFailed(self._clock.now(), uid, message, plugin)
        is_sure = point == PRE_BIND or client.is_reported
        self._end(client, failed if is_sure else await resolve_outcome(client, command, failed, self._api, self._clock))


def _long(point: str) -> float:
    return SLOW_PRE_BIND if point == PRE_BIND else LONG


# -- Workers ---------------------------------------------------------------------------------------------------------


class WorkerPool:
    """Run `work` for each queued pod, in at most `size` workers at once, detached ones not counted.

    `limit` returns how many of them may be busy while that many pods are queued.
    """

    def __init__(
        self,
        new_client: Callable[[], BindingClient],
        work: Callable[[BindingClient, Bind], Awaitable[None]],
        size: int,
        limit: Callable[[int], float],
    ) -> None:
        self.busy = 0
        """Number of workers with a pod that are not detached."""
        self.clients: set[BindingClient] = set()
        """Clients of all running workers, detached ones included."""
        self._new_client = new_client
        self._work = work
        self._size = size
        self._limit = limit
        self._queue: deque[Bind] = deque()
        self._idle: list[asyncio.Future[None]] = []
        self._woken = 0
        """Number of idle workers that will take a pod, or become idle again, once the event loop runs them."""
        self._crashed: asyncio.Future[None] | None = None

    @property
    def queued(self) -> int:
        """Number of pods in the queue."""
        return len(self._queue)

    @property
    def pod_count(self) -> int:
        """Number of pods in the queue and in workers that are not detached."""
        return self.busy + len(self._queue)

    def put(self, command: Bind) -> None:
        """Queue a pod for binding."""
        self._queue.append(command)
        self._wake_workers()

    def _wake_workers(self) -> None:
        """Wake as many idle workers as there are pods for them, within the limit."""
        while self._idle and self._woken < len(self._queue) and self._may_start(self._woken):
            turn = self._idle.pop()
            if not turn.done():
                self._woken += 1
                turn.set_result(None)

    def _may_start(self, others: int = 0) -> bool:
        """Return True if one more worker than these others may become busy."""
        return self.busy + others < self._limit(len(self._queue))

    def remove(self, uid: str) -> bool:
        """Remove a pod from the queue. Return True if it was there."""
        for i, command in enumerate(self._queue):
            if command.pod.uid == uid:
                del self._queue[i]
                return True
        return False

    def replace(self, client: BindingClient) -> None:
        """Detach a worker, which ends after its current pod, and start a new one."""
        client.is_detached = True
        self.busy -= 1
        self._start_worker()

    async def run(self) -> None:
        """Work until cancelled."""
        self._crashed = asyncio.get_running_loop().create_future()
        for _ in range(self._size):
            self._start_worker()
        try:
            await self._crashed
        finally:
            await cancel_and_wait({client.task for client in self.clients if client.task is not None})

    def _start_worker(self) -> None:
        client = self._new_client()
        client.task = asyncio.create_task(self._run_worker(client))
        client.task.add_done_callback(lambda task: self._worker_ended(client, task))
        self.clients.add(client)

    def _worker_ended(self, client: BindingClient, task: asyncio.Task[None]) -> None:
        self.clients.discard(client)
        error = None if task.cancelled() else task.exception()
        if error is not None and self._crashed is not None and not self._crashed.done():
            self._crashed.set_exception(error)

    async def _run_worker(self, client: BindingClient) -> None:
        while not client.is_detached:
            while not (self._queue and self._may_start()):
                turn = asyncio.get_running_loop().create_future()
                self._idle.append(turn)
                await turn
                self._woken -= 1
            self.busy += 1
            await self._work(client, self._queue.popleft())
            client.command = None
            if not client.is_detached:
                self.busy -= 1
                if len(self._queue) > 1:
                    self._wake_workers()  # the limit may have grown


async def cancel_and_wait(tasks: set[asyncio.Task[None]]) -> None:
    """Cancel tasks and wait until they have ended; log and abandon those that do not stop in time.

    Asyncio would otherwise wait for the abandoned tasks when the process exits.
    """
    for task in tasks:
        task.cancel()
    if not tasks:
        return
    _, running = await asyncio.wait(tasks, timeout=STOPPING)
    for task in running:
        asyncio._unregister_task(task)
    if running:
        log.error("Plugins ignored their cancellation, abandoning their tasks", tasks=len(running))
