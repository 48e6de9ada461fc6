"""Request queue in a state file: other processes add requests, the process that runs the file executes them.

A request stays in the queue until it was executed, so a crash loses none: requests are idempotent. Requests can be
queued while no process runs the file.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from contextlib import closing
from pathlib import Path
from typing import Final, NamedTuple, Self, TypeAlias

import msgspec

from pyscheduler.backend.state import SavedState, StateIdentity, StateProblem
from pyscheduler.backend.state.sqlite_errors import damaged, sqlite_errors, transaction
from pyscheduler.backend.state.sqlite_file import open_state_file
from pyscheduler.backend.state.sqlite_lock import holder
from pyscheduler.backend.state.sqlite_records import (
    checksum,
    get_meta,
    read_by_id,
    read_identity,
    read_records,
    read_state,
    set_meta,
)
from pyscheduler.backend.task import TaskRecord, TaskSpec


class Submit(msgspec.Struct, frozen=True, tag="submit"):
    """Submit a task."""

    spec: TaskSpec


class Kill(msgspec.Struct, frozen=True, tag="kill"):
    """Kill a task."""

    id: str


class Forget(msgspec.Struct, frozen=True, tag="forget"):
    """Delete the record of a task that has ended."""

    id: str


class Adopt(msgspec.Struct, frozen=True, tag="adopt"):
    """Make the task `id` of an orphan."""

    id: str
    pod: str
    submission: str = ""


Request: TypeAlias = Submit | Kill | Forget | Adopt


class QueuedRequest(NamedTuple):
    """Queued request, ordered by `number`; `rejection` is the reason why it was rejected, "" while it is pending."""

    number: int
    request: Request
    rejection: str


_encoder: Final = msgspec.json.Encoder()
_decoder: Final[msgspec.json.Decoder[Request]] = msgspec.json.Decoder(Request)


class RequestQueue:
    """Requests of one state file, and read access to its records without locking it. Use it in a `with` block."""

    def __init__(self, path: Path, create: bool = False) -> None:
        """Open the file; `create` it if it does not exist. StateProblem if it cannot be used."""
        self.path = path
        self._db = open_state_file(path, create)
        self._seen = -1

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        self._db.close()

    def put(self, requests: Iterable[Request]) -> None:
        """Queue all requests or none."""
        rows = [(_encoder.encode(request), task_of(request)) for request in requests]
        values = [(body, task, checksum(task, body)) for body, task in rows]
        with sqlite_errors(self.path), transaction(self._db):
            self._db.executemany("INSERT INTO request (body, task, checksum) VALUES (?, ?, ?)", values)

    def changed(self) -> bool:
        """Return True if another connection has written to the file since the last call; True at the first call."""
        with sqlite_errors(self.path):
            (version,) = self._db.execute("PRAGMA data_version").fetchone()
        seen, self._seen = self._seen, version
        return bool(version != seen)

    def pending(self, after: int = 0, limit: int = -1) -> list[QueuedRequest]:
        """Return at most `limit` pending requests with a number above `after`, in order."""
        return self._requests("refused IS NULL AND number > ? ORDER BY number LIMIT ?", (after, limit))

    def rejected(self) -> list[QueuedRequest]:
        """Return the rejected requests, in order."""
        return self._requests("refused IS NOT NULL ORDER BY number", ())

    def done(self, numbers: Sequence[int]) -> None:
        """Remove requests that were executed or withdrawn."""
        with sqlite_errors(self.path), transaction(self._db):
            self._db.executemany("DELETE FROM request WHERE number = ?", [(number,) for number in numbers])

    def reject(self, numbers: Sequence[int], why: str) -> None:
        """Mark requests as rejected for the reason `why`."""
        with sqlite_errors(self.path), transaction(self._db):
            self._db.executemany("UPDATE request SET refused = ? WHERE number = ?", [(why, n) for n in numbers])

    def withdraw(self, ids: Iterable[str]) -> None:
        """Remove the rejected requests of these tasks."""
        with sqlite_errors(self.path), transaction(self._db):
            self._db.executemany("DELETE FROM request WHERE refused IS NOT NULL AND task = ?", [(id,) for id in ids])

    def read_state(self) -> SavedState:
        """Read the current records."""
        return read_state(self._db, self.path)

    def identity(self) -> StateIdentity | None:
        """Return the identity of the backend that the file belongs to, None before its first use."""
        return read_identity(self._db, self.path)

    def records(self, ids: Iterable[str] | None = None, phases: Sequence[str] = ()) -> Iterator[TaskRecord]:
        """Yield the records of these tasks, as far as they exist, and decode no others.

        Without `ids`: of all tasks in one of the phases (all phases if empty), in the order of their submission.
        """
        if ids is not None:
            return read_by_id(self._db, self.path, ids)
        condition = f"phase IN ({', '.join('?' * len(phases))})" if phases else "1"
        return read_records(self._db, self.path, f"{condition} ORDER BY rowid", phases)

    def requests_of(self, ids: Iterable[str]) -> list[QueuedRequest]:
        """Return the pending and rejected requests of these tasks, in order."""
        found = [queued for id in ids for queued in self._requests("task = ? ORDER BY number", (id,))]
        return sorted(found, key=lambda queued: queued.number)

    def holder(self) -> str:
        """Return the process that runs the file, "" if none does."""
        with sqlite_errors(self.path):
            return holder(self.path, self._db)

    def set_meta(self, name: str, value: str) -> None:
        """Store a value for other processes, such as the current offer."""
        with sqlite_errors(self.path), transaction(self._db):
            set_meta(self._db, name, value)

    def get_meta(self, name: str) -> str:
        """Return the value stored under a name, "" if there is none."""
        return get_meta(self._db, self.path, name) or ""

    def _requests(self, condition: str, values: tuple[int | str, ...]) -> list[QueuedRequest]:
        query = f"SELECT number, body, coalesce(refused, ''), task, checksum FROM request WHERE {condition}"
        with sqlite_errors(self.path), closing(self._db.execute(query, values)) as rows:
            return [
                QueuedRequest(number, _request(self.path, number, body, is_intact=checksum(task, body) == stored), why)
                for number, body, why, task, stored in rows
            ]


def task_of(request: Request) -> str:
    """Return the id of the task of a request."""
    return request.spec.id if isinstance(request, Submit) else request.id


def _request(path: Path, number: int, body: bytes, *, is_intact: bool) -> Request:
    if not is_intact:
        raise damaged(path, f"request {number} has another checksum")
    try:
        return _decoder.decode(body)
    except (msgspec.DecodeError, UnicodeDecodeError) as problem:
        raise StateProblem(f"{path}: request {number} cannot be read: {problem}") from None
