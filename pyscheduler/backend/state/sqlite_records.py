"""Rows of a SQLite state file: each has a checksum, so that a changed byte is noticed when the row is read.

Phase and queue are columns too, so that a command reads the tasks that it needs and not all.
"""

from __future__ import annotations

import sqlite3
import zlib
from collections.abc import Iterable, Iterator, Sequence
from contextlib import closing
from pathlib import Path
from typing import Final, NamedTuple

import msgspec

from pyscheduler.backend.state import SavedState, StateIdentity, StateProblem
from pyscheduler.backend.state.sqlite_errors import damaged, sqlite_errors, transaction
from pyscheduler.backend.task import TaskRecord

RESOURCE_VERSION: Final = "place"
IDENTITY: Final = "identity"
_UPSERT_META: Final = """INSERT INTO meta (name, value, checksum) VALUES (?, ?, ?) ON CONFLICT (name) DO
UPDATE SET value = excluded.value, checksum = excluded.checksum"""
UPSERT_TASK: Final = """INSERT INTO task (id, record, phase, queue, checksum) VALUES (?, ?, ?, ?, ?) ON CONFLICT (id) DO
UPDATE SET record = excluded.record, phase = excluded.phase, queue = excluded.queue, checksum = excluded.checksum"""
_IDS_PER_QUERY: Final = 500
_encoder: Final = msgspec.json.Encoder()
_decoder: Final = msgspec.json.Decoder(TaskRecord)


class RecordRow(NamedTuple):
    """Row of the table `task`."""

    id: str
    record: bytes
    phase: str
    queue: str
    checksum: int


def checksum(*fields: str | bytes) -> int:
    """Return the CRC-32 of the fields of a row."""
    return zlib.crc32(b"\0".join(field.encode() if isinstance(field, str) else field for field in fields))


def row_of(record: TaskRecord) -> RecordRow:
    """Return the row of a record."""
    fields = (record.id, _encoder.encode(record), str(record.phase), record.spec.queue)
    return RecordRow(*fields, checksum(*fields))


def read_records(
    db: sqlite3.Connection, path: Path, condition: str = "1", values: Sequence[str | int] = ()
) -> Iterator[TaskRecord]:
    """Yield the records that match a condition. StateProblem names the task of a damaged or unreadable one."""
    columns = ", ".join(RecordRow._fields)
    with sqlite_errors(path), closing(db.execute(f"SELECT {columns} FROM task WHERE {condition}", values)) as rows:
        for values_of_row in rows:
            yield _record(path, RecordRow(*values_of_row))


def read_by_id(db: sqlite3.Connection, path: Path, ids: Iterable[str]) -> Iterator[TaskRecord]:
    """Yield the records of these tasks, as far as they exist, in no particular order."""
    remaining = list(ids)
    while remaining:
        some, remaining = remaining[:_IDS_PER_QUERY], remaining[_IDS_PER_QUERY:]
        yield from read_records(db, path, f"id IN ({', '.join('?' * len(some))})", some)


def read_state(db: sqlite3.Connection, path: Path) -> SavedState:
    """Read all records, the resourceVersion and the identity."""
    with sqlite_errors(path), transaction(db):  # a consistent read of both tables
        records = {record.id: record for record in read_records(db, path, "1 ORDER BY rowid")}
        resource_version, identity = get_meta(db, path, RESOURCE_VERSION), read_identity(db, path)
    return SavedState(records, resource_version, identity)


def read_identity(db: sqlite3.Connection, path: Path) -> StateIdentity | None:
    """Return the identity of the backend that the file belongs to, None before its first use. StateProblem."""
    text = get_meta(db, path, IDENTITY)
    try:
        return msgspec.json.decode(text, type=StateIdentity) if text else None
    except msgspec.DecodeError as problem:
        raise damaged(path, f"its identity cannot be read: {problem}") from None


def get_meta(db: sqlite3.Connection, path: Path, name: str) -> str | None:
    """Return the value stored under a name, None if there is none. StateProblem if it is damaged."""
    with sqlite_errors(path), closing(db.execute("SELECT value, checksum FROM meta WHERE name = ?", (name,))) as rows:
        row = rows.fetchone()
    if row is None:
        return None
    if checksum(name, row[0]) != row[1]:
        raise damaged(path, f"the value of {name!r} has another checksum")
    return str(row[0])


def set_meta(db: sqlite3.Connection, name: str, value: str) -> None:
    """Store a value under a name."""
    db.execute(_UPSERT_META, (name, value, checksum(name, value)))


def encode_identity(identity: StateIdentity) -> str:
    """Return the identity as stored."""
    return _encoder.encode(identity).decode()


def _record(path: Path, row: RecordRow) -> TaskRecord:
    try:
        is_intact = checksum(*row[:-1]) == row.checksum
    except (TypeError, AttributeError, UnicodeEncodeError):
        is_intact = False
    if not is_intact:
        raise damaged(path, f"the record of task {row.id!r} has another checksum")
    try:
        return _decoder.decode(row.record)
    except (msgspec.DecodeError, UnicodeDecodeError) as problem:
        raise StateProblem(f"{path}: the record of task {row.id!r} cannot be read: {problem}") from None
