"""Attempts of a pod in recordings, read from the recorded commands without a replay."""

from __future__ import annotations

from array import array
from bisect import bisect_right
from collections.abc import Iterator
from typing import Final

import msgspec

from pyscheduler.core.events import BindFailed
from pyscheduler.shell.recording.commands import (
    RecordedBind,
    RecordedEventNote,
    RecordedPatchStatus,
    RecordedPodCommand,
)
from pyscheduler.shell.recording.file import RecordingReader
from pyscheduler.shell.recording.records import RecordedInput, RecordKind, decode_event, pod_of_event

SCHEDULED: Final = "Scheduled"
UNSCHEDULABLE: Final = "Unschedulable"
BINDING_FAILED: Final = "BindingFailed"
_FAILED_SCHEDULING: Final = "FailedScheduling"


class RecordedAttempt(msgspec.Struct, frozen=True, kw_only=True):
    """One attempt of a pod, or the failure of its binding. The fields are the keys of the JSON output."""

    number: int | None
    """Number of the attempt, from 1; None for the failure of a binding, which is no attempt."""
    time: float
    """Unix time."""
    result: str
    node: str = ""
    """Node that was chosen; "" if none was."""
    nominated: str = ""
    """Node that was nominated, whose victims are evicted."""
    reason: str = ""
    """Message of a failure."""
    uid: str
    """UID of the pod."""
    file: str
    """Recording."""
    index: int
    """Number of records of the file before that of the attempt."""


class AttemptReader:
    """Finds the attempts of all pods, or of those of one name: there may have been several, one after the other."""

    def __init__(self, key: tuple[str, str] | None = None) -> None:
        """`key` is the namespace and name of the pods; None for all pods."""
        self._key, self._prefix = key, f"{key[1]}-" if key is not None else None
        self.pods: dict[str, str] = {}
        """`namespace/name` by the UID of each such pod that the recordings have shown."""
        self.names: set[str] = set()
        """`namespace/name` of the pods with names that begin with this name and a hyphen, as those of a workload do."""
        self._attempts = 0
        """Number of attempts in all recordings up to now."""
        self._times, self._indexes = array("d"), array("q")
        """Times and indexes of the calls of `cycle` that did something, in the current recording."""

    def read(self, reader: RecordingReader, records: Iterator[RecordedInput]) -> Iterator[RecordedAttempt]:
        """Yield the attempts of one recording, in the order of their commands; `records` are those of `reader`."""
        self._times, self._indexes = array("d"), array("q")
        for index, record in enumerate(records):
            if record.kind == RecordKind.EVENT:
                pod = pod_of_event(record.payload)
                if pod is not None and self._key in (None, (pod.namespace, pod.name)):
                    self.pods[pod.uid] = f"{pod.namespace}/{pod.name}"
                elif pod is not None and self._prefix is not None and pod.name.startswith(self._prefix):
                    self.names.add(f"{pod.namespace}/{pod.name}")
            elif record.kind == RecordKind.CYCLE and not record.returned_none:
                self._times.append(record.time or 0.0)
                self._indexes.append(index)
            yield from self._read_commands(reader, index, record)

    def _read_commands(self, reader: RecordingReader, index: int, record: RecordedInput) -> Iterator[RecordedAttempt]:
        own = [each for each in record.commands if isinstance(each, RecordedPodCommand) and each.uid in self.pods]
        nominated = {each.uid: each.nominated for each in own if isinstance(each, RecordedPatchStatus)}
        for command in own:
            if isinstance(command, RecordedBind):
                yield self._scheduled_attempt(reader, index, command)
            elif isinstance(command, RecordedEventNote) and command.reason == _FAILED_SCHEDULING:
                yield self._failed_attempt(reader, index, record, command, nominated.get(command.uid) or "")

    def _next_number(self) -> int:
        self._attempts += 1
        return self._attempts

    def _scheduled_attempt(self, reader: RecordingReader, index: int, command: RecordedBind) -> RecordedAttempt:
        """Return the attempt of a binding, which begins after the attempt if the pod waits in Permit."""
        last = bisect_right(self._times, command.now) - 1
        # Times are equal bit by bit: the command has the time that `cycle` got, and the file has both as doubles. An
        # attempt of several calls has the time of its first one; without an equal time, the binding's call is shown.
        is_found = last >= 0 and self._times[last] == command.now
        return RecordedAttempt(
            number=self._next_number(),
            time=command.now + reader.header.epoch,
            result=SCHEDULED,
            node=command.node,
            uid=command.uid,
            file=str(reader.path),
            index=self._indexes[last] if is_found else index,
        )

    def _failed_attempt(
        self, reader: RecordingReader, index: int, record: RecordedInput, command: RecordedEventNote, nominated: str
    ) -> RecordedAttempt:
        is_binding = record.kind == RecordKind.EVENT and isinstance(decode_event(record.payload), BindFailed)
        return RecordedAttempt(
            number=None if is_binding else self._next_number(),
            time=(record.time or 0.0) + reader.header.epoch,
            result=BINDING_FAILED if is_binding else UNSCHEDULABLE,
            nominated=nominated,
            reason=command.note,
            uid=command.uid,
            file=str(reader.path),
            index=index,
        )
