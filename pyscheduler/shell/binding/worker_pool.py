"""The crew that binds: one line, and a fixed number of hands that work it off.

A hand that a plugin holds up is set aside with its pod, and a new one takes its place: it is not the others who are to
wait for it. A burst still opens no more connections than there are hands, since whoever waits for the API server is not
held up.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Awaitable, Callable

from pyscheduler.api.handle import ApiWriter
from pyscheduler.core.commands import Bind
from pyscheduler.shell import logs
from pyscheduler.shell.binding.client import BindingClient

STOPPING = 2.0
"""Seconds that plugins are given to stop once they are cancelled."""
log = logs.get("crew")


class WorkerPool:
    """`work` is what a hand does with a pod."""

    def __init__(self, api: ApiWriter, work: Callable[[BindingClient, Bind], Awaitable[None]], size: int) -> None:
        self.busy = 0
        """Pods in the line and at hands that have not been set aside."""
        self.clients: set[BindingClient] = set()
        """Those that are there, with the ones that were set aside and have not come back."""
        self._api = api
        self._work = work
        self._size = size
        self._queue: deque[Bind] = deque()
        self._idle: list[asyncio.Future[None]] = []
        self._crashed: asyncio.Future[None] | None = None

    def put(self, command: Bind) -> None:
        """The pod is bound when its turn comes."""
        self.busy += 1
        self._queue.append(command)
        while self._idle:
            turn = self._idle.pop()
            if not turn.done():
                turn.set_result(None)
                return

    def remove(self, uid: str) -> bool:
        """Take a pod out of the line; whether it was there."""
        for i, command in enumerate(self._queue):
            if command.pod.uid == uid:
                del self._queue[i]
                self.busy -= 1
                return True
        return False

    def replace(self, hand: BindingClient) -> None:
        """Let nobody wait for this hand any more: it goes when it is done with its pod, and another comes now."""
        hand.is_detached = True
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
            await cancel_and_wait({hand.task for hand in self.clients if hand.task is not None})

    def _start_worker(self) -> None:
        hand = BindingClient(self._api)
        hand.task = asyncio.create_task(self._run_worker(hand))
        hand.task.add_done_callback(lambda task: self._worker_ended(hand, task))
        self.clients.add(hand)

    def _worker_ended(self, hand: BindingClient, task: asyncio.Task[None]) -> None:
        self.clients.discard(hand)
        error = None if task.cancelled() else task.exception()
        if error is not None and self._crashed is not None and not self._crashed.done():
            self._crashed.set_exception(error)

    async def _run_worker(self, hand: BindingClient) -> None:
        while not hand.is_detached:
            while not self._queue:
                turn = asyncio.get_running_loop().create_future()
                self._idle.append(turn)
                await turn
            await self._work(hand, self._queue.popleft())
            hand.command = None
            if not hand.is_detached:
                self.busy -= 1


async def cancel_and_wait(tasks: set[asyncio.Task[None]]) -> None:
    """Cancel tasks and wait until they have ended; who does not stop in time is left alone, and that is told.

    Asyncio forgets them then, or the process would wait for them at its end.
    """
    for task in tasks:
        task.cancel()
    if not tasks:
        return
    _, running = await asyncio.wait(tasks, timeout=STOPPING)
    for task in running:
        asyncio._unregister_task(task)
    if running:
        log.error("Plugins go on though they were cancelled", tasks=len(running))
