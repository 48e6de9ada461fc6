"""Queue of keys to process: a key is there once, and comes back after an error."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Hashable
from typing import Generic, TypeVar

from pyscheduler import logs
from pyscheduler.api import ApiError

K = TypeVar("K", bound=Hashable)

BATCH_SECONDS = 0.1
"""Delay in seconds in which changes are batched."""
RETRY_SECONDS = 2.0


class KeyQueue(Generic[K]):
    """Calls `process` for each added key, one at a time."""

    def __init__(self, name: str, process: Callable[[K], Awaitable[None]]) -> None:
        self._name, self._process = name, process
        self._log = logs.LimitedLog("controllers")
        self._pending: dict[K, None] = {}
        self._timers: dict[K, asyncio.TimerHandle] = {}
        self._wake = asyncio.Event()

    def add(self, key: K) -> None:
        """Queue a key."""
        self._pending[key] = None
        self._wake.set()

    def add_after(self, key: K, seconds: float) -> None:
        """Queue a key later; of several times the earliest counts, until it is processed and may be added again."""
        self._add_at(key, asyncio.get_running_loop().time() + seconds)

    def _add_at(self, key: K, time: float) -> None:
        timer = self._timers.get(key)
        if timer is not None:
            if timer.when() <= time:
                return
            timer.cancel()
        self._timers[key] = asyncio.get_running_loop().call_at(time, self.add, key)

    async def run(self) -> None:
        """Process keys until cancelled."""
        while True:
            await self._wake.wait()
            await asyncio.sleep(BATCH_SECONDS)
            self._wake.clear()
            batch, self._pending = self._pending, {}
            for key in batch:
                timer = self._timers.pop(key, None)
                if timer is not None:
                    timer.cancel()
                try:
                    await self._process(key)
                except ApiError as problem:
                    self._log.warning("Failed to sync, retrying", problem, kind=self._name, object=_text(key))
                    self.add_after(key, RETRY_SECONDS)
                except Exception as error:
                    self._log.crash("Failed to sync", error, kind=self._name, object=_text(key))
                    if timer is not None and timer.when() > asyncio.get_running_loop().time():
                        self._add_at(key, timer.when())


def _text(key: Hashable) -> str:
    return "/".join(map(str, key)) if isinstance(key, tuple) else str(key)
