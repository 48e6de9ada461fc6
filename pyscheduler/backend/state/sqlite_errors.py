"""Transactions on a SQLite state file, and its errors as sentences that name the file."""

from __future__ import annotations

import sqlite3
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Final

from pyscheduler.backend.state import StateProblem

BUSY_SECONDS: Final = 10.0
"""Seconds to wait for the transaction of another process; each takes milliseconds."""


@contextmanager
def sqlite_errors(path: Path) -> Iterator[None]:
    """Turn SQLite errors into a StateProblem that names the file."""
    try:
        yield
    except sqlite3.Error as problem:
        raise StateProblem(_sentence(path, problem)) from problem
    except UnicodeDecodeError as problem:
        raise damaged(path, f"a text is not UTF-8: {problem.reason}") from problem


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


def damaged(path: Path, what: str) -> StateProblem:
    """Return the error of a file with changed bytes."""
    return StateProblem(
        f"{path} is damaged ({what}): restore a backup, or start with a new file; "
        "existing pods are then reported as orphans, and their tasks are not run again"
    )


def _sentence(path: Path, problem: sqlite3.Error) -> str:
    name = getattr(problem, "sqlite_errorname", "")
    if name == "SQLITE_NOTADB":
        return f"{path} is not a state file: use another file"
    if name.startswith("SQLITE_CORRUPT"):
        return str(damaged(path, str(problem)))
    if name.startswith("SQLITE_CANTOPEN"):
        return f"{path} cannot be opened: check that its directory exists and is writable"
    if name.startswith("SQLITE_READONLY"):
        return f"{path} cannot be written: this process has only read permission"
    if name.startswith("SQLITE_FULL"):
        return f"{path} cannot be written: its disk is full"
    if name.startswith("SQLITE_IOERR"):
        return f"{path} cannot be read or written ({name}): check its disk"
    if name.startswith("SQLITE_BUSY"):
        return f"{path} has been locked by another process for {BUSY_SECONDS:g} s"
    return f"{path}: {problem}"
