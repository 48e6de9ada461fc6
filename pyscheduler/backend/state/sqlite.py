"""State in one SQLite file on a local disk: the default.

A commit is one transaction, on disk before `commit` returns. The process that runs the file locks `FILE-hold`, a
second database; the kernel releases the lock however the process dies. Other processes may read the records and queue
requests (`request_queue.py`), but never write records.
"""

from __future__ import annotations

import asyncio
import os
import socket
import sqlite3
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing
from pathlib import Path
from typing import Final, TypeVar

import msgspec

from pyscheduler.backend.state import SavedState, StateInUse, StateProblem
from pyscheduler.backend.state.sqlite_file import check, open_state_file, sqlite_errors, transaction
from pyscheduler.backend.task import TaskRecord

T = TypeVar("T")
_RESOURCE_VERSION: Final = "place"
_HOLDER: Final = "holder"
_LOCK_TIMEOUT: Final = 1.0
"""Seconds to wait for the lock; longer than another process needs to check if the file is locked."""
_UPSERT_TASK: Final = "INSERT INTO task VALUES (?, ?) ON CONFLICT (id) DO UPDATE SET record = excluded.record"
_UPSERT_META: Final = "INSERT INTO meta VALUES (?, ?) ON CONFLICT (name) DO UPDATE SET value = excluded.value"
_encoder: Final = msgspec.json.Encoder()
_decoder: Final = msgspec.json.Decoder(TaskRecord)


class SqliteState:
    """StateStore in a file. A single thread makes all SQLite calls, one after another."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self._thread: ThreadPoolExecutor | None = None
        self._db: sqlite3.Connection | None = None
        self._lock_db: sqlite3.Connection | None = None

    async def open(self) -> SavedState:
        """Lock the file for this process and read it. StateInUse, StateProblem."""
        if self._thread is not None:
            raise StateInUse(f"{self.path} is already open in this process; close it first")
        self._thread = ThreadPoolExecutor(1, thread_name_prefix="state")
        try:
            return await self._call(self._open)
        except BaseException:
            await self.close()
            raise

    async def commit(
        self, changed: Sequence[TaskRecord], resource_version: str | None = None, forgotten: Sequence[str] = ()
    ) -> None:
        """Write all changes in one transaction. StateProblem. After cancellation they may be durable or not."""
        rows = [(record.id, record) for record in changed]
        await self._call(lambda: self._commit(rows, resource_version, [(id,) for id in forgotten]))

    async def close(self) -> None:
        """Close and unlock the file."""
        if self._thread is not None:
            await self._call(self._close)
            self._thread.shutdown(wait=False)
            self._thread = None

    async def _call(self, work: Callable[[], T]) -> T:
        if self._thread is None:
            raise StateProblem(f"{self.path} is not open")
        return await asyncio.get_running_loop().run_in_executor(self._thread, work)

    def _open(self) -> SavedState:
        self._db = open_state_file(self.path, create=True)
        self._lock_db = _acquire_lock(self.path, self._db)
        with sqlite_errors(self.path):
            self._db.execute(_UPSERT_META, (_HOLDER, f"process {os.getpid()} on {socket.gethostname()}"))
        check(self._db, self.path)
        return read(self._db, self.path)

    def _commit(
        self, rows: list[tuple[str, TaskRecord]], resource_version: str | None, forgotten: list[tuple[str]]
    ) -> None:
        assert self._db is not None
        with sqlite_errors(self.path), transaction(self._db):
            self._db.executemany(_UPSERT_TASK, ((id, _encoder.encode(record)) for id, record in rows))
            self._db.executemany("DELETE FROM task WHERE id = ?", forgotten)
            if resource_version is not None:
                self._db.execute(_UPSERT_META, (_RESOURCE_VERSION, resource_version))

    def _close(self) -> None:
        for connection in (self._db, self._lock_db):
            if connection is not None:
                connection.close()
        self._db = self._lock_db = None


def read(db: sqlite3.Connection, path: Path) -> SavedState:
    """Read a state file. StateProblem names the task if a record cannot be decoded."""
    with sqlite_errors(path), transaction(db):  # a consistent read of both tables
        rows = db.execute("SELECT id, record FROM task ORDER BY rowid").fetchall()
        resource_version = db.execute("SELECT value FROM meta WHERE name = ?", (_RESOURCE_VERSION,)).fetchone()
    return SavedState(
        {id: _record(path, id, text) for id, text in rows}, resource_version[0] if resource_version else None
    )


def holder(path: Path, db: sqlite3.Connection) -> str:
    """Return the process that has the file locked now, "" if none does."""
    lock_path = _lock_path(path)
    if not lock_path.exists():
        return ""
    with closing(sqlite3.connect(lock_path, timeout=0)) as lock_db:
        try:
            lock_db.execute("SELECT count(*) FROM sqlite_schema").fetchone()
        except sqlite3.OperationalError as problem:
            if not _is_busy(problem):
                raise
            return _last_holder(db)
    return ""


def _acquire_lock(path: Path, db: sqlite3.Connection) -> sqlite3.Connection:
    """Return a connection that locks the file while it is open. StateInUse if another process has the lock."""
    lock_path = _lock_path(path)
    with sqlite_errors(lock_path):
        lock_db = sqlite3.connect(lock_path, timeout=_LOCK_TIMEOUT, isolation_level=None, check_same_thread=False)
        try:
            lock_db.execute("BEGIN EXCLUSIVE")
        except sqlite3.Error as problem:
            lock_db.close()
            if _is_busy(problem):
                raise StateInUse(f"{path} is in use by {_last_holder(db)}: only one process can run it") from None
            raise
        return lock_db


def _lock_path(path: Path) -> Path:
    return path.with_name(f"{path.name}-hold")


def _is_busy(problem: sqlite3.Error) -> bool:
    return getattr(problem, "sqlite_errorname", "").startswith("SQLITE_BUSY")


def _last_holder(db: sqlite3.Connection) -> str:
    row = db.execute("SELECT value FROM meta WHERE name = ?", (_HOLDER,)).fetchone()
    return row[0] if row else "another process"


def _record(path: Path, id: str, text: bytes) -> TaskRecord:
    try:
        return _decoder.decode(text)
    except (msgspec.DecodeError, UnicodeDecodeError) as problem:
        raise StateProblem(f"{path}: the record of task {id!r} cannot be read: {problem}") from None
