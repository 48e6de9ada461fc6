"""Read single pods from the API server when no watch event arrived for them."""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Callable
from typing import Final

import msgspec

from pyscheduler import logs
from pyscheduler.api import ApiError, ApiWriter, PodObject
from pyscheduler.clock import Clock
from pyscheduler.core.commands import GetPod
from pyscheduler.core.events import Event, PodFound, PodGone
from pyscheduler.kube import paths

WORKERS: Final = 4
"""Pods read concurrently."""
_NOT_FOUND = 404


class PodLookup:
    """Executes GetPod commands without blocking the caller; emits results. The core repeats a failed command."""

    def __init__(self, api: ApiWriter, clock: Clock, emit: Callable[[Event], None]) -> None:
        self._api = api
        self._clock = clock
        self._log = logs.LimitedLog("lookup", clock.now)
        self._emit = emit
        self._waiting: deque[GetPod] = deque()
        self._due = asyncio.Event()

    def add(self, command: GetPod) -> None:
        """Queue a pod to read."""
        self._waiting.append(command)
        self._due.set()

    async def run(self) -> None:
        """Work until cancelled."""
        async with asyncio.TaskGroup() as group:
            for _ in range(WORKERS):
                group.create_task(self._work())

    async def _work(self) -> None:
        while True:
            await self._due.wait()
            if self._waiting:
                await self._look_up(self._waiting.popleft())
            else:
                self._due.clear()

    async def _look_up(self, command: GetPod) -> None:
        pod = command.pod
        try:
            found = msgspec.convert(await self._api.get(paths.pod(pod.namespace, pod.name)), PodObject)
        except ApiError as problem:
            if problem.status == _NOT_FOUND:
                self._emit(PodGone(self._clock.now(), pod.namespace, pod.name, pod.uid))
            else:
                self._log.warning("Failed to look up a pod", problem, pod=pod.key)
            return
        except msgspec.ValidationError as problem:
            self._log.warning("Failed to look up a pod", problem, pod=pod.key)
            return
        self._log.info("Looked up a bound pod without a watch event", pod=pod.key, node=found.spec.node_name or "none")
        if found.metadata.uid != pod.uid:
            self._emit(PodGone(self._clock.now(), pod.namespace, pod.name, pod.uid))
        else:
            self._emit(PodFound(self._clock.now(), found))
