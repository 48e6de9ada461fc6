"""State in a SQLite file: damaged and foreign files, locking, and crashes during commits."""

from __future__ import annotations

import asyncio
import os
import signal
import sqlite3
import subprocess
import sys
from contextlib import closing
from pathlib import Path

import pytest

from pyscheduler.backend.state import StateInUse, StateProblem
from pyscheduler.backend.state.sqlite import SqliteState
from pyscheduler.backend.state.sqlite_file import APPLICATION
from tests.tasks.records import full_record, record

ROOT = Path(__file__).parents[3]


async def create_state_file(path: Path, count: int = 500) -> None:
    """Create a state file with records."""
    store = SqliteState(path)
    await store.open()
    await store.commit([full_record(f"t-{i}") for i in range(count)], resource_version="1")
    await store.close()


async def open_error(path: Path) -> str:
    """Return the error of opening the file; it must be one line."""
    with pytest.raises(StateProblem) as raised:
        await SqliteState(path).open()
    assert "\n" not in str(raised.value)
    return str(raised.value)


async def test_file_that_is_no_database_is_rejected_and_unchanged(tmp_path: Path) -> None:
    file = tmp_path / "notes.txt"
    file.write_text("not a database\n" * 100)
    assert await open_error(file) == f"{file} is not a state file: use another file"
    assert file.read_text() == "not a database\n" * 100


async def test_database_of_another_program_is_rejected_and_unchanged(tmp_path: Path) -> None:
    file = tmp_path / "other.db"
    with closing(sqlite3.connect(file)) as db:
        db.execute("CREATE TABLE bookmarks (url TEXT)")
    before = file.read_bytes()
    assert await open_error(file) == f"{file} is a database of another program: use another file"
    assert file.read_bytes() == before


async def test_file_of_a_newer_release_is_rejected(tmp_path: Path) -> None:
    file = tmp_path / "tasks.db"
    await create_state_file(file)
    with closing(sqlite3.connect(file)) as db:
        db.execute("PRAGMA user_version = 99")
    assert "has schema 99, but this release of pyscheduler supports schema 1" in await open_error(file)


async def test_damaged_file_is_rejected_with_advice(tmp_path: Path) -> None:
    file = tmp_path / "tasks.db"
    await create_state_file(file)
    content = bytearray(file.read_bytes())
    content[3 * 4096 : -4096] = bytes(len(content) - 4 * 4096)
    file.write_bytes(content)
    message = await open_error(file)
    assert message.startswith(f"{file} is damaged (")
    assert "restore a backup" in message


async def test_truncated_file_is_rejected_as_damaged(tmp_path: Path) -> None:
    file = tmp_path / "tasks.db"
    await create_state_file(file)
    os.truncate(file, file.stat().st_size // 2)
    assert f"{file} is damaged" in await open_error(file)


async def test_error_names_the_record_that_cannot_be_decoded(tmp_path: Path) -> None:
    file = tmp_path / "tasks.db"
    await create_state_file(file, 2)
    with closing(sqlite3.connect(file)) as db, db:
        db.execute("UPDATE task SET record = '{\"spec\": 1}' WHERE id = 't-1'")
    assert "the record of task 't-1' cannot be read: Expected `object`, got `int` - at `$.spec`" in await open_error(
        file
    )


async def test_error_names_a_missing_directory(tmp_path: Path) -> None:
    file = tmp_path / "nowhere" / "tasks.db"
    assert await open_error(file) == f"{file} cannot be opened: check that its directory exists and is writable"


async def test_empty_file_becomes_a_state_file(tmp_path: Path) -> None:
    file = tmp_path / "tasks.db"
    file.touch()
    await create_state_file(file, 1)
    with closing(sqlite3.connect(file)) as db:
        assert db.execute("PRAGMA application_id").fetchone() == (APPLICATION,)


async def test_store_opens_after_the_other_store_has_closed(tmp_path: Path) -> None:
    file = tmp_path / "tasks.db"
    first, second = SqliteState(file), SqliteState(file)
    await first.open()
    with pytest.raises(StateInUse, match=rf"in use by process {os.getpid()} on "):
        await second.open()
    await first.close()
    await second.open()
    await second.close()


async def test_file_is_locked_for_other_processes_until_the_holder_dies(tmp_path: Path) -> None:
    file = tmp_path / "tasks.db"
    writer = start_writer(file)
    assert writer.stdout is not None
    writer.stdout.readline()
    try:
        with pytest.raises(StateInUse, match=rf"in use by process {writer.pid} on "):
            await SqliteState(file).open()
    finally:
        writer.kill()
        writer.communicate()
    store = SqliteState(file)  # the kernel has released the lock
    await store.open()
    await store.close()


async def test_commit_to_a_closed_store_raises(tmp_path: Path) -> None:
    with pytest.raises(StateProblem, match="is not open"):
        await SqliteState(tmp_path / "tasks.db").commit([record("a")])


async def test_event_loop_is_not_blocked_by_a_commit(tmp_path: Path) -> None:
    store, ticks = SqliteState(tmp_path / "tasks.db"), 0
    await store.open()
    commit = asyncio.create_task(store.commit([full_record(f"t-{i}") for i in range(2_000)]))
    while not commit.done():
        await asyncio.sleep(0)
        ticks += 1
    await store.close()
    assert ticks > 3


WRITER = """
import asyncio, sys
from pathlib import Path
from pyscheduler.backend.state.sqlite import SqliteState
from tests.tasks.records import record

async def main():
    store = SqliteState(Path(sys.argv[1]))
    saved = await store.open()
    number = int(saved.resource_version or 0)
    while True:
        number += 1
        await store.commit([record(f"t-{i}", version=number) for i in range(20)], resource_version=str(number))
        print(number, flush=True)

asyncio.run(main())
"""


def start_writer(file: Path) -> subprocess.Popen[bytes]:
    """Start a process that commits 20 records repeatedly and prints the number of each finished commit."""
    return subprocess.Popen([sys.executable, "-c", WRITER, str(file)], cwd=ROOT, stdout=subprocess.PIPE)


@pytest.mark.parametrize("commits", [1, 7, 40, 111, 250])
async def test_finished_commits_survive_sigkill(tmp_path: Path, commits: int) -> None:
    file = tmp_path / "tasks.db"
    for _ in range(2):  # the second writer continues with the file of the first
        writer = start_writer(file)
        assert writer.stdout is not None
        for _ in range(commits):
            last = int(writer.stdout.readline())
        writer.send_signal(signal.SIGKILL)
        rest, _ = writer.communicate()
        last = max([last, *map(int, rest.rpartition(b"\n")[0].splitlines())])
        store = SqliteState(file)
        saved = await store.open()
        await store.close()
        resource_version = int(saved.resource_version or 0)
        assert resource_version in (last, last + 1)  # the interrupted commit is durable as a whole or not at all
        assert {r.version for r in saved.records.values()} == {resource_version}
        assert len(saved.records) == 20
