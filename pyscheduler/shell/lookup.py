"""Looks pods up one by one, for the machine to learn what no watch has shown."""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Callable
from typing import Final

import msgspec

from pyscheduler.api import ApiError, ApiWriter, PodObject
from pyscheduler.core.commands import GetPod
from pyscheduler.core.events import Event, PodFound, PodGone
from pyscheduler.shell import logs
from pyscheduler.shell.clock import Clock
from pyscheduler.shell.kube import paths

WORKERS: Final = 4
"""Pods looked up at the same time."""
_NOT_FOUND = 404
log = logs.get("lookup")


class PodLookup:
    """Takes GetPod commands, never blocks, answers with events; the machine repeats a command without an answer."""

    def __init__(self, api: ApiWriter, clock: Clock, emit: Callable[[Event], None]) -> None:
        self._api = api
        self._clock = clock
        self._emit = emit
        self._waiting: deque[GetPod] = deque()
        self._due = asyncio.Event()

    def add(self, command: GetPod) -> None:
        """Have a pod looked up."""
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
                log.warning("Pod could not be looked up", problem, pod=pod.key)
            return
        except msgspec.ValidationError as problem:
            log.warning("Pod could not be looked up", problem, pod=pod.key)
            return
        log.info("Looked up a bound pod that no watch has shown", pod=pod.key, node=found.spec.node_name or "none")
        if found.metadata.uid != pod.uid:
            self._emit(PodGone(self._clock.now(), pod.namespace, pod.name, pod.uid))
        else:
            self._emit(PodFound(self._clock.now(), found))
