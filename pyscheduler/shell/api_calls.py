"""API calls of plugins that no extension point waits for (kube-scheduler's APIDispatcher)."""

from __future__ import annotations

import asyncio
from collections import deque
from typing import Final

from pyscheduler import logs
from pyscheduler.api import ApiWriter
from pyscheduler.core.commands import CallApi

log = logs.get("api-calls")
_CONCURRENCY: Final = 8
RETRY_SECONDS: Final = 5.0
"""Seconds after which a failed call is made again, if its command retries."""


class PluginApiCaller:
    """Makes calls in the order in which they were added, some at a time; a failure is logged and delays no other."""

    def __init__(self, api: ApiWriter) -> None:
        self._api = api
        self._waiting: deque[CallApi] = deque()
        self._due = asyncio.Event()

    def add(self, command: CallApi) -> None:
        """Queue a call."""
        self._waiting.append(command)
        self._due.set()

    async def run(self) -> None:
        """Work until cancelled."""
        async with asyncio.TaskGroup() as group:
            for _ in range(_CONCURRENCY):
                group.create_task(self._work())

    async def _work(self) -> None:
        while True:
            await self._due.wait()
            if not self._waiting:
                self._due.clear()
                continue
            command = self._waiting.popleft()
            try:
                await command.call(self._api)
            except Exception as problem:
                log.warning("Failed to make an API call of a plugin", problem, plugin=command.plugin)
                if command.retries:
                    asyncio.get_running_loop().call_later(RETRY_SECONDS, self.add, command)
