"""Writer of a recording: takes records from the scheduling thread, and writes them to a file in a thread of its own.

The scheduling thread only appends references to a queue. The writing thread holds the GIL, which makes the scheduling
thread wait, while it encodes one batch; compressing and writing do not. A recording must not disturb scheduling, so any
failure ends it, with one log line.
"""

from __future__ import annotations

import os
import threading
from collections import deque
from contextlib import suppress
from pathlib import Path
from types import TracebackType
from typing import Any, Final, Self

from pyscheduler import logs
from pyscheduler.clock import Clock, rfc3339
from pyscheduler.shell.recording.file import SUFFIX, Header, compress_batch, encode_header
from pyscheduler.shell.recording.records import RecordKind, UnencodedRecord, encode_batch

MAX_QUEUED: Final = 200_000
"""Records that may wait for the disk; more end the recording."""
TOO_MANY_QUEUED: Final = f"more than {MAX_QUEUED:,} records are queued"
_WRITE_EVERY: Final = 0.25
"""Seconds between two writes."""
_BATCH: Final = 512
"""Maximum records of a batch: the GIL is held while one is encoded."""
log = logs.get("recording")


class RecordingWriter:
    """Writes one recording, between `start` and the end of the `with` block."""

    def __init__(self, directory: Path, max_bytes: int, clock: Clock) -> None:
        """`max_bytes` limits all recordings of the directory: the oldest are deleted to make room for this one."""
        self.bytes = 0
        """Number of bytes written."""
        self.is_active = False
        """True while records are written."""
        self._directory, self._max_bytes, self._clock = directory, max_bytes, clock
        self.queue: deque[UnencodedRecord] = deque(maxlen=0)
        """Records to be written; it stays empty while nothing is recorded."""
        self._stopping = threading.Event()
        self._thread: threading.Thread | None = None
        self._path = Path()
        self._earlier: list[tuple[Path, int]] = []
        """Earlier recordings of the directory and their sizes, the newest first."""

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        self._stopping.set()
        if self._thread is not None:
            self._thread.join()

    def start(self, header: Header) -> None:
        """Create the file, and write records from now on. A failure is logged, and nothing is recorded then."""
        try:
            file = self._create()
        except OSError as error:
            log.error("Cannot create recording file", error, directory=self._directory)
            return
        self.is_active, self.queue = True, deque()
        log.info("Recording started", file=self._path)
        self._thread = threading.Thread(target=self._run, args=(file, header), name="recording", daemon=True)
        self._thread.start()

    def add(self, kind: RecordKind, payload: Any = None, result: Any = None, readings: tuple[float, ...] = ()) -> None:
        """Record a call, by references: its payload and result must not change later."""
        self.queue.append((kind, payload, result, readings))

    def _create(self) -> int:
        self._directory.mkdir(mode=0o700, parents=True, exist_ok=True)
        found = [(path, path.stat().st_size) for path in sorted(self._directory.glob(f"*{SUFFIX}"), reverse=True)]
        time = rfc3339(self._clock.wall()).replace(":", "")  # names in the order of time, on every file system
        self._path = self._directory / f"{time}-{os.getpid()}{SUFFIX}"
        self._earlier = [each for each in found if each[0] != self._path]
        return os.open(self._path, os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_CLOEXEC, 0o600)

    def _run(self, file: int, header: Header) -> None:
        try:
            self._write(file, encode_header(header))
            while not self._stopping.wait(_WRITE_EVERY):
                self._write_queue(file)
                if not self.is_active:
                    return
            self._write_queue(file)
        except OSError as error:
            self.end(error.strerror or str(error))
        except Exception as error:  # an object that cannot be encoded is a bug, and must not end the scheduler
            log.crash("Recording failed", error)
            self.end("a record cannot be written")
        finally:
            self.is_active, self.queue = False, deque(maxlen=0)
            os.close(file)

    def _write_queue(self, file: int) -> None:
        while self.is_active and self.queue:
            self._write(file, self._take_batch())

    def _take_batch(self) -> bytes:
        """Remove up to 512 records from the queue; return them encoded and compressed."""
        queue = self.queue
        count = min(len(queue), _BATCH)
        return compress_batch(encode_batch([queue.popleft() for _ in range(count)]))

    def _write(self, file: int, data: bytes) -> None:
        self._delete_oldest(len(data))
        if self.bytes + len(data) > self._max_bytes:
            self.end("--record-max-bytes is reached")
            return
        while data:
            written = os.write(file, data)
            data = data[written:]
            self.bytes += written

    def _delete_oldest(self, more: int) -> None:
        """Delete earlier recordings, the oldest first, until `more` bytes fit."""
        while self._earlier and self.bytes + more + sum(size for _, size in self._earlier) > self._max_bytes:
            path, _ = self._earlier.pop()
            with suppress(OSError):
                path.unlink()

    def end(self, reason: str) -> None:
        """Stop recording, because of a problem."""
        if self.is_active:
            self.is_active, self.queue = False, deque(maxlen=0)
            log.error("Recording stopped", reason=reason, file=self._path, bytes=self.bytes)
