"""API calls of plugins that no extension point waits for (kube-scheduler's APIDispatcher)."""

from __future__ import annotations

import asyncio
from collections import deque
from typing import Final

from pyscheduler import logs
from pyscheduler.api import ApiWriter
from pyscheduler.core.commands import CallApi
from pyscheduler.core.framework.plugin_failure import is_external
from pyscheduler.shell.binding.plugin_tasks import IN_PLUGIN, is_own_cancellation

_CONCURRENCY: Final = 8
RETRY_SECONDS: Final = 5.0
"""Seconds after which a call that failed once is made again, if its command retries. They double with each failure."""
MAX_RETRY_SECONDS: Final = 300.0
_MAX_DOUBLINGS: Final = 16


def retry_delay(failures: int) -> float:
    """Return the seconds until a call is made again that has failed so often, at least once."""
    return min(RETRY_SECONDS * (1 << min(failures - 1, _MAX_DOUBLINGS)), MAX_RETRY_SECONDS)


class PluginApiCaller:
    """Makes calls in the order in which they were added, some at a time; a failure is logged and delays no other."""

    def __init__(self, api: ApiWriter) -> None:
        self._api = api
        self._log = logs.LimitedLog("api-calls")
        self._waiting: deque[tuple[CallApi, int]] = deque()
        """Calls, each with the number of its failures so far."""
        self._due = asyncio.Event()

    def add(self, command: CallApi, failures: int = 0) -> None:
        """Queue a call."""
        self._waiting.append((command, failures))
        self._due.set()

    async def run(self) -> None:
        """Work until cancelled."""
        async with asyncio.TaskGroup() as group:
            for _ in range(_CONCURRENCY):
                group.create_task(self._work())

    async def _work(self) -> None:
        IN_PLUGIN.set(True)
        while True:
            await self._due.wait()
            if not self._waiting:
                self._due.clear()
                continue
            command, failures = self._waiting.popleft()
            try:
                await command.call(self._api)
            except BaseException as problem:
                if is_own_cancellation(problem) or is_external(problem):
                    raise
                self._log.warning("Failed to make an API call of a plugin", problem, plugin=command.plugin)
                if command.retries:
                    delay = retry_delay(failures + 1)
                    asyncio.get_running_loop().call_later(delay, self.add, command, failures + 1)
