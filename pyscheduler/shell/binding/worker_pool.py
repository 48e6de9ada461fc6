"""Worker pool for bindings: one queue and a fixed number of workers.

A worker that a slow plugin blocks is detached and replaced, so that other pods do not wait for it. A burst still opens
no more connections than there are workers, because a worker that waits for the API server is not detached.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Awaitable, Callable

from pyscheduler import logs
from pyscheduler.api.handle import ApiWriter
from pyscheduler.core.commands import Bind
from pyscheduler.shell.binding.client import BindingClient

STOPPING = 2.0
"""Seconds that cancelled plugins have to stop."""
log = logs.get("worker_pool")


class WorkerPool:
    """Run `work` for each queued pod, in at most `size` workers at once, detached ones not counted."""

    def __init__(self, api: ApiWriter, work: Callable[[BindingClient, Bind], Awaitable[None]], size: int) -> None:
        self.pod_count = 0
        """Number of pods in the queue and in workers that are not detached."""
        self.clients: set[BindingClient] = set()
        """Clients of all running workers, detached ones included."""
        self._api = api
        self._work = work
        self._size = size
        self._queue: deque[Bind] = deque()
        self._idle: list[asyncio.Future[None]] = []
        self._crashed: asyncio.Future[None] | None = None

    def put(self, command: Bind) -> None:
        """Queue a pod for binding."""
        self.pod_count += 1
        self._queue.append(command)
        while self._idle:
            turn = self._idle.pop()
            if not turn.done():
                turn.set_result(None)
                return

    def remove(self, uid: str) -> bool:
        """Remove a pod from the queue. Return True if it was there."""
        for i, command in enumerate(self._queue):
            if command.pod.uid == uid:
                del self._queue[i]
                self.pod_count -= 1
                return True
        return False

    def replace(self, client: BindingClient) -> None:
        """Detach a worker, which ends after its current pod, and start a new one."""
        client.is_detached = True
        self.pod_count -= 1
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
        client = BindingClient(self._api)
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
            while not self._queue:
                turn = asyncio.get_running_loop().create_future()
                self._idle.append(turn)
                await turn
            await self._work(client, self._queue.popleft())
            client.command = None
            if not client.is_detached:
                self.pod_count -= 1


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
