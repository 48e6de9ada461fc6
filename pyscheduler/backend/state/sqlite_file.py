"""The file that SQLite keeps the state in: how it is opened, how it is told from others, and what goes wrong with it.

A state file carries our application id and the version of its schema in its header (`PRAGMA application_id` and
`user_version`), so that neither somebody else's database nor one of a newer release is ever written to.
"""

from __future__ import annotations

import sqlite3
from collections.abc import Iterator
from contextlib import closing, contextmanager
from pathlib import Path
from typing import Final

from pyscheduler.backend.state import StateProblem

APPLICATION: Final = 0x70795374
"""`pySt`: what `file` and SQLite show of a state file."""
SCHEMA: Final = 1
BUSY_SECONDS: Final = 10.0
"""How long one process waits for another's transaction; each takes milliseconds."""
_TABLES: Final = """
CREATE TABLE task (id TEXT PRIMARY KEY, record BLOB NOT NULL);
CREATE TABLE meta (name TEXT PRIMARY KEY, value TEXT NOT NULL);
CREATE TABLE request (number INTEGER PRIMARY KEY AUTOINCREMENT, body BLOB NOT NULL, refused TEXT);
"""


def open_state_file(path: Path, create: bool = False) -> sqlite3.Connection:
    """A connection to a state file, which is made where there is none if `create`.

    The connection may be used from another thread than this, by one thread at a time, and is in autocommit mode.
    StateProblem where the file is not there, cannot be opened, is not ours, is newer than this release, or is damaged.
    """
    if not create and not path.exists():
        raise StateProblem(f"{path} is not there: `pyscheduler tasks submit` and `tasks run` make a state file")
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
    """What SQLite has to say against a file, as one sentence that names it."""
    try:
        yield
    except sqlite3.Error as problem:
        raise StateProblem(_sentence(path, problem)) from problem


@contextmanager
def transaction(db: sqlite3.Connection) -> Iterator[None]:
    """All that is written in the block is kept, or none of it."""
    db.execute("BEGIN IMMEDIATE")
    try:
        yield
        db.execute("COMMIT")
    except BaseException:
        if db.in_transaction:  # SQLite has ended it by itself where the disk was full
            db.execute("ROLLBACK")
        raise


def check(db: sqlite3.Connection, path: Path) -> None:
    """Look at every page of the file. StateProblem if one is damaged."""
    with sqlite_errors(path), closing(db.execute("PRAGMA quick_check(1)")) as found:
        (said,) = found.fetchone()
    if said != "ok":
        raise StateProblem(_damaged(path, said))


def _prepare(db: sqlite3.Connection, path: Path) -> None:
    """Make the tables of a new file; look whose an old one is."""
    if not _is_ours(db, path):
        with transaction(db):
            if not _is_ours(db, path):  # nobody else has made it meanwhile
                _make(db)
    # A commit is on the disk before its caller goes on: work that was done must not be forgotten by a power cut either.
    db.execute("PRAGMA journal_mode = WAL")
    db.execute("PRAGMA synchronous = FULL")


def _is_ours(db: sqlite3.Connection, path: Path) -> bool:
    """Whether it is a state file; False if it is empty. StateProblem if it is anything else."""
    (application,), (schema,) = (db.execute(f"PRAGMA {name}").fetchone() for name in ("application_id", "user_version"))
    if application == APPLICATION:
        if schema != SCHEMA:
            raise StateProblem(
                f"{path} has schema {schema}, and this release of pyscheduler knows schema {SCHEMA}: "
                "use the release that wrote it, or another file"
            )
        return True
    if application or db.execute("SELECT count(*) FROM sqlite_schema").fetchone()[0]:
        raise StateProblem(f"{path} is a database of another program: name another file")
    return False


def _make(db: sqlite3.Connection) -> None:
    for statement in _TABLES.strip().split(";\n"):
        db.execute(statement)
    db.execute(f"PRAGMA application_id = {APPLICATION}")
    db.execute(f"PRAGMA user_version = {SCHEMA}")


def _sentence(path: Path, problem: sqlite3.Error) -> str:
    name = getattr(problem, "sqlite_errorname", "")
    if name == "SQLITE_NOTADB":
        return f"{path} is not a state file: name another one"
    if name.startswith("SQLITE_CORRUPT"):
        return _damaged(path, str(problem))
    if name.startswith("SQLITE_CANTOPEN"):
        return f"{path} cannot be opened: is its folder there, and may this process write to it?"
    if name.startswith("SQLITE_READONLY"):
        return f"{path} cannot be written: this process may only read it"
    if name.startswith("SQLITE_BUSY"):
        return f"{path} has been locked by another process for {BUSY_SECONDS:g} s"
    return f"{path}: {problem}"


def _damaged(path: Path, what: str) -> str:
    return (
        f"{path} is damaged ({what}): put it back from a copy, or start with a new file; "
        "pods that are still there are then reported, not run again"
    )
