"""State in a SQLite file: damaged and foreign files, locking, and crashes during commits."""

from __future__ import annotations

import asyncio
import os
import random
import signal
import sqlite3
import subprocess
import sys
from contextlib import closing
from pathlib import Path

import msgspec
import pytest

from pyscheduler.backend.state import SavedState, StateInUse, StateLost, StateProblem
from pyscheduler.backend.state.request_queue import Kill, RequestQueue, Submit
from pyscheduler.backend.state.sqlite import SqliteState
from pyscheduler.backend.state.sqlite_file import APPLICATION
from pyscheduler.backend.state.sqlite_records import checksum
from tests.tasks.records import full_record, record, spec
from tests.tasks.state_contract import without_place

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
    assert "has schema 99, but this release of pyscheduler supports schema 2" in await open_error(file)


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
    fields = ("t-1", b'{"spec": 1}', "Submitted", "")
    with closing(sqlite3.connect(file)) as db, db:
        db.execute("DELETE FROM task WHERE id = 't-1'")
        db.execute("INSERT INTO task VALUES (?, ?, ?, ?, ?)", (*fields, checksum(*fields)))
    assert "the record of task 't-1' cannot be read: Expected `object`, got `int` - at `$.spec`" in await open_error(
        file
    )


async def test_changed_byte_is_noticed_or_has_no_effect(tmp_path: Path) -> None:
    file, copy, rng = tmp_path / "tasks.db", tmp_path / "copy.db", random.Random(1)
    await create_state_file(file, 40)
    content = file.read_bytes()
    saved = SavedState({f"t-{i}": full_record(f"t-{i}") for i in range(40)}, "1")
    noticed = 0
    for _ in range(150):
        place = rng.randrange(100, len(content))  # behind the header, whose counters change with any write
        copy.write_bytes(content[:place] + bytes([content[place] ^ 1 << rng.randrange(8)]) + content[place + 1 :])
        store = SqliteState(copy)
        try:
            assert without_place(await store.open()) == saved, f"byte {place}"
        except StateProblem:
            noticed += 1
        await store.close()
    assert noticed > 50


@pytest.mark.parametrize("table", ["task", "meta", "request"])
async def test_changed_value_is_reported_with_its_place(tmp_path: Path, table: str) -> None:
    file = tmp_path / "tasks.db"
    await create_state_file(file, 1)
    with RequestQueue(file) as queue:
        queue.put([Kill("t-0")])
    change, place = {
        "task": ("record = replace(record, 'node-1', 'node-2')", "the record of task 't-0'"),
        "meta": ("value = '2' WHERE name = 'place'", "the value of 'place'"),
        "request": ("body = replace(body, 't-0', 't-1')", "request 1"),
    }[table]
    with closing(sqlite3.connect(file)) as db, db:
        db.execute(f"UPDATE {table} SET {change}")
    with RequestQueue(file) as queue:
        read = queue.pending if table == "request" else queue.read_state
        with pytest.raises(StateProblem, match=f"damaged \\({place} has another checksum"):
            read()


SCHEMA_1 = """
CREATE TABLE task (id TEXT PRIMARY KEY, record BLOB NOT NULL);
CREATE TABLE meta (name TEXT PRIMARY KEY, value TEXT NOT NULL);
CREATE TABLE request (number INTEGER PRIMARY KEY AUTOINCREMENT, body BLOB NOT NULL, refused TEXT);
PRAGMA user_version = 1;
"""


def create_file_of_schema_1(file: Path) -> SavedState:
    """Create a state file as the release before checksums wrote it; return its content."""
    records = {id: full_record(id) for id in ("b", "a")}
    with closing(sqlite3.connect(file)) as db, db:
        db.executescript(f"PRAGMA application_id = {APPLICATION}; {SCHEMA_1}")
        db.executemany("INSERT INTO task VALUES (?, ?)", [(id, msgspec.json.encode(r)) for id, r in records.items()])
        db.execute("INSERT INTO meta VALUES ('place', '17')")
        bodies = [msgspec.json.encode(Kill("a")), msgspec.json.encode(Submit(spec("c")))]
        db.executemany("INSERT INTO request (body, refused) VALUES (?, ?)", zip(bodies, (None, "no"), strict=True))
    return SavedState(records, "17")


async def test_file_of_an_earlier_schema_is_migrated_with_a_backup(tmp_path: Path) -> None:
    file, backup = tmp_path / "tasks.db", tmp_path / "tasks.db-schema-1"
    saved = create_file_of_schema_1(file)
    store = SqliteState(file)
    opened = await store.open()
    assert (without_place(opened), list(opened.records)) == (saved, ["b", "a"])
    await store.commit([record("d")])
    await store.close()
    with RequestQueue(file) as queue:
        assert [one.request for one in queue.requests_of(["c", "a"])] == [Kill("a"), Submit(spec("c"))]
        queue.put([Kill("d")])
        assert [one.number for one in queue.pending()] == [1, 3]
    with closing(sqlite3.connect(backup)) as db:
        assert db.execute("PRAGMA user_version").fetchone() == (1,)
        assert db.execute("SELECT count(*) FROM task").fetchone() == (2,)


async def test_file_is_not_migrated_while_a_process_of_the_earlier_release_runs_it(tmp_path: Path) -> None:
    file = tmp_path / "tasks.db"
    create_file_of_schema_1(file)
    with closing(sqlite3.connect(tmp_path / "tasks.db-hold", isolation_level=None)) as lock:
        lock.execute("BEGIN EXCLUSIVE")
        assert "is in use by another process" in await open_error(file)
    with closing(sqlite3.connect(file)) as db:
        assert db.execute("PRAGMA user_version").fetchone() == (1,)


@pytest.mark.parametrize("suffix", ["", "-wal", "-hold"])
@pytest.mark.parametrize("replaced", [False, True])
async def test_removed_or_replaced_file_is_noticed(tmp_path: Path, suffix: str, replaced: bool) -> None:
    """SQLite would go on writing to the removed file, and lose all that at the end of the process."""
    file = tmp_path / "tasks.db"
    store = SqliteState(file)
    await store.open()
    await store.commit([record("a")])
    part = tmp_path / f"tasks.db{suffix}"
    content = part.read_bytes()
    part.rename(tmp_path / "moved")
    if replaced:
        part.write_bytes(content)
    for call in (store.check(), store.commit([record("b")])):
        with pytest.raises(StateLost, match=f"tasks.db{suffix} was removed or replaced"):
            await call
    await store.close()


async def test_full_disk_is_an_error_and_the_commit_has_no_effect(tmp_path: Path) -> None:
    store = SqliteState(tmp_path / "tasks.db")
    await store.open()
    await store.commit([record("a")])
    assert store._db is not None
    (pages,) = store._db.execute("PRAGMA page_count").fetchone()
    store._db.execute(f"PRAGMA max_page_count = {pages}")
    with pytest.raises(StateProblem, match=r"tasks\.db cannot be written: its disk is full"):
        await store.commit([full_record(f"t-{i}") for i in range(500)], resource_version="2")
    store._db.execute("PRAGMA max_page_count = 100000")
    await store.commit([record("b")])
    await store.close()
    saved = without_place(await SqliteState(tmp_path / "tasks.db").open())
    assert saved == SavedState({"a": record("a"), "b": record("b")}, None)


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
