"""Request queue in a state file, between processes."""

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


def test_requests_stay_in_order_until_they_are_done(file: Path) -> None:
    with RequestQueue(file, create=True) as queue:
        queue.put([Submit(spec("a")), Submit(spec("b")), Kill("a")])
    with RequestQueue(file) as queue:
        pending = queue.pending()
        assert [queued.request for queued in pending] == [Submit(spec("a")), Submit(spec("b")), Kill("a")]
        queue.done([pending[0].number, pending[2].number])
        assert [queued.request for queued in queue.pending()] == [Submit(spec("b"))]


def test_rejected_request_has_a_reason_and_is_no_longer_pending(file: Path) -> None:
    with RequestQueue(file, create=True) as queue:
        queue.put([Submit(spec("a")), Kill("b")])
        queue.reject([queue.pending()[0].number], "there is no room for it")
        assert [queued.request for queued in queue.pending()] == [Kill("b")]
        [rejected] = queue.rejected()
        assert (rejected.request, rejected.rejection) == (Submit(spec("a")), "there is no room for it")
        queue.done([rejected.number])
        assert queue.rejected() == []


def test_pending_returns_at_most_limit_requests_after_a_number(file: Path) -> None:
    with RequestQueue(file, create=True) as queue:
        queue.put([Kill(str(i)) for i in range(10)])
        first = queue.pending(limit=3)
        assert [queued.request for queued in first] == [Kill("0"), Kill("1"), Kill("2")]
        assert [queued.request for queued in queue.pending(after=first[-1].number, limit=1)] == [Kill("3")]


def test_changed_reports_writes_of_other_connections_once(file: Path) -> None:
    with RequestQueue(file, create=True) as ours, RequestQueue(file) as theirs:
        assert ours.changed()
        assert not ours.changed()
        theirs.put([Kill("a")])
        assert ours.changed()
        assert not ours.changed()


async def test_requests_and_reads_work_while_a_process_holds_the_file(file: Path) -> None:
    store = SqliteState(file)
    await store.open()
    await store.commit([record("a")])
    with RequestQueue(file) as queue:
        queue.put([Kill("a")])
        assert queue.read_state().records == {"a": record("a")}
        assert queue.holder().startswith("process ")
        await store.commit([record("a", version=2)])
        assert queue.read_state().records["a"].version == 2
        await store.close()
        assert queue.holder() == ""
        assert queue.read_state().records["a"].version == 2


async def test_holder_does_not_block_opening_the_file(file: Path) -> None:
    with RequestQueue(file, create=True) as queue:
        assert queue.holder() == ""
        store = SqliteState(file)
        await store.open()
        assert queue.holder()
        await store.close()


def test_meta_values_are_stored_for_other_processes(file: Path) -> None:
    with RequestQueue(file, create=True) as queue:
        assert queue.get_meta("offer") == ""
        queue.set_meta("offer", "cpu 4")
        queue.set_meta("offer", "cpu 3")
    with RequestQueue(file) as queue:
        assert queue.get_meta("offer") == "cpu 3"


def test_missing_file_raises(file: Path) -> None:
    with pytest.raises(StateProblem, match="does not exist: create it with `pyscheduler tasks submit` or `tasks run`"):
        RequestQueue(file)
    assert not file.exists()
