"""Request queue in a state file: other processes add requests, the process that runs the file executes them.

A request stays in the queue until it was executed, so a crash loses none: requests are idempotent. Requests can be
queued while no process runs the file.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from contextlib import closing
from pathlib import Path
from typing import Final, NamedTuple, Self, TypeAlias

import msgspec

from pyscheduler.backend.state import SavedState, StateProblem
from pyscheduler.backend.state.sqlite import holder, read
from pyscheduler.backend.state.sqlite_file import open_state_file, sqlite_errors, transaction
from pyscheduler.backend.task import TaskSpec


class Submit(msgspec.Struct, frozen=True, tag="submit"):
    """Submit a task."""

    spec: TaskSpec


class Kill(msgspec.Struct, frozen=True, tag="kill"):
    """Kill a task."""

    id: str


class Forget(msgspec.Struct, frozen=True, tag="forget"):
    """Delete the record of a task that has ended."""

    id: str


Request: TypeAlias = Submit | Kill | Forget


class QueuedRequest(NamedTuple):
    """Queued request, ordered by `number`; `rejection` is the reason why it was rejected, "" while it is pending."""

    number: int
    request: Request
    rejection: str


_UPSERT_META: Final = "INSERT INTO meta VALUES (?, ?) ON CONFLICT (name) DO UPDATE SET value = excluded.value"
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
        bodies = [(_encoder.encode(request),) for request in requests]
        with sqlite_errors(self.path), transaction(self._db):
            self._db.executemany("INSERT INTO request (body) VALUES (?)", bodies)

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
        tasks = set(ids)
        rejected = [(queued.number, queued.request) for queued in self.rejected()]
        self.done([number for number, r in rejected if (r.spec.id if isinstance(r, Submit) else r.id) in tasks])

    def read_state(self) -> SavedState:
        """Read the current records."""
        return read(self._db, self.path)

    def holder(self) -> str:
        """Return the process that runs the file, "" if none does."""
        with sqlite_errors(self.path):
            return holder(self.path, self._db)

    def set_meta(self, name: str, value: str) -> None:
        """Store a value for other processes, such as the current offer."""
        with sqlite_errors(self.path), transaction(self._db):
            self._db.execute(_UPSERT_META, (name, value))

    def get_meta(self, name: str) -> str:
        """Return the value stored under a name, "" if there is none."""
        with sqlite_errors(self.path):
            row = self._db.execute("SELECT value FROM meta WHERE name = ?", (name,)).fetchone()
        return str(row[0]) if row else ""

    def _requests(self, condition: str, values: tuple[int, ...]) -> list[QueuedRequest]:
        query = f"SELECT number, body, coalesce(refused, '') FROM request WHERE {condition}"
        with sqlite_errors(self.path), closing(self._db.execute(query, values)) as rows:
            return [QueuedRequest(number, _request(self.path, number, body), why) for number, body, why in rows]


def _request(path: Path, number: int, body: bytes) -> Request:
    try:
        return _decoder.decode(body)
    except (msgspec.DecodeError, UnicodeDecodeError) as problem:
        raise StateProblem(f"{path}: request {number} cannot be read: {problem}") from None
