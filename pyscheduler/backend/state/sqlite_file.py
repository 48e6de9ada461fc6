"""SQLite state file: opening, identification and error messages.

The header of a state file has the application id and the schema version (`PRAGMA application_id` and `user_version`),
so that databases of other programs and of newer releases are never written.
"""

from __future__ import annotations

import sqlite3
from collections.abc import Iterator
from contextlib import closing, contextmanager
from pathlib import Path
from typing import Final

from pyscheduler.backend.state import StateProblem

APPLICATION: Final = 0x70795374
"""`pySt`, which `file` and SQLite show."""
SCHEMA: Final = 1
BUSY_SECONDS: Final = 10.0
"""Seconds to wait for the transaction of another process; each takes milliseconds."""
_TABLES: Final = """
CREATE TABLE task (id TEXT PRIMARY KEY, record BLOB NOT NULL);
CREATE TABLE meta (name TEXT PRIMARY KEY, value TEXT NOT NULL);
CREATE TABLE request (number INTEGER PRIMARY KEY AUTOINCREMENT, body BLOB NOT NULL, refused TEXT);
"""


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


@contextmanager
def sqlite_errors(path: Path) -> Iterator[None]:
    """Turn SQLite errors into a StateProblem that names the file."""
    try:
        yield
    except sqlite3.Error as problem:
        raise StateProblem(_sentence(path, problem)) from problem


@contextmanager
def transaction(db: sqlite3.Connection) -> Iterator[None]:
    """Run the block as one transaction."""
    db.execute("BEGIN IMMEDIATE")
    try:
        yield
        db.execute("COMMIT")
    except BaseException:
        if db.in_transaction:  # SQLite rolls back by itself if the disk is full
            db.execute("ROLLBACK")
        raise


def check(db: sqlite3.Connection, path: Path) -> None:
    """Check every page of the file. StateProblem if one is damaged."""
    with sqlite_errors(path), closing(db.execute("PRAGMA quick_check(1)")) as rows:
        (result,) = rows.fetchone()
    if result != "ok":
        raise StateProblem(_damaged(path, result))


def _prepare(db: sqlite3.Connection, path: Path) -> None:
    """Create the tables of a new file; check the header of an existing one."""
    if not _is_ours(db, path):
        with transaction(db):
            if not _is_ours(db, path):  # another process may have created it meanwhile
                _create_tables(db)
    # A commit must be on disk before it returns, so that a power failure loses no confirmed record.
    db.execute("PRAGMA journal_mode = WAL")
    db.execute("PRAGMA synchronous = FULL")


def _is_ours(db: sqlite3.Connection, path: Path) -> bool:
    """Return True for a state file, False for an empty file. StateProblem if it is anything else."""
    (application,), (schema,) = (db.execute(f"PRAGMA {name}").fetchone() for name in ("application_id", "user_version"))
    if application == APPLICATION:
        if schema != SCHEMA:
            raise StateProblem(
                f"{path} has schema {schema}, but this release of pyscheduler supports schema {SCHEMA}: "
                "use the release that wrote it, or another file"
            )
        return True
    if application or db.execute("SELECT count(*) FROM sqlite_schema").fetchone()[0]:
        raise StateProblem(f"{path} is a database of another program: use another file")
    return False


def _create_tables(db: sqlite3.Connection) -> None:
    for statement in _TABLES.strip().split(";\n"):
        db.execute(statement)
    db.execute(f"PRAGMA application_id = {APPLICATION}")
    db.execute(f"PRAGMA user_version = {SCHEMA}")


def _sentence(path: Path, problem: sqlite3.Error) -> str:
    name = getattr(problem, "sqlite_errorname", "")
    if name == "SQLITE_NOTADB":
        return f"{path} is not a state file: use another file"
    if name.startswith("SQLITE_CORRUPT"):
        return _damaged(path, str(problem))
    if name.startswith("SQLITE_CANTOPEN"):
        return f"{path} cannot be opened: check that its directory exists and is writable"
    if name.startswith("SQLITE_READONLY"):
        return f"{path} cannot be written: this process has only read permission"
    if name.startswith("SQLITE_BUSY"):
        return f"{path} has been locked by another process for {BUSY_SECONDS:g} s"
    return f"{path}: {problem}"


def _damaged(path: Path, what: str) -> str:
    return (
        f"{path} is damaged ({what}): restore a backup, or start with a new file; "
        "existing pods are then reported as orphans, and their tasks are not run again"
    )
