"""Requests that one process leaves in a state file for another."""

from __future__ import annotations

from pathlib import Path

import pytest

from pyscheduler.backend.state import StateProblem
from pyscheduler.backend.state.request_queue import Kill, RequestQueue, Submit
from pyscheduler.backend.state.sqlite import SqliteState
from tests.tasks.records import record, spec


@pytest.fixture
def file(tmp_path: Path) -> Path:
    return tmp_path / "tasks.db"


def test_requests_wait_in_order_until_they_are_done(file: Path) -> None:
    with RequestQueue(file, create=True) as box:
        box.put([Submit(spec("a")), Submit(spec("b")), Kill("a")])
    with RequestQueue(file) as box:
        waiting = box.pending()
        assert [w.request for w in waiting] == [Submit(spec("a")), Submit(spec("b")), Kill("a")]
        box.done([waiting[0].number, waiting[2].number])
        assert [w.request for w in box.pending()] == [Submit(spec("b"))]


def test_what_is_refused_waits_no_more_and_says_why(file: Path) -> None:
    with RequestQueue(file, create=True) as box:
        box.put([Submit(spec("a")), Kill("b")])
        box.reject([box.pending()[0].number], "there is no room for it")
        assert [w.request for w in box.pending()] == [Kill("b")]
        [refused] = box.rejected()
        assert (refused.request, refused.rejection) == (Submit(spec("a")), "there is no room for it")
        box.done([refused.number])
        assert box.rejected() == []


def test_no_more_are_taken_at_once_than_asked_for(file: Path) -> None:
    with RequestQueue(file, create=True) as box:
        box.put([Kill(str(i)) for i in range(10)])
        first = box.pending(limit=3)
        assert [w.request for w in first] == [Kill("0"), Kill("1"), Kill("2")]
        assert [w.request for w in box.pending(after=first[-1].number, limit=1)] == [Kill("3")]


def test_whoever_works_the_file_sees_that_something_has_come(file: Path) -> None:
    with RequestQueue(file, create=True) as ours, RequestQueue(file) as theirs:
        assert ours.changed()
        assert not ours.changed()
        theirs.put([Kill("a")])
        assert ours.changed()
        assert not ours.changed()


async def test_others_leave_requests_and_look_while_the_file_is_worked(file: Path) -> None:
    store = SqliteState(file)
    await store.open()
    await store.commit([record("a")])
    with RequestQueue(file) as box:
        box.put([Kill("a")])
        assert box.read_state().records == {"a": record("a")}
        assert box.holder().startswith("process ")
        await store.commit([record("a", version=2)])
        assert box.read_state().records["a"].version == 2
        await store.close()
        assert box.holder() == ""
        assert box.read_state().records["a"].version == 2


async def test_to_look_whether_it_is_held_holds_nobody_up(file: Path) -> None:
    with RequestQueue(file, create=True) as box:
        assert box.holder() == ""
        store = SqliteState(file)
        await store.open()
        assert box.holder()
        await store.close()


def test_words_are_kept_for_others(file: Path) -> None:
    with RequestQueue(file, create=True) as box:
        assert box.get_meta("offer") == ""
        box.set_meta("offer", "cpu 4")
        box.set_meta("offer", "cpu 3")
    with RequestQueue(file) as box:
        assert box.get_meta("offer") == "cpu 3"


def test_a_file_that_is_not_there_is_told(file: Path) -> None:
    with pytest.raises(StateProblem, match="is not there: `pyscheduler tasks submit` and `tasks run` make"):
        RequestQueue(file)
    assert not file.exists()
