"""Requests that one process leaves in a state file for another."""

from __future__ import annotations

from pathlib import Path

import pytest

from pyscheduler.backend.state import StateProblem
from pyscheduler.backend.state.inbox import Inbox, Kill, Submit
from pyscheduler.backend.state.sqlite import SqliteState
from tests.tasks.records import record, spec


@pytest.fixture
def file(tmp_path: Path) -> Path:
    return tmp_path / "tasks.db"


def test_requests_wait_in_order_until_they_are_done(file: Path) -> None:
    with Inbox(file, create=True) as box:
        box.put([Submit(spec("a")), Submit(spec("b")), Kill("a")])
    with Inbox(file) as box:
        waiting = box.waiting()
        assert [w.request for w in waiting] == [Submit(spec("a")), Submit(spec("b")), Kill("a")]
        box.done([waiting[0].number, waiting[2].number])
        assert [w.request for w in box.waiting()] == [Submit(spec("b"))]


def test_what_is_refused_waits_no_more_and_says_why(file: Path) -> None:
    with Inbox(file, create=True) as box:
        box.put([Submit(spec("a")), Kill("b")])
        box.refuse([box.waiting()[0].number], "there is no room for it")
        assert [w.request for w in box.waiting()] == [Kill("b")]
        [refused] = box.refused()
        assert (refused.request, refused.refused) == (Submit(spec("a")), "there is no room for it")
        box.done([refused.number])
        assert box.refused() == []


def test_no_more_are_taken_at_once_than_asked_for(file: Path) -> None:
    with Inbox(file, create=True) as box:
        box.put([Kill(str(i)) for i in range(10)])
        first = box.waiting(limit=3)
        assert [w.request for w in first] == [Kill("0"), Kill("1"), Kill("2")]
        assert [w.request for w in box.waiting(after=first[-1].number, limit=1)] == [Kill("3")]


def test_whoever_works_the_file_sees_that_something_has_come(file: Path) -> None:
    with Inbox(file, create=True) as ours, Inbox(file) as theirs:
        assert ours.changed()
        assert not ours.changed()
        theirs.put([Kill("a")])
        assert ours.changed()
        assert not ours.changed()


async def test_others_leave_requests_and_look_while_the_file_is_worked(file: Path) -> None:
    store = SqliteState(file)
    await store.open()
    await store.commit([record("a")])
    with Inbox(file) as box:
        box.put([Kill("a")])
        assert box.saved().records == {"a": record("a")}
        assert box.holder().startswith("process ")
        await store.commit([record("a", version=2)])
        assert box.saved().records["a"].version == 2
        await store.close()
        assert box.holder() == ""
        assert box.saved().records["a"].version == 2


async def test_to_look_whether_it_is_held_holds_nobody_up(file: Path) -> None:
    with Inbox(file, create=True) as box:
        assert box.holder() == ""
        store = SqliteState(file)
        await store.open()
        assert box.holder()
        await store.close()


def test_words_are_kept_for_others(file: Path) -> None:
    with Inbox(file, create=True) as box:
        assert box.noted("offer") == ""
        box.note("offer", "cpu 4")
        box.note("offer", "cpu 3")
    with Inbox(file) as box:
        assert box.noted("offer") == "cpu 3"


def test_a_file_that_is_not_there_is_told(file: Path) -> None:
    with pytest.raises(StateProblem, match="is not there: `pyscheduler tasks submit` and `tasks run` make"):
        Inbox(file)
    assert not file.exists()
