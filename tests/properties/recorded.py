"""Harnesses whose machines are recorded in memory, and the replay of those recordings."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any
from unittest.mock import patch

from pyscheduler.clock import SystemClock
from pyscheduler.config.loaded import LoadedConfig
from pyscheduler.config.rebuild import RebuiltProfiles, rebuild_profiles
from pyscheduler.core.context import ProfileBuilder, Settings
from pyscheduler.core.instrument import Instrument
from pyscheduler.shell.recording.file import Header, config_text
from pyscheduler.shell.recording.machine import RecordedMachine
from pyscheduler.shell.recording.recorder import DecisionRecorder
from pyscheduler.shell.recording.records import Entry, Kind, RecordedCall, decode_batch, encode_batch
from pyscheduler.shell.recording.replay import Difference, Replay


class _Encoded(deque[Entry]):
    def __init__(self, data: list[bytes]) -> None:
        super().__init__()
        self._data = data

    def append(self, entry: Entry) -> None:
        self._data.append(encode_batch([entry]))


class MemoryRecorder(DecisionRecorder):
    """Recorder that keeps its records. They are encoded at once, so that later changes do not show."""

    def __init__(self) -> None:
        super().__init__(Path(), 0, SystemClock())
        self.header: Header | None = None
        self.data: list[bytes] = []

    def start(self, header: Header) -> None:
        self.header, self.is_active = header, True
        self.waiting = _Encoded(self.data)

    def records(self) -> Iterator[RecordedCall]:
        for data in self.data:
            yield from decode_batch(data)

    def replay(self) -> Replay:
        assert self.header is not None
        return Replay(self.header, self.records())


@contextmanager
def recorded_harnesses() -> Iterator[list[MemoryRecorder]]:
    """Record the machines of all harnesses that start inside the block, each with its own recorder."""
    recorders: list[MemoryRecorder] = []

    def make(build: ProfileBuilder, instrument: Instrument, settings: Settings) -> RecordedMachine:
        config = build.args[0]  # type: ignore[attr-defined]  # a partial of `build_profiles`
        assert isinstance(config, LoadedConfig)
        recorders.append(MemoryRecorder())
        return RecordedMachine(recorders[-1], config, build, instrument, settings)

    def rebuild(started: LoadedConfig, changed: LoadedConfig, *more: Any) -> RebuiltProfiles:
        recorders[-1].add(Kind.REBUILD, config_text(changed))
        return rebuild_profiles(started, changed, *more)

    module = "pyscheduler.testing.harness"
    with patch(f"{module}.Machine", make), patch(f"{module}.rebuild_profiles", rebuild):
        yield recorders


def first_difference(recorder: MemoryRecorder) -> Difference | None:
    """Replay a recording; return the first record with another result."""
    replay = recorder.replay()
    while replay.peek() is not None:
        if (difference := replay.step()) is not None:
            return difference
    return None
