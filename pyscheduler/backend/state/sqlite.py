"""State in one SQLite file on a local disk: the default.

A commit is one transaction, on disk before `commit` returns. The process that runs the file locks it
(`sqlite_lock.py`). Other processes may read the records and queue requests (`request_queue.py`), but never write
records.
"""

from __future__ import annotations

import asyncio
import os
import socket
import sqlite3
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import TypeVar

import msgspec

from pyscheduler.backend.state import SavedState, StateIdentity, StateInUse, StateLost, StateProblem
from pyscheduler.backend.state.sqlite_errors import sqlite_errors, transaction
from pyscheduler.backend.state.sqlite_file import check, open_state_file
from pyscheduler.backend.state.sqlite_lock import HOLDER, acquire_lock, lock_path, place_of
from pyscheduler.backend.state.sqlite_records import (
    IDENTITY,
    RESOURCE_VERSION,
    UPSERT_TASK,
    encode_identity,
    read_state,
    row_of,
    set_meta,
)
from pyscheduler.backend.task import TaskRecord

T = TypeVar("T")


class SqliteState:
    """StateStore in a file. A single thread makes all SQLite calls, one after another."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self._thread: ThreadPoolExecutor | None = None
        self._db: sqlite3.Connection | None = None
        self._lock_db: sqlite3.Connection | None = None
        self._files: dict[Path, tuple[int, int]] = {}
        """Device and inode of the opened files."""

    def __str__(self) -> str:
        return str(self.path)

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

    async def bind(self, identity: StateIdentity) -> None:
        """Write the identity. StateProblem."""
        await self._call(lambda: self._set_meta(IDENTITY, encode_identity(identity)))

    async def check(self) -> None:
        """Raise StateLost if the file was removed or replaced: SQLite would go on writing the removed one."""
        await self._call(self._check_files)

    async def commit(
        self, changed: Sequence[TaskRecord], resource_version: str | None = None, forgotten: Sequence[str] = ()
    ) -> None:
        """Write all changes in one transaction. StateProblem. After cancellation they may be durable or not."""
        records = list(changed)
        await self._call(lambda: self._commit(records, resource_version, [(id,) for id in forgotten]))

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
        self._lock_db = acquire_lock(self.path, self._db)
        self._set_meta(HOLDER, f"process {os.getpid()} on {socket.gethostname()}")
        check(self._db, self.path)
        saved = msgspec.structs.replace(read_state(self._db, self.path), place=place_of(self.path))
        wal = self.path.with_name(f"{self.path.name}-wal")
        self._files = {path: _inode(path) for path in (self.path, lock_path(self.path), wal)}
        return saved

    def _set_meta(self, name: str, value: str) -> None:
        assert self._db is not None
        with sqlite_errors(self.path):
            set_meta(self._db, name, value)

    def _check_files(self) -> None:
        for path, inode in self._files.items():
            if _inode(path) != inode:
                raise StateLost(
                    f"{path} was removed or replaced while this process used it, so nothing more can be stored: "
                    "restore a backup and start again"
                )

    def _commit(self, records: list[TaskRecord], resource_version: str | None, forgotten: list[tuple[str]]) -> None:
        assert self._db is not None
        self._check_files()
        with sqlite_errors(self.path), transaction(self._db):
            self._db.executemany(UPSERT_TASK, map(row_of, records))
            self._db.executemany("DELETE FROM task WHERE id = ?", forgotten)
            if resource_version is not None:
                set_meta(self._db, RESOURCE_VERSION, resource_version)

    def _close(self) -> None:
        for connection in (self._db, self._lock_db):
            if connection is not None:
                connection.close()
        self._db = self._lock_db = None


def _inode(path: Path) -> tuple[int, int]:
    """Return device and inode of a file, zeros if it does not exist."""
    try:
        status = path.stat()
    except OSError:
        return 0, 0
    return status.st_dev, status.st_ino
