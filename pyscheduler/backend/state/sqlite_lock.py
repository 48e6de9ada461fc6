"""Lock of a state file: the process that runs the file has an exclusive transaction on `FILE-hold`, a second database.

The kernel releases it however the process dies.
"""

from __future__ import annotations

import socket
import sqlite3
from contextlib import closing
from pathlib import Path
from typing import Final

from pyscheduler.backend.state import StateInUse
from pyscheduler.backend.state.sqlite_errors import sqlite_errors

HOLDER: Final = "holder"
"""Name of the meta value that describes the process."""
_LOCK_TIMEOUT: Final = 1.0
"""Seconds to wait for the lock; longer than another process needs to check if the file is locked."""


def acquire_lock(path: Path, db: sqlite3.Connection) -> sqlite3.Connection:
    """Return a connection that locks the file while it is open. StateInUse if another process has the lock."""
    with sqlite_errors(lock_path(path)):
        lock_db = sqlite3.connect(lock_path(path), timeout=_LOCK_TIMEOUT, isolation_level=None, check_same_thread=False)
        try:
            lock_db.execute("BEGIN EXCLUSIVE")
        except sqlite3.Error as problem:
            lock_db.close()
            if _is_busy(problem):
                raise StateInUse(f"{path} is in use by {_last_holder(db)}: only one process can run it") from None
            raise
        return lock_db


def holder(path: Path, db: sqlite3.Connection) -> str:
    """Return the process that has the file locked now, "" if none does."""
    if not lock_path(path).exists():
        return ""
    with closing(sqlite3.connect(lock_path(path), timeout=0)) as lock_db:
        try:
            lock_db.execute("SELECT count(*) FROM sqlite_schema").fetchone()
        except sqlite3.OperationalError as problem:
            if not _is_busy(problem):
                raise
            return _last_holder(db)
    return ""


def lock_path(path: Path) -> Path:
    """Return the path of the lock database."""
    return path.with_name(f"{path.name}-hold")


def place_of(path: Path) -> str:
    """Return machine and inode of a state file: the lock excludes other processes on these, and on no copy."""
    status = path.stat()
    try:
        machine = Path("/proc/sys/kernel/random/boot_id").read_text().strip()
    except OSError:
        machine = socket.gethostname()
    return f"{machine}/{status.st_dev}/{status.st_ino}"


def _is_busy(problem: sqlite3.Error) -> bool:
    return getattr(problem, "sqlite_errorname", "").startswith("SQLITE_BUSY")


def _last_holder(db: sqlite3.Connection) -> str:
    row = db.execute("SELECT value FROM meta WHERE name = ?", (HOLDER,)).fetchone()
    return row[0] if row else "another process"
