"""Replay of a recording: a machine gets the recorded inputs, and must return the recorded commands."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine, Generator, Iterator
from functools import partial
from types import coroutine
from typing import Any, Final, cast

import msgspec

from pyscheduler.api.handle import ApiError, ApiWriter
from pyscheduler.config.build import build_profiles
from pyscheduler.config.extenders import build_extenders
from pyscheduler.config.loaded import LoadedConfig
from pyscheduler.config.problems import ConfigError
from pyscheduler.config.rebuild import RebuiltProfiles, rebuild_profiles
from pyscheduler.core.commands import Bind, Command
from pyscheduler.core.context import Settings
from pyscheduler.core.events import Event, Reconfigured
from pyscheduler.core.instrument import Instrument
from pyscheduler.core.machine import Machine
from pyscheduler.shell.recording.file import Header
from pyscheduler.shell.recording.records import (
    RecordedInput,
    RecordedReconfigured,
    RecordKind,
    Result,
    decode_event,
    decode_result,
    encode_result,
)

_PRE_BIND_KINDS: Final = frozenset((RecordKind.PRE_BIND, RecordKind.RESPONSE, RecordKind.FAILURE, RecordKind.TIMESTAMP))


class Difference(msgspec.Struct, frozen=True):
    """First record that was replayed with another result."""

    index: int
    """Number of records before."""
    at: float
    """Time on the machine's clock."""
    recorded: Result
    replayed: Result


class Replay:
    """Machine in the state after the records that `step` has taken."""

    def __init__(self, header: Header, records: Iterator[RecordedInput]) -> None:
        """ConfigError if the configuration cannot be loaded here, for example because a plugin is not installed."""
        self.now = 0.0
        """Time of the last record, on the machine's clock."""
        self.index = 0
        """Number of records taken."""
        self.unreplayed_plugins: dict[str, None] = {}
        """PreBind plugins that await something else than their API client, in the order of their first calls."""
        self._started = header.load(header.config)
        self._header = header
        self._records = records
        self._next: RecordedInput | None = None
        self._instrument = _ReplayInstrument(has_timer=header.has_timer)
        self._rebuilt: tuple[RebuiltProfiles, LoadedConfig] | None = None
        self._binds: dict[str, Bind] = {}
        """Bind commands with PreBind plugins by UID of the pod."""
        self._pre_binds: dict[str, _PreBind] = {}
        self.machine = Machine(partial(build_profiles, self._started), self._instrument, self._settings())

    def _settings(self) -> Settings:
        header = self._header
        return Settings(
            seed=header.seed,
            initial_backoff=header.initial_backoff,
            max_backoff=header.max_backoff,
            max_in_unschedulable=header.max_in_unschedulable,
            slice_pods=header.slice_pods,
            extenders=build_extenders(self._started.configuration),
            epoch=header.epoch,
            preempts_for_resizes=header.preempts_for_resizes,
        )

    def peek(self) -> RecordedInput | None:
        """Return the next record without taking it; None at the end."""
        if self._next is None:
            self._next = next(self._records, None)
        return self._next

    def _take(self) -> RecordedInput | None:
        record, self._next = self.peek(), None
        self.index += record is not None
        return record

    def step(self) -> Difference | None:
        """Replay the next record, if there is one; return how its result differs."""
        record, index = self._take(), self.index - 1
        if record is None:
            return None
        kind = RecordKind(record.kind)
        if kind in _PRE_BIND_KINDS:
            self._step_pre_bind(kind, msgspec.msgpack.decode(record.payload))
            return None
        self._instrument.readings = iter(record.readings)
        result = self._call(kind, record)
        if isinstance(result, list):
            self._binds.update((c.pod.uid, c) for c in result if isinstance(c, Bind) and c.plan.pre_bind)
        replayed = encode_result(result)
        if replayed == bytes(record.result):
            return None
        return Difference(index, self.now, decode_result(record.result), decode_result(replayed))

    def _call(self, kind: RecordKind, record: RecordedInput) -> list[Command] | str | None:
        """Make the call of a record; return its commands, or the text of the exception."""
        machine, payload = self.machine, record.payload
        if kind in (RecordKind.CYCLE, RecordKind.EVENT):
            self.now = record.time or 0.0
            try:
                return machine.cycle(self.now) if kind is RecordKind.CYCLE else machine.handle(self._event(payload))
            except Exception as error:
                return repr(error)
        if kind is RecordKind.RELEASE_REPORTS:
            return machine.release_reports()
        if kind is RecordKind.HOLD_REPORTS:
            machine.hold_reports()
        elif kind is RecordKind.TOPOLOGY:
            machine.build_topology_column(msgspec.msgpack.decode(payload, type=str))
        elif kind is RecordKind.REBUILD:
            self._rebuild(msgspec.msgpack.decode(payload, type=str))
        return None

    def _event(self, payload: msgspec.Raw) -> Event:
        event = decode_event(payload)
        if not isinstance(event, RecordedReconfigured):
            return event
        assert self._rebuilt is not None, "profiles are built before they are in use"
        rebuilt, config = self._rebuilt
        backoffs = event.initial_backoff, event.max_backoff
        return Reconfigured(event.at, rebuilt.profiles, *backoffs, build_extenders(config.configuration))

    def _rebuild(self, text: str) -> None:
        context = self.machine.context
        try:
            config = self._header.load(text)
            rebuilt = rebuild_profiles(self._started, config, context.active_profiles, context.handle)
        except ConfigError:  # as when it was recorded: no Reconfigured follows then
            return
        context.handle.pods.count_succeeded(rebuilt.succeeded)
        self._rebuilt = rebuilt, config

    # -- PreBind plugins -----------------------------------------------------------------------------------------

    def _step_pre_bind(self, kind: RecordKind, payload: list[Any]) -> None:
        uid = payload[0]
        if kind is RecordKind.PRE_BIND:
            bind = self._binds.get(uid)
            if bind is not None:  # else another decision was replayed
                self._pre_binds[uid] = _PreBind(bind, payload[1], partial(self._timestamp, uid))
                self._resume(uid, lambda running: running.send(None))
        elif kind is RecordKind.RESPONSE:
            self._resume(uid, lambda running: running.send(payload[1]))
        elif kind is RecordKind.FAILURE:
            self._resume(uid, lambda running: running.throw(_failure(*payload[1:])))

    def _resume(self, uid: str, resume: Callable[[Coroutine[Any, Any, Any]], object]) -> None:
        """Run a PreBind plugin until its next API call."""
        plugin = self._pre_binds.get(uid)
        if plugin is None:
            return
        try:
            if resume(plugin.running) is API_CALL:
                return
            self.unreplayed_plugins[plugin.name] = None
        except StopIteration:
            pass
        except (KeyboardInterrupt, SystemExit):  # of `replay` itself
            raise
        except BaseException as error:
            # The plugin raises as it did in the scheduler, where a failed binding followed, which is a record of its
            # own. A CancelledError is a BaseException. asyncio has no class for "no running event loop".
            if isinstance(error, RuntimeError) and "event loop" in str(error):
                self.unreplayed_plugins[plugin.name] = None
        plugin.running.close()
        del self._pre_binds[uid]

    def _timestamp(self, uid: str) -> str:
        """Return the time that a plugin reads now: it is in the next record."""
        record = self.peek()
        if record is not None and record.kind == RecordKind.TIMESTAMP:
            found_uid, time = msgspec.msgpack.decode(record.payload)
            if found_uid == uid:
                self._take()
                return str(time)
        return ""


class _ReplayInstrument(Instrument):
    """Instrument with the recorded clock of attempts for large pods."""

    def __init__(self, *, has_timer: bool) -> None:
        self.readings: Iterator[float] = iter(())
        self._last = 0.0
        self.timer = self._read if has_timer else None

    def _read(self) -> float:
        self._last = next(self.readings, self._last)
        return self._last


API_CALL: Final = object()
"""Yielded by a plugin's coroutine for each API call."""


@coroutine
def _api_call() -> Generator[object, Any, Any]:
    return (yield API_CALL)


class _PreBind:
    """Running call of a PreBind plugin."""

    def __init__(self, bind: Bind, index: int, timestamp: Callable[[], str]) -> None:
        plugin = bind.plan.pre_bind[index]
        self.name = plugin.name
        self.running = plugin.pre_bind(bind.cycle, bind.pod, bind.node_name, cast(ApiWriter, _ReplayApi(timestamp)))


class _ReplayApi:
    """API client whose calls return the recorded responses."""

    def __init__(self, timestamp: Callable[[], str]) -> None:
        self.timestamp = timestamp

    async def _call(self, *_: object) -> Any:
        return await _api_call()

    bind = get = create = replace = merge = delete = sleep = _call

    def _ignore(self, *_: object) -> None:
        """Write no Event and count nothing."""

    record = observe = _ignore


def _failure(name: str, status: int, reason: str, message: str) -> BaseException:
    """Return the exception that an API call has raised."""
    if name == ApiError.__name__:
        return ApiError(status, reason, message)
    # Calls raise ApiError, or CancelledError when the binding is cancelled. Anything else is a bug in the scheduler, of
    # which plugins can only catch that it is an Exception.
    return asyncio.CancelledError() if name == asyncio.CancelledError.__name__ else RuntimeError(message)
