"""Pods with attempts in recordings, read from the recorded commands without a replay."""

from __future__ import annotations

from collections.abc import Iterator

import msgspec

from pyscheduler.shell.recording.attempts import AttemptReader, RecordedAttempt
from pyscheduler.shell.recording.file import RecordingReader
from pyscheduler.shell.recording.records import RecordedInput


class AttemptedPod(msgspec.Struct, frozen=True, kw_only=True):
    """Pod with its last attempt. The fields are the keys of the JSON output."""

    pod: str
    """`namespace/name`."""
    attempts: int
    time: float
    """Unix time of the last attempt, or of the failure of its binding."""
    result: str
    node: str
    """Node that was chosen; "" if none was."""
    reason: str


class PodListReader:
    """Collects the pods of recordings, which are read one after another."""

    def __init__(self) -> None:
        self._reader = AttemptReader()
        self._attempts: dict[str, int] = {}
        self._last: dict[str, RecordedAttempt] = {}

    def read(self, reader: RecordingReader, records: Iterator[RecordedInput]) -> None:
        """Read one recording; `records` are those of `reader`."""
        for attempt in self._reader.read(reader, records):
            pod = self._reader.pods[attempt.uid]
            self._attempts[pod] = self._attempts.get(pod, 0) + (attempt.number is not None)
            self._last[pod] = attempt

    def pods(self) -> list[AttemptedPod]:
        """Return the pods that were attempted, by namespace and name."""
        return [
            AttemptedPod(
                pod=pod,
                attempts=self._attempts[pod],
                time=last.time,
                result=last.result,
                node=last.node,
                reason=last.reason,
            )
            for pod, last in sorted(self._last.items())
        ]
