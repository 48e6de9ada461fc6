"""What goes wrong with files, and what whoever looks is told; a process that is killed while it commits."""

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


async def made(path: Path, count: int = 500) -> None:
    """A state file with records in it."""
    store = SqliteState(path)
    await store.open()
    await store.commit([full_record(f"t-{i}") for i in range(count)], resource_version="1")
    await store.close()


async def refusal(path: Path) -> str:
    """Why it cannot be opened, in one line."""
    with pytest.raises(StateProblem) as refused:
        await SqliteState(path).open()
    assert "\n" not in str(refused.value)
    return str(refused.value)


async def test_a_file_of_something_else_is_refused_and_left_alone(tmp_path: Path) -> None:
    file = tmp_path / "notes.txt"
    file.write_text("not a database\n" * 100)
    assert await refusal(file) == f"{file} is not a state file: name another one"
    assert file.read_text() == "not a database\n" * 100


async def test_a_database_of_another_program_is_refused_and_left_alone(tmp_path: Path) -> None:
    file = tmp_path / "other.db"
    with closing(sqlite3.connect(file)) as db:
        db.execute("CREATE TABLE bookmarks (url TEXT)")
    before = file.read_bytes()
    assert await refusal(file) == f"{file} is a database of another program: name another file"
    assert file.read_bytes() == before


async def test_a_file_of_a_newer_release_is_refused(tmp_path: Path) -> None:
    file = tmp_path / "tasks.db"
    await made(file)
    with closing(sqlite3.connect(file)) as db:
        db.execute("PRAGMA user_version = 99")
    assert "has schema 99, and this release of pyscheduler knows schema 1" in await refusal(file)


async def test_a_damaged_file_is_told_as_such(tmp_path: Path) -> None:
    file = tmp_path / "tasks.db"
    await made(file)
    content = bytearray(file.read_bytes())
    content[3 * 4096 : -4096] = bytes(len(content) - 4 * 4096)
    file.write_bytes(content)
    said = await refusal(file)
    assert said.startswith(f"{file} is damaged (")
    assert "put it back from a copy" in said


async def test_a_file_that_was_cut_off_is_told_as_damaged(tmp_path: Path) -> None:
    file = tmp_path / "tasks.db"
    await made(file)
    os.truncate(file, file.stat().st_size // 2)
    assert f"{file} is damaged" in await refusal(file)


async def test_a_record_that_makes_no_sense_is_named(tmp_path: Path) -> None:
    file = tmp_path / "tasks.db"
    await made(file, 2)
    with closing(sqlite3.connect(file)) as db, db:
        db.execute("UPDATE task SET record = '{\"spec\": 1}' WHERE id = 't-1'")
    assert "the record of task 't-1' cannot be read: Expected `object`, got `int` - at `$.spec`" in await refusal(file)


async def test_a_folder_that_is_not_there_is_told(tmp_path: Path) -> None:
    file = tmp_path / "nowhere" / "tasks.db"
    assert await refusal(file) == f"{file} cannot be opened: is its folder there, and may this process write to it?"


async def test_an_empty_file_is_as_good_as_none(tmp_path: Path) -> None:
    file = tmp_path / "tasks.db"
    file.touch()
    await made(file, 1)
    with closing(sqlite3.connect(file)) as db:
        assert db.execute("PRAGMA application_id").fetchone() == (APPLICATION,)


async def test_what_was_refused_to_open_can_be_opened_later(tmp_path: Path) -> None:
    file = tmp_path / "tasks.db"
    first, second = SqliteState(file), SqliteState(file)
    await first.open()
    with pytest.raises(StateInUse, match=rf"in use by process {os.getpid()} on "):
        await second.open()
    await first.close()
    await second.open()
    await second.close()


async def test_another_process_is_kept_out(tmp_path: Path) -> None:
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
    store = SqliteState(file)  # the dead hold nothing
    await store.open()
    await store.close()


async def test_a_commit_to_a_store_that_is_not_open_is_a_problem(tmp_path: Path) -> None:
    with pytest.raises(StateProblem, match="is not open"):
        await SqliteState(tmp_path / "tasks.db").commit([record("a")])


async def test_the_loop_goes_on_while_a_commit_is_written(tmp_path: Path) -> None:
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
    """A process that commits 20 records over and over, and says the number of each commit once it has returned."""
    return subprocess.Popen([sys.executable, "-c", WRITER, str(file)], cwd=ROOT, stdout=subprocess.PIPE)


@pytest.mark.parametrize("told", [1, 7, 40, 111, 250])
async def test_killed_in_the_middle_of_commits(tmp_path: Path, told: int) -> None:
    file = tmp_path / "tasks.db"
    for _ in range(2):  # the second time from what the first one left
        writer = start_writer(file)
        assert writer.stdout is not None
        for _ in range(told):
            last = int(writer.stdout.readline())
        writer.send_signal(signal.SIGKILL)
        rest, _ = writer.communicate()
        last = max([last, *map(int, rest.rpartition(b"\n")[0].splitlines())])
        store = SqliteState(file)
        saved = await store.open()
        await store.close()
        place = int(saved.resource_version or 0)
        assert place in (last, last + 1)  # what it was told is kept; of the one under way all or nothing
        assert {r.version for r in saved.records.values()} == {place}
        assert len(saved.records) == 20
