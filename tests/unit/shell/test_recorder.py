"""Event recorder: content of Events, series of repetitions, priority of bindings."""

from __future__ import annotations

import asyncio
import socket
from collections.abc import AsyncIterator, Callable, Sequence
from typing import Any

import pytest

from pyscheduler.clock import rfc3339_micro
from pyscheduler.core.commands import EventType, Record
from pyscheduler.kube.connection import Connection
from pyscheduler.shell.binding.concurrency import InFlightCounter
from pyscheduler.shell.writers import recorder
from pyscheduler.shell.writers.recorder import FINISH_AFTER, PATIENCE, SWEEP_EVERY, Recorder
from pyscheduler.testing import pod
from pyscheduler.truncation import MAX_NOTE
from tests.unit.kube.fake_api import FakeApi, Hangup, Held, Reply, ok, refused
from tests.unit.kube.virtual import SteppedClock

EVENTS = "/apis/events.k8s.io/v1/namespaces/default/events"
CREATED = Reply(201)


def failed(name: str = "a", note: str = "no room") -> Record:
    return Record(EventType.WARNING, "FailedScheduling", "Scheduling", note, pod(name).version(5).build())


class RecorderFixture:
    """A running recorder with a manual clock."""

    def __init__(self, connection: Connection, capacity: int) -> None:
        self.clock = SteppedClock()
        self.in_flight = InFlightCounter()
        self.lost = 0
        self.recorder = Recorder(connection, self.clock, self.in_flight, self._lose, capacity)
        self._task: asyncio.Task[None] | None = None

    def _lose(self) -> None:
        self.lost += 1

    async def __aenter__(self) -> RecorderFixture:
        self._task = asyncio.create_task(self.recorder.run())
        await self.clock.until_asleep(1)
        return self

    async def __aexit__(self, *_: object) -> None:
        assert self._task is not None
        self._task.cancel()
        await asyncio.gather(self._task, return_exceptions=True)

    async def written(self, *records: Record) -> int:
        """Record and wait until all is written; return the number of unwritten Events."""
        for record in records:
            self.recorder.record(record)
        return await self.recorder.flush(5)


@pytest.fixture
def idle(connection: Connection) -> RecorderFixture:
    return RecorderFixture(connection, capacity=4)


@pytest.fixture
async def desk(idle: RecorderFixture) -> AsyncIterator[RecorderFixture]:
    async with idle:
        yield idle


async def test_event_has_all_fields(api: FakeApi, desk: RecorderFixture) -> None:
    api.script(EVENTS, CREATED)
    victim, preemptor = pod("victim").scheduler("other").build(), pod("vip").scheduler("mine").build()
    at = desk.clock.wall()
    assert (
        await desk.written(Record(EventType.NORMAL, "Preempted", "Preempting", "Preempted by", victim, preemptor)) == 0
    )
    [call] = api.calls
    name = call.json["metadata"]["name"]
    assert name.startswith("victim.")
    assert int(name.removeprefix("victim."), 16) > 0
    assert call.json == {
        "apiVersion": "events.k8s.io/v1",
        "kind": "Event",
        "metadata": {"name": name, "namespace": "default"},
        "eventTime": rfc3339_micro(at),
        "reportingController": "mine",
        "reportingInstance": f"mine-{socket.gethostname()}",
        "action": "Preempting",
        "reason": "Preempted",
        "regarding": reference("victim"),
        "related": reference("vip"),
        "note": "Preempted by",
        "type": "Normal",
    }


def reference(name: str) -> dict[str, Any]:
    base = {"apiVersion": "v1", "kind": "Pod", "namespace": "default", "resourceVersion": ""}
    return base | {"name": name, "uid": name}


async def test_repetition_becomes_a_series(api: FakeApi, desk: RecorderFixture) -> None:
    api.script(EVENTS, CREATED)
    await desk.written(failed())
    name = api.calls[0].json["metadata"]["name"]
    api.script(f"{EVENTS}/{name}", ok({}))
    await desk.written(failed(), failed(), failed())
    assert [call.method for call in api.calls] == ["POST", "PATCH"]
    series = api.calls[1].json["series"]
    assert series["count"] == 4


async def test_event_with_another_note_is_a_new_event(api: FakeApi, desk: RecorderFixture) -> None:
    api.script(EVENTS, CREATED, CREATED, CREATED)
    await desk.written(failed(), failed(note="still no room"), failed("b"))
    assert [call.method for call in api.calls] == ["POST"] * 3
    assert len({call.json["metadata"]["name"] for call in api.calls}) == 3


async def test_long_note_is_truncated_in_memory(api: FakeApi, desk: RecorderFixture) -> None:
    api.script(EVENTS, CREATED)
    await desk.written(failed(note="no room " * 100_000))
    (series,) = desk.recorder._series[EventType.WARNING].values()
    assert len(series.record.note) == MAX_NOTE
    assert api.calls[0].json["note"] == series.record.note


async def test_series_is_written_every_half_hour_and_at_its_end(api: FakeApi, desk: RecorderFixture) -> None:
    api.script(EVENTS, CREATED)
    await desk.written(failed())
    api.script(f"{EVENTS}/{api.calls[0].json['metadata']['name']}", *[ok({})] * 5)
    counts = []
    for _ in range(8):
        await desk.clock.advance(300)
        await desk.written(failed())
        counts.append(api.calls[-1].json.get("series", {}).get("count"))
    assert counts == [2, 2, 2, 2, 2, 2, 2, 9]
    await desk.clock.advance(300)
    await desk.written(failed())
    await desk.clock.advance(FINISH_AFTER + SWEEP_EVERY)
    await desk.written()
    assert api.calls[-1].json["series"]["count"] == 10
    assert len(api.calls) == 4


async def test_repetition_after_six_minutes_is_a_new_event(api: FakeApi, desk: RecorderFixture) -> None:
    api.script(EVENTS, CREATED, CREATED)
    await desk.clock.advance(SWEEP_EVERY / 2)  # so that the sweep has not ended it
    await desk.written(failed())
    await desk.clock.advance(FINISH_AFTER + 1)
    await desk.written(failed())
    assert [call.method for call in api.calls] == ["POST", "POST"]


async def test_repetitions_before_the_first_write_are_counted_in_it(api: FakeApi, idle: RecorderFixture) -> None:
    api.script(EVENTS, CREATED)
    for _ in range(3):
        idle.recorder.record(failed())
    async with idle:
        assert await idle.written() == 0
    [call] = api.calls
    assert call.json["series"]["count"] == 3


async def test_repetition_during_the_first_write_is_written_after_it(api: FakeApi, desk: RecorderFixture) -> None:
    first = Held(CREATED)
    api.script(EVENTS, first)
    desk.recorder.record(failed())
    await api.called(1)
    api.script(f"{EVENTS}/{api.calls[0].json['metadata']['name']}", ok({}))
    desk.recorder.record(failed())
    first.release.set()
    assert await desk.written() == 0
    assert [call.method for call in api.calls] == ["POST", "PATCH"]
    assert api.calls[1].json["series"]["count"] == 2


async def test_expired_event_is_created_again(api: FakeApi, desk: RecorderFixture) -> None:
    api.script(EVENTS, CREATED, CREATED)
    await desk.written(failed())
    name = api.calls[0].json["metadata"]["name"]
    api.script(f"{EVENTS}/{name}", refused(404, "NotFound"))
    await desk.written(failed())
    assert [call.method for call in api.calls] == ["POST", "PATCH", "POST"]
    assert api.calls[2].json["series"]["count"] == 2


async def test_event_is_written_after_an_outage(api: FakeApi, desk: RecorderFixture) -> None:
    api.script(EVENTS, Hangup(), refused(500), refused(503), CREATED)
    desk.recorder.record(failed())
    for _ in range(3):
        await desk.clock.until_asleep(2)
        await desk.clock.advance(5)
    assert await desk.written() == 0
    assert desk.lost == 0
    assert len(api.calls) == 4


async def test_event_is_dropped_in_a_long_outage(api: FakeApi, desk: RecorderFixture) -> None:
    api.script(EVENTS, *[refused(500)] * 5)
    desk.recorder.record(failed())
    for _ in range(4):
        await desk.clock.until_asleep(2)
        await desk.clock.advance(10)
    assert await desk.written() == 0
    assert desk.lost == 1


@pytest.mark.parametrize(
    ("answer", "warned"),
    [
        (refused(404, "NotFound", 'namespaces "default" not found'), False),
        (refused(403, "Forbidden", "unable to create: namespace default is being terminated"), False),
        (refused(403, "Forbidden", "events is forbidden"), True),
    ],
)
async def test_rejected_events_are_dropped_and_counted_unless_their_namespace_is_gone(
    api: FakeApi, desk: RecorderFixture, caplog: pytest.LogCaptureFixture, answer: Reply, warned: bool
) -> None:
    api.script(EVENTS, answer)
    assert await desk.written(failed()) == 0
    assert desk.lost == warned
    assert ("Dropped an Event, the server rejected it" in caplog.text) is warned
    assert len(api.calls) == 1


async def test_unencodable_event_affects_only_itself(
    api: FakeApi, desk: RecorderFixture, caplog: pytest.LogCaptureFixture
) -> None:
    api.script(EVENTS, CREATED)
    broken = Record(EventType.NORMAL, "Scheduled", "\ud800", "invalid character", pod("b").build())
    assert await desk.written(broken, failed()) == 0
    assert (desk.lost, [call.json["regarding"]["name"] for call in api.calls]) == (1, ["a"])
    assert "Failed to write an Event" in caplog.text


async def test_one_writer_writes_late_events_while_bindings_are_in_flight(api: FakeApi, idle: RecorderFixture) -> None:
    api.script(EVENTS, *[refused(500)] * 2, *[CREATED] * 2)
    with idle.in_flight:
        idle.recorder.record(failed("a"))
        idle.recorder.record(failed("b"))
        async with idle:
            await idle.clock.until_asleep(9)  # the sweep and eight yielding writers
            await idle.clock.advance(PATIENCE - 1)
            assert not api.calls
            await idle.clock.advance(2)
            await api.called(1)
            await idle.clock.until_asleep(9)  # now including the steady writer after its 500
            for _ in range(3):
                await idle.clock.advance(1)
            await api.called(3)
            assert [call.json["regarding"]["name"] for call in api.calls[:3]] == ["a", "a", "a"]


def bind(desk: RecorderFixture, pods: int) -> None:
    """Count instantaneous bindings."""
    for _ in range(pods):
        with desk.in_flight:
            pass


async def test_events_wait_while_bindings_are_frequent(api: FakeApi, idle: RecorderFixture) -> None:
    api.script(EVENTS, *[CREATED] * 2)
    idle.recorder.record(failed("a"))
    idle.recorder.record(failed("b"))
    await idle.clock.advance(0.2)
    bind(idle, pods=10)
    async with idle:
        await idle.clock.until_asleep(9)  # the sweep and eight yielding writers
        for _ in range(20):
            bind(idle, pods=5)
            await idle.clock.advance(0.1)
        assert not api.calls
        for _ in range(5):  # no more bindings
            await idle.clock.advance(0.1)
        await api.called(2)


async def test_events_wait_while_evictions_are_in_flight(api: FakeApi, idle: RecorderFixture) -> None:
    api.script(EVENTS, CREATED)
    idle.in_flight.evictions = 1
    idle.recorder.record(failed("a"))
    async with idle:
        await idle.clock.until_asleep(9)  # the sweep and eight yielding writers
        await idle.clock.advance(PATIENCE / 2)
        assert not api.calls
        idle.in_flight.evictions = 0
        await idle.clock.advance(1)
        await api.called(1)


async def test_events_do_not_wait_between_rare_bindings(api: FakeApi, idle: RecorderFixture) -> None:
    api.script(EVENTS, *[CREATED] * 5)
    async with idle:
        for number in range(5):
            await idle.clock.advance(0.5)
            bind(idle, pods=10)
            idle.recorder.record(failed(f"pod-{number}"))
            await api.called(number + 1)


async def test_all_writers_write_without_bindings(api: FakeApi, desk: RecorderFixture) -> None:
    api.script(EVENTS, *[refused(500)] * 3)
    for name in "abc":
        desk.recorder.record(failed(name))
    await api.called(3)
    assert {call.json["regarding"]["name"] for call in api.calls} == {"a", "b", "c"}


MANY = [f"pod-{number}" for number in range(40)]


@pytest.fixture
def full(connection: Connection, monkeypatch: pytest.MonkeyPatch) -> tuple[RecorderFixture, list[int]]:
    """Return a fixture with many queued Events, and the sizes of its batches."""
    batches, send = list[int](), connection.create_batch

    async def counted(objects: Sequence[tuple[str, Callable[[str], bytes]]]) -> list[bool]:
        batches.append(len(objects))
        return await send(objects)

    monkeypatch.setattr(connection, "create_batch", counted)
    desk = RecorderFixture(connection, capacity=200)
    for name in MANY:
        desk.recorder.record(failed(name))
    return desk, batches


def regarding(api: FakeApi) -> list[str]:
    return sorted(call.json["regarding"]["name"] for call in api.calls)


async def test_queued_events_are_batched_in_equal_shares(api: FakeApi, full: tuple[RecorderFixture, list[int]]) -> None:
    api.script(EVENTS, *[CREATED] * len(MANY))
    desk, batches = full
    async with desk:
        assert await desk.written() == 0
    assert (regarding(api), desk.lost) == (sorted(MANY), 0)
    assert sum(batches) > len(MANY) // 2
    assert max(batches) == len(MANY) // 8, "each batch is an equal share"


async def test_rejected_event_in_a_batch_affects_only_itself(
    api: FakeApi,
    full: tuple[RecorderFixture, list[int]],
    caplog: pytest.LogCaptureFixture,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(recorder, "_WRITERS", 1)  # for a fixed order
    no = refused(403, "Forbidden", "not that one")
    api.script(EVENTS, *[CREATED] * 10, no, *[CREATED] * 5)  # a batch of 16
    api.script(EVENTS, no, *[CREATED] * 24)  # the rejected one alone, then the others
    desk, batches = full
    async with desk:
        assert await desk.written() == 0
    assert (batches, len(api.calls), desk.lost) == ([16, 16, 8], len(MANY) + 1, 1)
    assert api.calls[16].json == api.calls[10].json
    assert caplog.text.count("Dropped an Event, the server rejected it") == 1


async def test_unencodable_event_in_a_batch_affects_only_itself(
    api: FakeApi, full: tuple[RecorderFixture, list[int]], caplog: pytest.LogCaptureFixture
) -> None:
    api.script(EVENTS, *[CREATED] * len(MANY))
    desk, _ = full
    desk.recorder.record(Record(EventType.NORMAL, "Scheduled", "\ud800", "invalid character", pod("b").build()))
    async with desk:
        assert await desk.written() == 0
    assert (regarding(api), desk.lost) == (sorted(MANY), 1)
    assert caplog.text.count("Failed to write an Event") == 1


async def test_events_are_written_one_by_one_after_a_broken_batch(
    api: FakeApi, full: tuple[RecorderFixture, list[int]]
) -> None:
    api.script(EVENTS, CREATED, Hangup(), *[CREATED] * (2 * len(MANY)))
    desk, batches = full
    async with desk:
        assert await desk.written() == 0
    assert (set(regarding(api)), desk.lost) == (set(MANY), 0)
    assert len(batches) <= 8, "no batch after the broken one except those in flight"


async def test_repetition_during_a_batch_is_written_after_it(
    api: FakeApi, full: tuple[RecorderFixture, list[int]]
) -> None:
    first = Held(CREATED)
    api.script(EVENTS, first, *[CREATED] * len(MANY))
    desk, _ = full
    async with desk:
        await api.called(1)
        sent = api.calls[0].json
        desk.recorder.record(failed(sent["regarding"]["name"]))
        api.script(f"{EVENTS}/{sent['metadata']['name']}", ok({}))
        first.release.set()
        assert await desk.written() == 0
    assert [call.json["series"]["count"] for call in api.calls if call.method == "PATCH"] == [2]


async def test_late_events_are_batched_while_bindings_are_in_flight(
    api: FakeApi, full: tuple[RecorderFixture, list[int]]
) -> None:
    """One by one, a writer would write 20 a second at 50 ms latency, and Events would be dropped."""
    api.script(EVENTS, *[CREATED] * len(MANY))
    desk, batches = full
    with desk.in_flight:
        async with desk:
            await desk.clock.until_asleep(9)  # the sweep and eight yielding writers
            assert not api.calls
            await desk.clock.advance(PATIENCE + 1)
            await api.called(len(MANY))
    assert sum(batches) > len(MANY) / 2


async def test_more_than_half_full_queue_does_not_yield(api: FakeApi, desk: RecorderFixture) -> None:
    api.script(EVENTS, *[refused(500)] * 4)
    with desk.in_flight:
        for name in "abcd":
            desk.recorder.record(failed(name))
        await api.called(2)


async def test_full_queue_drops_the_oldest_repetition_first(api: FakeApi, idle: RecorderFixture) -> None:
    api.script(EVENTS, *[CREATED] * 9)
    async with idle:
        await idle.written(failed("old"))
    for name in ("old", "a", "b", "c", "d"):
        idle.recorder.record(failed(name))
    assert (idle.lost, len(idle.recorder)) == (1, 4)
    idle.recorder.record(failed("e"))
    assert (idle.lost, len(idle.recorder)) == (2, 4)
    async with idle:
        await idle.written()
    first, *others = [call.json["regarding"]["name"] for call in api.calls]
    assert (first, sorted(others)) == ("old", ["b", "c", "d", "e"])  # written concurrently


async def test_flush_times_out(idle: RecorderFixture, caplog: pytest.LogCaptureFixture) -> None:
    idle.recorder.record(failed())
    assert await idle.recorder.flush(0.01) == 1, "run is not running"
    assert "unwritten Events" in caplog.text
