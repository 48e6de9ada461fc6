"""Opening of a SQLite state file: identification, schema versions and their migration.

The header of a state file has the application id and the schema version (`PRAGMA application_id` and `user_version`),
so that databases of other programs and of newer releases are never written. A file with an older schema is migrated
when it is opened, after a copy of it was written to `FILE-schema-N`. Fields of records need no migration: unknown ones
are ignored, missing ones have defaults.
"""

from __future__ import annotations

import sqlite3
from contextlib import closing
from pathlib import Path
from typing import Final

import msgspec

from pyscheduler.backend.state import StateProblem
from pyscheduler.backend.state.sqlite_errors import BUSY_SECONDS, damaged, sqlite_errors, transaction
from pyscheduler.backend.state.sqlite_lock import acquire_lock
from pyscheduler.backend.state.sqlite_records import checksum, row_of, set_meta
from pyscheduler.backend.task import TaskRecord

APPLICATION: Final = 0x70795374
"""`pySt`, which `file` and SQLite show."""
SCHEMA: Final = 2
_TABLES: Final = """
CREATE TABLE task (
    id TEXT PRIMARY KEY, record BLOB NOT NULL, phase TEXT NOT NULL, queue TEXT NOT NULL, checksum INTEGER NOT NULL
);
CREATE INDEX task_phase ON task (phase);
CREATE TABLE meta (name TEXT PRIMARY KEY, value TEXT NOT NULL, checksum INTEGER NOT NULL);
CREATE TABLE request (
    number INTEGER PRIMARY KEY AUTOINCREMENT, body BLOB NOT NULL, refused TEXT, task TEXT NOT NULL,
    checksum INTEGER NOT NULL
);
CREATE INDEX request_task ON request (task);
"""


class _OldRequest(msgspec.Struct):
    """The part of a request of schema 1 that has the task's id: `id`, or that of the spec."""

    id: str = ""
    spec: _OldSpec | None = None


class _OldSpec(msgspec.Struct):
    id: str


def open_state_file(path: Path, create: bool = False) -> sqlite3.Connection:
    """Return a connection to a state file; create the file if it does not exist and `create` is set.

    The connection is in autocommit mode and may be used from any one thread at a time. StateProblem if the file does
    not exist, cannot be opened, belongs to another program or a newer release, or is damaged.
    """
    if not create and not path.exists():
        raise StateProblem(f"{path} does not exist: create it with `pyscheduler tasks submit` or `tasks run`")
    with sqlite_errors(path):
        db = sqlite3.connect(path, timeout=BUSY_SECONDS, isolation_level=None, check_same_thread=False)
    try:
        with sqlite_errors(path):
            _prepare(db, path)
    except BaseException:
        db.close()
        raise
    return db


def check(db: sqlite3.Connection, path: Path) -> None:
    """Check every page of the file, and indexes against tables. StateProblem if something is damaged."""
    with sqlite_errors(path), closing(db.execute("PRAGMA integrity_check(1)")) as rows:
        (result,) = rows.fetchone()
    if result != "ok":
        raise damaged(path, result)


def _prepare(db: sqlite3.Connection, path: Path) -> None:
    """Create the tables of a new file; check the header of an existing one and migrate it."""
    if _schema(db, path) == 0:
        with transaction(db):
            if _schema(db, path) == 0:  # another process may have created it meanwhile
                _create_tables(db)
    if _schema(db, path) < SCHEMA:
        _migrate(db, path)
    # A commit must be on disk before it returns, so that a power failure loses no confirmed record.
    db.execute("PRAGMA journal_mode = WAL")
    db.execute("PRAGMA synchronous = FULL")


def _schema(db: sqlite3.Connection, path: Path) -> int:
    """Return the schema of a state file, 0 for an empty file. StateProblem if it is anything else."""
    (application,), (schema,) = (db.execute(f"PRAGMA {name}").fetchone() for name in ("application_id", "user_version"))
    if application == APPLICATION:
        if not 1 <= schema <= SCHEMA:
            raise StateProblem(
                f"{path} has schema {schema}, but this release of pyscheduler supports schema {SCHEMA}: "
                "use the release that wrote it, or another file"
            )
        return int(schema)
    if application or db.execute("SELECT count(*) FROM sqlite_schema").fetchone()[0]:
        raise StateProblem(f"{path} is a database of another program: use another file")
    return 0


def _create_tables(db: sqlite3.Connection) -> None:
    for statement in _TABLES.strip().split(";\n"):
        db.execute(statement)
    db.execute(f"PRAGMA application_id = {APPLICATION}")
    db.execute(f"PRAGMA user_version = {SCHEMA}")


def _migrate(db: sqlite3.Connection, path: Path) -> None:
    """Migrate a file of schema 1. StateInUse while a process of the earlier release runs it."""
    with closing(acquire_lock(path, db)):
        backup = path.with_name(f"{path.name}-schema-1")
        with sqlite_errors(backup), closing(sqlite3.connect(backup)) as copy:
            db.backup(copy)
        with transaction(db):
            if _schema(db, path) == SCHEMA:
                return  # another process was faster
            for table in ("task", "request", "meta"):
                db.execute(f"ALTER TABLE {table} RENAME TO old_{table}")
            for statement in _TABLES.strip().split(";\n"):
                db.execute(statement)
            _copy_tasks(db, path)
            _copy_requests(db, path)
            for name, value in db.execute("SELECT name, value FROM old_meta").fetchall():
                set_meta(db, name, value)
            for table in ("task", "request", "meta"):
                db.execute(f"DROP TABLE old_{table}")
            db.execute(f"PRAGMA user_version = {SCHEMA}")


def _copy_tasks(db: sqlite3.Connection, path: Path) -> None:
    for id, text in db.execute("SELECT id, record FROM old_task ORDER BY rowid").fetchall():
        try:
            row = row_of(msgspec.json.decode(text, type=TaskRecord))
        except (msgspec.DecodeError, UnicodeDecodeError) as problem:
            raise StateProblem(f"{path}: the record of task {id!r} cannot be read: {problem}") from None
        db.execute("INSERT INTO task (id, record, phase, queue, checksum) VALUES (?, ?, ?, ?, ?)", row)


def _copy_requests(db: sqlite3.Connection, path: Path) -> None:
    for number, body, refused in db.execute("SELECT number, body, refused FROM old_request").fetchall():
        try:
            request = msgspec.json.decode(body, type=_OldRequest)
        except (msgspec.DecodeError, UnicodeDecodeError) as problem:
            raise StateProblem(f"{path}: request {number} cannot be read: {problem}") from None
        task = request.spec.id if request.spec is not None else request.id
        values = (number, body, refused, task, checksum(task, body))
        db.execute("INSERT INTO request (number, body, refused, task, checksum) VALUES (?, ?, ?, ?, ?)", values)
