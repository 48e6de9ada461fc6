"""Harnesses whose machines are recorded in memory, and the replay of those recordings."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any
from unittest.mock import patch

from msgspec.structs import replace

from pyscheduler.clock import SystemClock
from pyscheduler.config.loaded import LoadedConfig
from pyscheduler.config.rebuild import RebuiltProfiles, rebuild_profiles
from pyscheduler.core.context import ProfileBuilder, Settings
from pyscheduler.core.instrument import Instrument
from pyscheduler.shell.recording.file import Header, config_text
from pyscheduler.shell.recording.machine import RecordedMachine
from pyscheduler.shell.recording.records import RecordedInput, RecordKind, UnencodedRecord, decode_batch, encode_batch
from pyscheduler.shell.recording.replay import Difference, Replay
from pyscheduler.shell.recording.writer import RecordingWriter


class _Encoded(deque[UnencodedRecord]):
    def __init__(self, data: list[bytes]) -> None:
        super().__init__()
        self._data = data

    def append(self, record: UnencodedRecord) -> None:
        self._data.append(encode_batch([record]))


class MemoryRecording(RecordingWriter):
    """Recording that is kept in memory. Records are encoded at once, so that later changes do not show."""

    def __init__(self) -> None:
        super().__init__(Path(), 0, SystemClock())
        self.header: Header | None = None
        self.data: list[bytes] = []

    def start(self, header: Header) -> None:
        self.header, self.is_active = header, True
        self.queue = _Encoded(self.data)

    def records(self) -> Iterator[RecordedInput]:
        for data in self.data:
            yield from decode_batch(data)

    def replay(self) -> Replay:
        assert self.header is not None
        return Replay(self.header, self.records())


@contextmanager
def recorded_machines(new_recording: Callable[[], RecordingWriter], **changed: Any) -> Iterator[None]:
    """Record the machines of all harnesses that start inside the block. `changed` replaces settings."""

    def make(build: ProfileBuilder, instrument: Instrument, settings: Settings) -> RecordedMachine:
        config = build.args[0]  # type: ignore[attr-defined]  # a partial of `build_profiles`
        assert isinstance(config, LoadedConfig)
        return RecordedMachine(new_recording(), config, build, instrument, replace(settings, **changed))

    with patch("pyscheduler.testing.harness.Machine", make):
        yield


@contextmanager
def recorded_harnesses() -> Iterator[list[MemoryRecording]]:
    """Record the machines of all harnesses that start inside the block, each with its own recording."""
    recordings: list[MemoryRecording] = []

    def new_recording() -> MemoryRecording:
        recordings.append(MemoryRecording())
        return recordings[-1]

    def rebuild(started: LoadedConfig, changed: LoadedConfig, *more: Any) -> RebuiltProfiles:
        recordings[-1].add(RecordKind.REBUILD, config_text(changed))
        return rebuild_profiles(started, changed, *more)

    with recorded_machines(new_recording), patch("pyscheduler.testing.harness.rebuild_profiles", rebuild):
        yield recordings


def first_difference(replay: Replay) -> Difference | None:
    """Replay a recording; return the first record with another result."""
    while replay.peek() is not None:
        if (difference := replay.step()) is not None:
            return difference
    return None
