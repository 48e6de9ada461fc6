"""Follows the configuration file: what it says anew is taken up between two attempts, what is wrong with it is told.

A mounted ConfigMap is a link that the kubelet swaps, so it is the content that is compared, every few seconds.
"""

from __future__ import annotations

import asyncio
import os
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Final

import msgspec

from pyscheduler.api.objects import ObjectMeta, PodObject, PodSpec
from pyscheduler.config.gates import FeatureGates
from pyscheduler.config.load import load
from pyscheduler.config.problems import ConfigError
from pyscheduler.core.commands import EventType, Record
from pyscheduler.core.state import PodSignatures
from pyscheduler.shell import logs
from pyscheduler.shell.clock import Clock
from pyscheduler.shell.scheduler import Scheduler

PERIOD: Final = 5.0
"""Seconds between two looks at the file."""
_log = logs.get("reload")


class Source(msgspec.Struct, frozen=True):
    """The file that the scheduler was started with, the feature gates that it is read by, and what goes before it."""

    path: Path
    gates: FeatureGates
    election: Mapping[str, Any] = msgspec.field(default_factory=dict)
    """What flags said instead of its leaderElection."""


class Reloader:
    """Follows a file for as long as the `async with` block lasts."""

    def __init__(self, source: Source, scheduler: Scheduler, clock: Clock) -> None:
        self._source = source
        self._scheduler = scheduler
        self._clock = clock
        self._seen = _content(source.path)
        self._task: asyncio.Task[None] | None = None

    async def __aenter__(self) -> Reloader:
        self._task = asyncio.create_task(self._follow())
        return self

    async def __aexit__(self, *_: object) -> None:
        if self._task is not None:
            self._task.cancel()
            await asyncio.gather(self._task, return_exceptions=True)

    async def _follow(self) -> None:
        while True:
            await self._clock.sleep(PERIOD)
            await self.look()

    async def look(self) -> None:
        """Take the file up if it is another one than it was."""
        content = _content(self._source.path)
        if content == self._seen:
            return
        self._seen = content
        try:
            config = load(self._source.path, self._source.gates, self._source.election)
            restart = await self._scheduler.reconfigure(config)
        except ConfigError as refused:
            self._refuse(refused)
        except Exception as error:  # whatever a user's plugin does, the scheduler goes on as it was
            _log.crash("The configuration could not be taken up", error)
            self._refuse(error)
        else:
            for warning in config.warnings:
                _log.warning(warning)
            self._take(restart)

    def _take(self, restart: tuple[str, ...]) -> None:
        waiting = ", ".join(restart)
        _log.info("The changed configuration is followed", restart=waiting or "not needed")
        self._scheduler.metrics.count_reload(taken=True)
        note = "the changed configuration is followed" + (f"; to be restarted for: {waiting}" if waiting else "")
        self._tell(EventType.NORMAL, "ConfigurationReloaded", note)

    def _refuse(self, problem: Exception) -> None:
        lines = str(problem).splitlines() or [type(problem).__name__]
        _log.error("The changed configuration is refused, the old one stays", problems="; ".join(lines))
        self._scheduler.metrics.count_reload(taken=False)
        note = f"the changed configuration is refused, the old one stays: {'; '.join(lines)}"
        self._tell(EventType.WARNING, "ConfigurationRefused", note)

    def _tell(self, type: EventType, reason: str, note: str) -> None:
        """Write an Event about the scheduler's own Pod, where the environment names one that is known."""
        namespace, name = os.environ.get("POD_NAMESPACE", ""), os.environ.get("POD_NAME", "")
        uid = self._scheduler.machine.context.uid_of.get(f"{namespace}/{name}")
        if uid is not None:
            # In the API our Pod is somebody else's to schedule; what is told of it is told by us.
            spec = PodSpec(containers=(), scheduler_name=self._scheduler.names[0])
            own = PodSignatures().pod(
                PodObject(metadata=ObjectMeta(name=name, namespace=namespace, uid=uid), spec=spec)
            )
            self._scheduler.executor.carry_out(Record(type, reason, "Reloading", note, own))


def _content(path: Path) -> bytes | None:
    """What is in the file; None if it cannot be read, which is for `load` to explain."""
    try:
        return path.read_bytes()
    except OSError:
        return None
