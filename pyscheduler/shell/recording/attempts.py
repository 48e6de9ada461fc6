"""Attempts of a pod in a recording, read from the recorded commands without a replay."""

from __future__ import annotations

from array import array
from bisect import bisect_right
from collections.abc import Iterator
from typing import Final

import msgspec

from pyscheduler.core.events import BindFailed
from pyscheduler.shell.recording.records import Plain, RecordedInput, RecordKind, decode_event, pod_of_event

SCHEDULED: Final = "Scheduled"
UNSCHEDULABLE: Final = "Unschedulable"
BINDING_FAILED: Final = "BindingFailed"
_FAILED_SCHEDULING: Final = "FailedScheduling"
_NONE: Final = msgspec.msgpack.encode(None)
_EMPTY: Final = msgspec.msgpack.encode([])


class RecordedAttempt(msgspec.Struct, frozen=True):
    """One attempt of a pod, or the end of a binding that failed."""

    at: float
    """Time on the machine's clock."""
    index: int
    """Number of records before that of the attempt."""
    uid: str
    result: str
    node: str = ""
    """Node that was chosen; "" if none was."""
    nominated: str = ""
    """Node that was nominated, whose victims are evicted."""
    reason: str = ""
    """Message of a failure."""


class AttemptReader:
    """Finds the attempts of the pods of one name; there may have been several, one after the other."""

    def __init__(self, namespace: str, name: str) -> None:
        self._key = namespace, name
        self.uids: set[str] = set()
        """UIDs of the pods of this name that the recording has shown."""
        self._times, self._indexes = array("d"), array("q")
        """Times and indexes of the calls of `cycle` that did something."""

    def read(self, records: Iterator[RecordedInput]) -> Iterator[RecordedAttempt]:
        """Yield the attempts in the order of their commands."""
        for index, record in enumerate(records):
            if record.kind == RecordKind.EVENT:
                pod = pod_of_event(record.payload)
                if pod is not None and (pod.namespace, pod.name) == self._key:
                    self.uids.add(pod.uid)
            elif record.kind == RecordKind.CYCLE and bytes(record.result) != _NONE:
                self._times.append(record.time or 0.0)
                self._indexes.append(index)
            if bytes(record.result) not in (_NONE, _EMPTY):
                yield from self._attempts(index, record)

    def _attempts(self, index: int, record: RecordedInput) -> Iterator[RecordedAttempt]:
        commands = msgspec.msgpack.decode(record.result)
        if isinstance(commands, str):  # an exception
            return
        own = [command for command in commands if len(command) > 1 and command[1] in self.uids]
        nominated = {command[1]: command[4] for command in own if command[0] == "patch"}
        for command in own:
            if command[0] == "bind":
                yield self._scheduled_attempt(index, command)
            elif command[0] == "record" and command[2] == _FAILED_SCHEDULING:
                yield _failed_attempt(index, record, command, nominated.get(command[1]) or "")

    def _scheduled_attempt(self, index: int, command: Plain) -> RecordedAttempt:
        """Return the attempt of a binding, which begins after the attempt if the pod waits in Permit."""
        _, uid, node, _, at = command
        last = bisect_right(self._times, at) - 1
        found = self._indexes[last] if last >= 0 and self._times[last] == at else index
        return RecordedAttempt(at, found, uid, SCHEDULED, node)


def _failed_attempt(index: int, record: RecordedInput, command: Plain, nominated: str) -> RecordedAttempt:
    is_binding = record.kind == RecordKind.EVENT and isinstance(decode_event(record.payload), BindFailed)
    result = BINDING_FAILED if is_binding else UNSCHEDULABLE
    return RecordedAttempt(record.time or 0.0, index, command[1], result, "", nominated, command[3])
