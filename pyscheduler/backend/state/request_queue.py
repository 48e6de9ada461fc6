"""How other processes talk to the one that works a state file: they leave requests in it, and it takes them out.

A request stays until it has been carried out, so that a crash in between costs nothing: to submit a task of the same id
again, or to kill one twice, changes nothing. Nobody needs to be at work while requests are left.
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
    """Run this task."""

    spec: TaskSpec


class Kill(msgspec.Struct, frozen=True, tag="kill"):
    """End this task, whatever it does."""

    id: str


class Forget(msgspec.Struct, frozen=True, tag="forget"):
    """Drop the record of this task, which has ended."""

    id: str


Request: TypeAlias = Submit | Kill | Forget


class QueuedRequest(NamedTuple):
    """A request in the inbox. Lower numbers came first; `refused` says why it will not be done, "" while it may."""

    number: int
    request: Request
    rejection: str


_UPSERT_META: Final = "INSERT INTO meta VALUES (?, ?) ON CONFLICT (name) DO UPDATE SET value = excluded.value"
_encoder: Final = msgspec.json.Encoder()
_decoder: Final[msgspec.json.Decoder[Request]] = msgspec.json.Decoder(Request)


class RequestQueue:
    """The requests of one state file, and a look at its records without working it. Use it in a `with` block."""

    def __init__(self, path: Path, create: bool = False) -> None:
        """`create` makes the file if it is not there. StateProblem if it cannot be used."""
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
        """Leave all of these, or none."""
        bodies = [(_encoder.encode(request),) for request in requests]
        with sqlite_errors(self.path), transaction(self._db):
            self._db.executemany("INSERT INTO request (body) VALUES (?)", bodies)

    def changed(self) -> bool:
        """Whether another connection has written to the file since this was last asked; at first it has."""
        with sqlite_errors(self.path):
            (version,) = self._db.execute("PRAGMA data_version").fetchone()
        seen, self._seen = self._seen, version
        return bool(version != seen)

    def pending(self, after: int = 0, limit: int = -1) -> list[QueuedRequest]:
        """The requests that are to be carried out, in order: those that came after a number, `limit` at most."""
        return self._requests("refused IS NULL AND number > ? ORDER BY number LIMIT ?", (after, limit))

    def rejected(self) -> list[QueuedRequest]:
        """The requests that could not be carried out."""
        return self._requests("refused IS NOT NULL ORDER BY number", ())

    def done(self, numbers: Sequence[int]) -> None:
        """These have been carried out, or nobody wants to hear of them any more."""
        with sqlite_errors(self.path), transaction(self._db):
            self._db.executemany("DELETE FROM request WHERE number = ?", [(number,) for number in numbers])

    def reject(self, numbers: Sequence[int], why: str) -> None:
        """These cannot be carried out; whoever looks is told why."""
        with sqlite_errors(self.path), transaction(self._db):
            self._db.executemany("UPDATE request SET refused = ? WHERE number = ?", [(why, n) for n in numbers])

    def withdraw(self, ids: Iterable[str]) -> None:
        """Drop what was refused of these tasks."""
        doomed = set(ids)
        refused = [(w.number, w.request) for w in self.rejected()]
        self.done([number for number, r in refused if (r.spec.id if isinstance(r, Submit) else r.id) in doomed])

    def read_state(self) -> SavedState:
        """The records as they are now, whoever works them."""
        return read(self._db, self.path)

    def holder(self) -> str:
        """Who works the file, "" for nobody."""
        with sqlite_errors(self.path):
            return holder(self.path, self._db)

    def set_meta(self, name: str, value: str) -> None:
        """Keep a word for others to read, such as what there is on offer."""
        with sqlite_errors(self.path), transaction(self._db):
            self._db.execute(_UPSERT_META, (name, value))

    def get_meta(self, name: str) -> str:
        """The word that was kept under a name, "" for none."""
        with sqlite_errors(self.path):
            found = self._db.execute("SELECT value FROM meta WHERE name = ?", (name,)).fetchone()
        return str(found[0]) if found else ""

    def _requests(self, condition: str, values: tuple[int, ...]) -> list[QueuedRequest]:
        query = f"SELECT number, body, coalesce(refused, '') FROM request WHERE {condition}"
        with sqlite_errors(self.path), closing(self._db.execute(query, values)) as rows:
            return [QueuedRequest(number, _request(self.path, number, body), why) for number, body, why in rows]


def _request(path: Path, number: int, body: bytes) -> Request:
    try:
        return _decoder.decode(body)
    except (msgspec.DecodeError, UnicodeDecodeError) as problem:
        raise StateProblem(f"{path}: request {number} cannot be read: {problem}") from None
