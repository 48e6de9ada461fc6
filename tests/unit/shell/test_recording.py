"""Recordings: their size, their end, and failures of the disk, none of which may disturb scheduling."""

from __future__ import annotations

import errno
import os
import stat
from functools import partial
from pathlib import Path

import pytest

from pyscheduler.config.build import build_profiles
from pyscheduler.config.load import default
from pyscheduler.core.context import Settings
from pyscheduler.core.events import Tick
from pyscheduler.core.instrument import Instrument
from pyscheduler.core.machine import Machine
from pyscheduler.shell.recording import machine as machine_module
from pyscheduler.shell.recording.file import Header, RecordingReader, find_recordings
from pyscheduler.shell.recording.machine import RecordedMachine
from pyscheduler.shell.recording.records import RecordKind, decode_result
from pyscheduler.shell.recording.writer import RecordingWriter
from tests.properties.recorded import MemoryRecording, first_difference
from tests.unit.kube.virtual import VirtualClock

HEADER = Header.of(default(), Settings(), has_timer=True)
SMALL = 64 << 10


def times(file: Path) -> list[float | None]:
    return [record.time for record in RecordingReader(file).records()]


def write(directory: Path, records: int, max_bytes: int = SMALL) -> RecordingWriter:
    with RecordingWriter(directory, max_bytes, VirtualClock()) as recording:
        recording.start(HEADER)
        for i in range(records):
            recording.add(RecordKind.EVENT, Tick(float(i)), [])
    return recording


def messages(caplog: pytest.LogCaptureFixture) -> list[str]:
    return [record.message for record in caplog.records if record.levelname == "ERROR"]


def test_records_are_written_in_their_order(tmp_path: Path) -> None:
    recording = write(tmp_path, 2000)
    (file,) = find_recordings(tmp_path)
    assert times(file) == [float(i) for i in range(2000)]
    assert recording.bytes == file.stat().st_size


def test_only_the_owner_may_read_recordings(tmp_path: Path) -> None:
    write(tmp_path / "new" / "folder", 1)
    (file,) = find_recordings(tmp_path / "new" / "folder")
    assert stat.S_IMODE(file.stat().st_mode) == 0o600
    assert stat.S_IMODE(file.parent.stat().st_mode) == 0o700


def test_recording_stops_at_its_limit_and_is_readable_up_to_there(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    write(tmp_path, 100_000)
    (file,) = find_recordings(tmp_path)
    found = times(file)
    assert file.stat().st_size <= SMALL
    assert 0 < len(found) < 100_000
    assert found == [float(i) for i in range(len(found))]
    assert messages(caplog) == ["Recording stopped"]


def test_oldest_recordings_are_deleted_first_to_make_room(tmp_path: Path) -> None:
    for name in ("2026-01-01", "2026-01-02"):
        (tmp_path / f"{name}.recording").write_bytes(b"x" * (SMALL * 45 // 100))
    (tmp_path / "other.txt").write_bytes(b"x" * SMALL)
    write(tmp_path, 5_000)
    assert [file.name for file in find_recordings(tmp_path)][:-1] == ["2026-01-02.recording"]
    assert (tmp_path / "other.txt").exists()


def test_scheduling_goes_on_without_a_directory_that_can_be_written(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    (tmp_path / "file").write_text("")
    recording = write(tmp_path / "file" / "folder", 10)
    assert not recording.is_active
    assert messages(caplog) == ["Cannot create recording file"]


def test_full_disk_ends_the_recording_with_one_message(
    tmp_path: Path, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    written = os.write
    calls = iter(range(100))

    def write_until_full(file: int, data: bytes) -> int:
        if next(calls) > 1:
            raise OSError(errno.ENOSPC, "No space left on device")
        return written(file, data[: len(data) // 2 + 1])

    monkeypatch.setattr(os, "write", write_until_full)
    recording = write(tmp_path, 1000)
    assert not recording.is_active
    (record,) = [each for each in caplog.records if each.levelname == "ERROR"]
    assert record.__dict__["fields"]["reason"] == "No space left on device"


def test_recording_stops_when_too_many_records_are_queued(
    tmp_path: Path, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(machine_module, "MAX_QUEUED", 10)
    config = default()
    with RecordingWriter(tmp_path, SMALL, VirtualClock()) as recording:
        machine = RecordedMachine(recording, config, partial(build_profiles, config), Instrument(), Settings())
        for i in range(100):
            machine.cycle(float(i))
        assert not recording.is_active
        assert not recording.queue
    (record,) = [each for each in caplog.records if each.levelname == "ERROR"]
    assert record.__dict__["fields"]["reason"] == "more than 200,000 records are queued"


@pytest.mark.parametrize("cut", [1, 100])
def test_torn_batch_is_not_read(tmp_path: Path, cut: int) -> None:
    write(tmp_path, 2000)
    (file,) = find_recordings(tmp_path)
    data = file.read_bytes()
    file.write_bytes(data[:-cut])
    reader = RecordingReader(file)
    found = [record.time for record in reader.records()]
    assert reader.is_torn
    assert found == [float(i) for i in range(len(found))]
    assert 0 < len(found) < 2000


def test_object_that_cannot_be_encoded_ends_the_recording(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    with RecordingWriter(tmp_path, SMALL, VirtualClock()) as recording:
        recording.start(HEADER)
        recording.add(RecordKind.TOPOLOGY, object())
    assert not recording.is_active
    assert messages(caplog)[0] == "Recording failed"


def test_exception_of_cycle_is_recorded_with_the_times_that_it_read(monkeypatch: pytest.MonkeyPatch) -> None:
    """These times belong to no later record."""

    def read_time_and_raise(machine: Machine, now: float, step: object = None) -> None:
        assert machine.context.instrument.timer is not None
        machine.context.instrument.timer()
        raise ValueError(now)

    monkeypatch.setattr(Machine, "cycle", read_time_and_raise)
    config, recording, instrument = default(), MemoryRecording(), Instrument()
    instrument.timer = lambda: 7.0
    machine = RecordedMachine(recording, config, partial(build_profiles, config), instrument, Settings())
    with pytest.raises(ValueError, match="1"):
        machine.cycle(1.0)
    machine.handle(Tick(2.0))
    failed, after = recording.records()
    assert (failed.kind, failed.time, failed.readings) == (RecordKind.CYCLE, 1.0, (7.0,))
    assert decode_result(failed.result) == "ValueError(1.0)"
    assert (after.kind, after.readings) == (RecordKind.EVENT, ())
    assert first_difference(recording.replay()) is None
