"""Reload a changed configuration file between two attempts; an invalid one is reported and ignored.

The content is compared every few seconds, because a mounted ConfigMap is a symbolic link that the kubelet replaces.
"""

from __future__ import annotations

import asyncio
import os
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Final

import msgspec

from pyscheduler import logs
from pyscheduler.api.objects import ObjectMeta, PodObject, PodSpec
from pyscheduler.clock import Clock
from pyscheduler.config.gates import FeatureGates
from pyscheduler.config.load import load
from pyscheduler.config.problems import ConfigError
from pyscheduler.core.commands import EventType, Record
from pyscheduler.core.state import PodSignatures
from pyscheduler.shell.scheduler import Scheduler

PERIOD: Final = 5.0
"""Seconds between two reads of the file."""
_log = logs.get("reload")


class Source(msgspec.Struct, frozen=True):
    """The configuration file, its feature gates, and the flags that override it."""

    path: Path
    gates: FeatureGates
    election: Mapping[str, Any] = msgspec.field(default_factory=dict)
    """Values of flags, which override the file's leaderElection."""


class Reloader:
    """Reloads the file when it changes, inside the `async with` block."""

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
            await self.reload_if_changed()

    async def reload_if_changed(self) -> None:
        """Reload the file if its content has changed."""
        content = _content(self._source.path)
        if content == self._seen:
            return
        self._seen = content
        try:
            config = load(self._source.path, self._source.gates, self._source.election)
            restart = await self._scheduler.reconfigure(config)
        except ConfigError as error:
            self._report_failure(error)
        except Exception as error:  # users' plugins may raise anything; the current configuration stays
            _log.crash("Failed to apply the changed configuration", error)
            self._report_failure(error)
        else:
            for warning in config.warnings:
                _log.warning(warning)
            self._report_success(restart)

    def _report_success(self, restart: tuple[str, ...]) -> None:
        waiting = ", ".join(restart)
        _log.info("Configuration reloaded", restart=waiting or "not needed")
        self._scheduler.metrics.count_reload(succeeded=True)
        note = "configuration reloaded" + (f"; restart needed for: {waiting}" if waiting else "")
        self._record(EventType.NORMAL, "ConfigurationReloaded", note)

    def _report_failure(self, problem: Exception) -> None:
        lines = str(problem).splitlines() or [type(problem).__name__]
        _log.error("Invalid configuration, keeping the current one", problems="; ".join(lines))
        self._scheduler.metrics.count_reload(succeeded=False)
        note = f"invalid configuration, keeping the current one: {'; '.join(lines)}"
        self._record(EventType.WARNING, "ConfigurationRefused", note)

    def _record(self, type: EventType, reason: str, note: str) -> None:
        """Write an Event about the scheduler's own Pod, if the environment names it and it is in the cache."""
        namespace, name = os.environ.get("POD_NAMESPACE", ""), os.environ.get("POD_NAME", "")
        uid = self._scheduler.machine.context.handle.pods.uid_of(namespace, name)
        if uid is not None:
            # Another scheduler may have placed this Pod; the reporting controller of the Event is this one.
            spec = PodSpec(containers=(), scheduler_name=self._scheduler.names[0])
            own = PodSignatures().pod(
                PodObject(metadata=ObjectMeta(name=name, namespace=namespace, uid=uid), spec=spec)
            )
            self._scheduler.executor.execute(Record(type, reason, "Reloading", note, own))


def _content(path: Path) -> bytes | None:
    """Return the file's content; None if it cannot be read, which `load` reports."""
    try:
        return path.read_bytes()
    except OSError:
        return None
