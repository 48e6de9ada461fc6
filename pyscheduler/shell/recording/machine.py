"""Machine that records every call, and the API calls of its PreBind plugins, whose results change their state.

A PreBind plugin runs in the shell, between calls of the machine, so a replay calls it again at the same points with the
same responses.
"""

from __future__ import annotations

from collections.abc import Callable, Coroutine, Mapping
from functools import partial, wraps
from typing import Any, TypeVar, cast

import msgspec
from msgspec.structs import replace

from pyscheduler.api.cycle import Cycle
from pyscheduler.api.handle import ApiError, ApiWriter
from pyscheduler.api.metrics import PluginMetric
from pyscheduler.api.outcome import Rejection
from pyscheduler.api.plugin import PreBindPlugin
from pyscheduler.api.pod import Pod
from pyscheduler.config.loaded import LoadedConfig
from pyscheduler.core.commands import Bind, Command
from pyscheduler.core.context import ProfileBuilder, Settings
from pyscheduler.core.events import Event
from pyscheduler.core.instrument import Instrument
from pyscheduler.core.machine import CycleStep, Machine
from pyscheduler.shell.recording.file import Header, config_text
from pyscheduler.shell.recording.records import RecordKind
from pyscheduler.shell.recording.writer import MAX_QUEUED, TOO_MANY_QUEUED, RecordingWriter

T = TypeVar("T")


class RecordedMachine(Machine):
    """Machine whose calls are recorded."""

    def __init__(
        self,
        recording: RecordingWriter,
        config: LoadedConfig,
        build_profiles: ProfileBuilder,
        instrument: Instrument,
        settings: Settings,
    ) -> None:
        """Create a machine with an empty cluster, and start the recording."""
        self._recording = recording
        self._readings: list[float] = []
        """Times that the current call has read."""
        has_timer = instrument.timer is not None
        if instrument.timer is not None:
            instrument.timer = self._record_readings(instrument.timer)
        super().__init__(build_profiles, instrument, settings)
        recording.start(Header.of(config, settings, has_timer=has_timer))

    def hold_reports(self) -> None:
        super().hold_reports()
        self._recording.add(RecordKind.HOLD_REPORTS)

    def release_reports(self) -> list[Command]:
        commands = super().release_reports()
        self._recording.add(RecordKind.RELEASE_REPORTS, None, commands)
        return commands

    def handle(self, event: Event) -> list[Command]:
        # This and `cycle` run for every pod, for which calls of `add` would take 0.7 µs more. Other records need no
        # check of the queue: an event or a call of `cycle` is between them.
        try:
            commands = super().handle(event)
        except Exception as error:
            self._recording.add(RecordKind.EVENT, event, repr(error), self._take_readings())
            raise
        if commands:
            self._replace_plugins(commands)
        queue = self._recording.queue
        queue.append((RecordKind.EVENT, event, commands, self._take_readings() if self._readings else ()))
        if len(queue) > MAX_QUEUED:
            self._recording.end(TOO_MANY_QUEUED)
        return commands

    def cycle(self, now: float, step: CycleStep | None = None) -> list[Command] | None:
        try:
            commands = super().cycle(now, step)
        except Exception as error:
            self._recording.add(RecordKind.CYCLE, now, repr(error), self._take_readings())
            raise
        if commands:
            self._replace_plugins(commands)
        queue = self._recording.queue
        queue.append((RecordKind.CYCLE, now, commands, self._take_readings() if self._readings else ()))
        if len(queue) > MAX_QUEUED:
            self._recording.end(TOO_MANY_QUEUED)
        return commands

    def build_topology_column(self, key: str) -> None:
        super().build_topology_column(key)
        self._recording.add(RecordKind.TOPOLOGY, key)

    def record_rebuild(self, config: LoadedConfig) -> None:
        """Record that profiles are built from a changed configuration."""
        self._recording.add(RecordKind.REBUILD, config_text(config))

    def _replace_plugins(self, commands: list[Command]) -> None:
        """Put plugins whose API calls are recorded into the Bind commands."""
        for i, command in enumerate(commands):
            if type(command) is Bind and command.plan.pre_bind and self._recording.is_active:
                plugins = tuple(
                    # A plugin's other methods are not called in the binding cycle.
                    cast(PreBindPlugin, _RecordedPreBind(plugin, number, self._recording))
                    for number, plugin in enumerate(command.plan.pre_bind)
                )
                commands[i] = replace(command, plan=replace(command.plan, pre_bind=plugins))

    def _take_readings(self) -> tuple[float, ...]:
        readings = tuple(self._readings)
        self._readings.clear()
        return readings

    def _record_readings(self, timer: Callable[[], float]) -> Callable[[], float]:
        def read() -> float:
            now = timer()
            self._readings.append(now)
            return now

        return read


class _RecordedPreBind:
    """PreBind plugin of one binding cycle whose calls are recorded."""

    def __init__(self, plugin: PreBindPlugin, index: int, recording: RecordingWriter) -> None:
        self.name = plugin.name

        @wraps(plugin.pre_bind)  # the name is in messages about wrong return values
        def pre_bind(cycle: Cycle, pod: Pod, node_name: str, api: ApiWriter) -> Coroutine[Any, Any, Rejection | None]:
            recording.add(RecordKind.PRE_BIND, [pod.uid, index])
            return plugin.pre_bind(cycle, pod, node_name, _RecordedApi(api, pod.uid, recording))

        self.pre_bind = pre_bind


class _RecordedApi(ApiWriter):
    """API client of a PreBind plugin that records when each call ends, and with which result."""

    def __init__(self, api: ApiWriter, uid: str, recording: RecordingWriter) -> None:
        self._api, self._uid, self._recording = api, uid, recording

    async def bind(self, pod: Pod, node_name: str) -> None:
        await self._call(partial(self._api.bind, pod, node_name))

    async def get(self, path: str) -> dict[str, Any]:
        return await self._call(partial(self._api.get, path))

    async def create(self, path: str, body: Mapping[str, Any]) -> dict[str, Any]:
        return await self._call(partial(self._api.create, path, body))

    async def replace(self, path: str, body: Mapping[str, Any]) -> dict[str, Any]:
        return await self._call(partial(self._api.replace, path, body))

    async def merge(self, path: str, patch: Mapping[str, Any]) -> dict[str, Any]:
        return await self._call(partial(self._api.merge, path, patch))

    async def delete(self, path: str) -> None:
        await self._call(partial(self._api.delete, path))

    async def sleep(self, seconds: float) -> None:
        await self._call(partial(self._api.sleep, seconds))

    def timestamp(self) -> str:
        time = self._api.timestamp()
        self._recording.add(RecordKind.TIMESTAMP, [self._uid, time])
        return time

    def record(self, pod: Pod, reason: str, action: str, note: str) -> None:
        self._api.record(pod, reason, action, note)

    def observe(self, metric: PluginMetric, labels: tuple[str, ...] = (), value: float = 1) -> None:
        self._api.observe(metric, labels, value)

    async def _call(self, call: Callable[[], Coroutine[Any, Any, T]]) -> T:
        try:
            result = await call()
        except ApiError as error:
            failure = [self._uid, ApiError.__name__, error.status, error.reason, str(error)]
            self._recording.add(RecordKind.FAILURE, failure)
            raise
        except BaseException as error:
            self._recording.add(RecordKind.FAILURE, [self._uid, type(error).__name__, 0, "", str(error)])
            raise
        # Encoded at once, since the plugin may change what it gets.
        self._recording.add(RecordKind.RESPONSE, [self._uid, msgspec.Raw(msgspec.msgpack.encode(result))])
        return result
