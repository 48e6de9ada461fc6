"""Reflector: lists, watches, and misbehaving servers."""

from __future__ import annotations

import asyncio
import random
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import msgspec
import pytest

from pyscheduler.api import PodObject, ResourceKind
from pyscheduler.kube.connection import Connection, ConnectionOptions, connect
from pyscheduler.kube.deadlines import Deadlines
from pyscheduler.kube.decode import ObjectDecoder, Refusals
from pyscheduler.kube.listing import STRETCH
from pyscheduler.kube.paths import LIVE_PODS, PODS
from pyscheduler.kube.reflector import MAX_BACKOFF, NOT_FOUND_RETRY, Change, Deleted, Reflector, Upsert, Watched
from pyscheduler.testing import pod
from tests.unit.kube.fake_api import FakeApi, Held, Reply, Stream, bookmark, event, expired, listed, ok, refused, watch
from tests.unit.kube.virtual import VirtualClock

PATH = "/api/v1/pods"
A1, A2, A3 = (pod("a").version(n).manifest for n in (1, 12, 13))
B1, B2 = pod("b").version(2).manifest, pod("b").version(14).manifest
C1 = pod("c").version(15).manifest
OLD_B = pod("b").version(9).manifest


class RunningReflector:
    """A running reflector and the changes that it emits."""

    def __init__(self, reflector: Reflector[PodObject], emitted: asyncio.Queue[Change[PodObject]]) -> None:
        self.reflector = reflector
        self._emitted = emitted

    async def changes(self, count: int) -> list[str]:
        """Return the next changes as `name@version` or `-name`."""
        async with asyncio.timeout(5):
            return [_short(await self._emitted.get()) for _ in range(count)]

    @property
    def nothing_more(self) -> bool:
        return self._emitted.empty()


def _short(change: Change[PodObject]) -> str:
    if isinstance(change, Deleted):
        return f"-{change.name}"
    return f"{change.object.metadata.name}@{change.object.metadata.resource_version}"


def list_of(*items: dict[str, Any], next: str = "") -> bytes:
    return msgspec.json.encode({"metadata": {"resourceVersion": "10", "continue": next}, "items": items})


Follow = Callable[..., RunningReflector]


@pytest.fixture
async def follow(connection: Connection, clock: VirtualClock) -> AsyncIterator[Follow]:
    tasks = []

    def start(kind: ResourceKind = PODS, page: int = 500, refusals: Refusals | None = None) -> RunningReflector:
        emitted: asyncio.Queue[Change[PodObject]] = asyncio.Queue()
        decoder = ObjectDecoder(kind.plural, PodObject, refusals or Refusals())
        watched = Watched(kind, LIVE_PODS, page)
        reflector = Reflector(connection, watched, decoder, emitted.put_nowait, clock, random.Random(1))
        tasks.append(asyncio.create_task(reflector.run()))
        return RunningReflector(reflector, emitted)

    yield start
    for task in tasks:
        task.cancel()
    await asyncio.gather(*tasks, return_exceptions=True)


async def test_lists_then_watches(api: FakeApi, follow: Follow) -> None:
    api.script(PATH, listed(A1, B1, version=10), watch(event("MODIFIED", A2), event("DELETED", B2), event("ADDED", C1)))
    followed = follow()
    assert await followed.changes(5) == ["a@1", "b@2", "a@12", "-b", "c@15"]
    assert followed.reflector.synced.is_set()
    first, second = api.calls[:2]
    assert first.query == {"fieldSelector": LIVE_PODS, "limit": "500"}
    assert second.query["resourceVersion"] == "10"
    assert second.query["allowWatchBookmarks"] == "true"
    assert 20 <= int(second.query["timeoutSeconds"]) <= 25
    assert second.query["fieldSelector"] == LIVE_PODS


async def test_pages(api: FakeApi, follow: Follow) -> None:
    api.script(PATH, listed(A1, next="more"), listed(B1, version=11))
    followed = follow(page=1)
    assert await followed.changes(2) == ["a@1", "b@2"]
    await api.called(3)
    assert [call.query.get("continue") for call in api.calls] == [None, "more", None]
    assert api.calls[2].query["resourceVersion"] == "11"


async def test_pages_are_read_in_order(api: FakeApi, follow: Follow) -> None:
    api.script(PATH, listed(B1, next="second"), listed(A1, next="third"), listed(C1))
    assert await follow(page=1).changes(3) == ["b@2", "a@1", "c@15"]
    await api.called(4)
    assert [call.query.get("continue") for call in api.calls] == [None, "second", "third", None]


async def test_objects_are_emitted_while_their_page_arrives(
    connection: Connection, follow: Follow, monkeypatch: pytest.MonkeyPatch
) -> None:
    many = [pod(f"p{n}").version(n + 1).manifest for n in range(3000)]
    body, half = list_of(*many), asyncio.Event()
    assert len(body) > 2 * STRETCH

    @asynccontextmanager
    async def reading(_: str) -> AsyncIterator[AsyncIterator[bytes]]:
        async def chunks() -> AsyncIterator[bytes]:
            yield body[:STRETCH]
            await half.wait()
            yield body[STRETCH:]

        yield chunks()

    monkeypatch.setattr(connection, "reading", reading)
    followed = follow()
    changes = await followed.changes(1000)
    assert followed.nothing_more or not followed.reflector.synced.is_set()
    half.set()
    assert changes + await followed.changes(2000) == [f"p{n}@{n + 1}" for n in range(3000)]


async def test_list_restarts_without_duplicates_after_a_broken_page(api: FakeApi, follow: Follow) -> None:
    many = [pod(f"p{n}").version(n + 1).manifest for n in range(3000)]
    body = list_of(*many)
    api.script(PATH, Stream((body[:STRETCH], body[STRETCH : STRETCH + 10]), cut=True), listed(*many))
    followed = follow()
    assert await followed.changes(3000) == [f"p{n}@{n + 1}" for n in range(3000)]
    await api.called(3)
    assert ["continue" in call.query for call in api.calls] == [False, False, False]
    assert followed.nothing_more


async def test_list_restarts_without_duplicates_after_a_failed_page(api: FakeApi, follow: Follow) -> None:
    lost = refused(500, "InternalError", "etcd is away")
    api.script(PATH, listed(A1, next="more"), lost, listed(A1, next="again"), listed(B1, C1))
    followed = follow(page=1)
    assert await followed.changes(3) == ["a@1", "b@2", "c@15"]
    await api.called(5)
    assert [call.query.get("continue") for call in api.calls] == [None, "more", None, "again", None]
    assert followed.nothing_more


async def test_list_restarts_after_a_malformed_page(api: FakeApi, follow: Follow) -> None:
    api.script(PATH, ok({"metadata": {"continue": "more"}, "items": 7}), listed(A1))
    assert await follow(page=1).changes(1) == ["a@1"]
    await api.called(3)
    assert ["continue" in call.query for call in api.calls] == [False, False, False]


async def test_list_restarts_without_paging_when_its_token_expires(api: FakeApi, follow: Follow) -> None:
    api.script(PATH, listed(A1, B1, next="old"), expired(), listed(A1, C1, version=20))
    followed = follow(page=2)
    assert await followed.changes(4) == ["a@1", "b@2", "c@15", "-b"]
    assert "limit" not in api.calls[2].query
    assert "continue" not in api.calls[2].query


async def test_watch_resumes_from_the_last_version_after_a_cut_within_a_line(api: FakeApi, follow: Follow) -> None:
    half = event("MODIFIED", B2)[:40]
    api.script(PATH, listed(A1, B1), watch(event("MODIFIED", A2), half, cut=True), watch(event("MODIFIED", B2)))
    followed = follow()
    assert await followed.changes(4) == ["a@1", "b@2", "a@12", "b@14"]
    assert [call.query.get("resourceVersion") for call in api.calls[:3]] == [None, "10", "12"]


async def test_events_older_than_the_watch_are_ignored(api: FakeApi, follow: Follow) -> None:
    old = event("ADDED", pod("ghost").version(3).manifest), event("MODIFIED", A1), event("DELETED", OLD_B)
    api.script(PATH, listed(A2, B1, version=13), watch(*old, event("MODIFIED", B2)))
    followed = follow()
    assert await followed.changes(3) == ["a@12", "b@2", "b@14"]
    assert followed.nothing_more


async def test_objects_of_one_name_in_two_namespaces_are_distinct(api: FakeApi, follow: Follow) -> None:
    here, there = (pod("web").namespace(namespace).version(1).manifest for namespace in ("a", "b"))
    gone = pod("web").namespace("a").version(12).manifest
    api.script(PATH, listed(here, there), watch(event("DELETED", gone)))
    followed = follow()
    assert await followed.changes(3) == ["web@1", "web@1", "-web"]
    assert len(followed.reflector) == 1


async def test_bookmarks_advance_the_version(api: FakeApi, follow: Follow) -> None:
    api.script(PATH, listed(A1), watch(bookmark(99)), watch(bookmark(120)))
    followed = follow()
    await api.called(4)
    assert [call.query.get("resourceVersion") for call in api.calls[:4]] == [None, "10", "99", "120"]
    assert await followed.changes(1) == ["a@1"]
    assert followed.nothing_more


ERROR_410 = event("ERROR", {"kind": "Status", "code": 410, "reason": "Expired", "message": "too old"})


@pytest.mark.parametrize("seconds", [0.0, 2.0], ids=["at once", "in time"])
@pytest.mark.parametrize("gone", [expired(), watch(ERROR_410)], ids=["as an HTTP status", "as an ERROR event"])
async def test_410_causes_a_relist_that_emits_the_difference(
    api: FakeApi, follow: Follow, clock: VirtualClock, gone: Any, seconds: float
) -> None:
    clock.step = seconds
    recreated = pod("a").uid("another").version(17).manifest
    api.script(PATH, listed(A1, B1, C1), gone, listed(recreated, C1, version=30))
    followed = follow()
    assert await followed.changes(6) == ["a@1", "b@2", "c@15", "-a", "a@17", "-b"]
    await api.called(4)
    assert api.calls[3].query["resourceVersion"] == "30"


async def test_event_of_unknown_type_is_ignored(api: FakeApi, follow: Follow, caplog: pytest.LogCaptureFixture) -> None:
    api.script(PATH, listed(), watch(event("UNKNOWN", C1)), watch(event("ADDED", A2)))
    assert await follow().changes(1) == ["a@12"]
    assert api.calls[2].query["resourceVersion"] == "10", "an unknown event does not advance the version"
    assert "unknown type" in caplog.text


async def test_a_line_of_several_megabytes(api: FakeApi, follow: Follow) -> None:
    huge = pod("huge").annotation("note", "x" * 5_000_000).version(40).manifest
    api.script(PATH, listed(), watch(event("ADDED", huge) + event("ADDED", A2)))
    assert await follow().changes(2) == ["huge@40", "a@12"]


async def test_malformed_line_causes_a_relist(api: FakeApi, follow: Follow) -> None:
    api.script(PATH, listed(A1), watch(b"<html>bad gateway</html>\n"), listed(A1, B1))
    assert await follow().changes(2) == ["a@1", "b@2"]


async def test_retries_back_off_up_to_the_longest_pause(api: FakeApi, follow: Follow, clock: VirtualClock) -> None:
    api.script(PATH, *[refused(500, "InternalError", "etcd is away")] * 9, listed(A1))
    followed = follow()
    assert await followed.changes(1) == ["a@1"]
    assert len(clock.slept) == 9
    assert all(0.4 <= pause <= MAX_BACKOFF for pause in clock.slept)
    assert clock.slept[0] < 1 < MAX_BACKOFF / 2 <= clock.slept[-1]
    assert followed.reflector.problem == ""


async def test_watch_that_ends_at_once_is_not_retried_in_a_tight_loop(
    api: FakeApi, follow: Follow, clock: VirtualClock
) -> None:
    api.script(PATH, listed(), watch(), watch(), watch())
    follow()
    await api.called(5)
    assert len(clock.slept) == 3


@pytest.mark.parametrize(
    ("seconds", "pauses"), [pytest.param(2.0, 0, id="after 2 s"), pytest.param(0.5, 4, id="at once")]
)
async def test_repeatedly_cut_quiet_watch(
    api: FakeApi, follow: Follow, clock: VirtualClock, seconds: float, pauses: int
) -> None:
    """As in client-go: resumed at once if it lived for a second, otherwise after growing pauses."""
    clock.step = seconds
    api.script(PATH, listed(A1), *[watch(cut=True)] * 4)
    followed = follow()
    await api.called(6)
    assert [call.query.get("resourceVersion") for call in api.calls[1:]] == ["10"] * 5
    assert len(clock.slept) == pauses
    assert followed.reflector.problem.startswith("the connection broke") is (pauses > 0)


async def test_watch_with_an_event_is_resumed_at_once(api: FakeApi, follow: Follow, clock: VirtualClock) -> None:
    api.script(PATH, listed(A1), watch(event("MODIFIED", A2), cut=True), watch(event("MODIFIED", A3)))
    assert await follow().changes(3) == ["a@1", "a@12", "a@13"]
    await api.called(4)
    assert not clock.slept


async def test_quiet_watch_that_lived_resets_the_backoff(api: FakeApi, follow: Follow, clock: VirtualClock) -> None:
    clock.step = 2.0
    away = refused(500, "InternalError", "etcd is away")
    api.script(PATH, listed(A1), away, away, away, watch(), away)
    follow()
    await api.called(7)
    assert max(clock.slept[0], clock.slept[3]) < 1 < clock.slept[2]


async def test_watch_rejected_late_counts_as_a_failure(api: FakeApi, follow: Follow, clock: VirtualClock) -> None:
    refusals = [Held(refused(500, "InternalError", "etcd is away")) for _ in range(5)]
    api.script(PATH, listed(A1), *refusals, listed(A1, B1))
    followed = follow()
    for calls, held in enumerate(refusals, 2):
        await api.called(calls)
        clock.at += MAX_BACKOFF + 1
        held.release.set()
    assert await followed.changes(2) == ["a@1", "b@2"], "it is relisted after five failures"
    assert clock.slept[-1] > 5


async def test_version_that_the_server_never_accepts_causes_a_relist(api: FakeApi, follow: Follow) -> None:
    too_new = refused(504, "Timeout", "Too large resource version: 10, current: 3")
    api.script(PATH, listed(A1), *[too_new] * 5, listed(B1, version=3))
    assert await follow().changes(3) == ["a@1", "b@2", "-a"]


async def test_429_is_retried_after_the_requested_pause(api: FakeApi, follow: Follow, clock: VirtualClock) -> None:
    api.script(PATH, refused(429, "TooManyRequests", "slow down", retry_after=7), listed(A1))
    assert await follow().changes(1) == ["a@1"]
    assert clock.slept == [7.0]


async def test_missing_resource_counts_as_empty_until_it_is_installed(
    api: FakeApi, follow: Follow, clock: VirtualClock, caplog: pytest.LogCaptureFixture
) -> None:
    kind = ResourceKind("example.com", "v1", "widgets", "Widget")
    path = "/apis/example.com/v1/widgets"
    api.script(path, refused(404), refused(404), listed(A1), refused(404), refused(404))
    caplog.set_level("INFO", logger="pyscheduler")
    followed = follow(kind)
    async with asyncio.timeout(5):
        await followed.reflector.synced.wait()
    assert await followed.changes(2) == ["a@1", "-a"]
    await api.called(6)
    assert clock.slept[:4] == [NOT_FOUND_RETRY] * 4
    assert caplog.text.count("does not have this resource") == 2


async def test_undecodable_object_affects_only_itself(api: FakeApi, follow: Follow) -> None:
    counted: list[str] = []
    broken = {**B1, "spec": {"containers": "none"}}
    nameless = {"metadata": 7}
    bad_again = {**A2, "spec": {"containers": 1}}
    api.script(
        PATH, listed(broken, A1, nameless), watch(event("MODIFIED", bad_again)), expired(), listed(bad_again, C1)
    )
    followed = follow(refusals=Refusals(counted.append))
    assert await followed.changes(2) == ["a@1", "c@15"], "a stays as last decoded"
    await api.called(5)
    assert counted == ["pods"] * 4
    assert followed.nothing_more
    assert api.calls[2].query["resourceVersion"] == "12"


async def test_forbidden_optional_resource_counts_as_synced(
    api: FakeApi, follow: Follow, clock: VirtualClock, caplog: pytest.LogCaptureFixture
) -> None:
    kind = ResourceKind("example.com", "v1", "widgets", "Widget", optional=True)
    path, no = "/apis/example.com/v1/widgets", refused(403, "Forbidden", "widgets is forbidden")
    api.script(path, no, no, listed(A1), watch(cut=True), no)
    followed = follow(kind)
    async with asyncio.timeout(5):
        await followed.reflector.synced.wait()
    assert followed.nothing_more
    assert await followed.changes(1) == ["a@1"], "it is listed once it is allowed"
    assert clock.slept[:2] == [NOT_FOUND_RETRY] * 2
    await api.called(6)
    assert followed.nothing_more, "known objects stay when listing is forbidden later"
    assert caplog.text.count("Optional resource is forbidden") == 1


async def test_forbidden_resource_is_not_synced(api: FakeApi, follow: Follow) -> None:
    api.script(PATH, refused(403, "Forbidden", "pods is forbidden"), *[refused(403, "Forbidden", "still")] * 50)
    followed = follow()
    await api.called(3)
    assert not followed.reflector.synced.is_set()
    assert followed.reflector.problem in ("pods is forbidden", "still")


async def test_list_again_emits_only_changes(api: FakeApi, follow: Follow) -> None:
    api.script(PATH, listed(A1, B1))
    followed = follow()
    assert await followed.changes(2) == ["a@1", "b@2"]
    await api.called(2)  # the watch has begun, and stays silent
    api.script(PATH, listed(A1, C1, version=20))
    async with asyncio.timeout(5):
        await followed.reflector.list_again()
    assert await followed.changes(2) == ["c@15", "-b"]
    assert followed.reflector.synced.is_set()
    await api.called(4)
    assert api.calls[3].query["resourceVersion"] == "20"
    assert followed.nothing_more


async def test_list_again_interrupts_a_hanging_list(api: FakeApi, follow: Follow) -> None:
    hanging = Held(listed(A1))
    api.script(PATH, hanging, listed(B1))
    followed = follow()
    await api.called(1)
    async with asyncio.timeout(5):
        await followed.reflector.list_again()
    hanging.release.set()
    assert await followed.changes(1) == ["b@2"]
    assert followed.nothing_more


DIGITS = "9" * 5000
STRANGE = {
    "a superscript in Retry-After": Reply(429, b"", {"Retry-After": "\u00b2"}),
    "400 digits in Retry-After": Reply(429, b"", {"Retry-After": "9" * 400}),
    "a page without items": ok({"metadata": {"resourceVersion": DIGITS}}),
    "a version that is a number": ok({"metadata": {"resourceVersion": 7}, "items": []}),
    "items of another kind": ok({"metadata": {}, "items": [1, None, "x", [], {"metadata": {"name": 7}}]}),
    "not an object": ok([]),  # type: ignore[arg-type]
    "endless nesting": Reply(200, b"[" * 100_000),
    "nesting in an object": Reply(200, b'{"metadata":{},"items":[' + b'{"a":' * 100_000),
    "no UTF-8": Reply(200, b'{"metadata":{"resourceVersion":"\xff"}}'),
    "nothing": Reply(200, b""),
    "no content": Reply(204, b""),
    "a redirect": Reply(302, b"", {"Location": "/"}),
    "an unknown status": Reply(599, b"\0"),
}
WATCHED = {
    "an error of a strange code": event("ERROR", {"code": 10**30}),
    "an error that is not an object": event("ERROR", []),  # type: ignore[arg-type]
    "not an event": b"7\n[]\n{}\nnull\n",
    "an event without an object": b'{"type":"ADDED"}\n',
    "versions of 5,000 digits": event("MODIFIED", {**A2, "metadata": {**A2["metadata"], "resourceVersion": DIGITS}}),
    "endless nesting": b'{"type":"ADDED","object":' * 100_000 + b"\n",
    "a bookmark of nothing": event("BOOKMARK", {"metadata": {"resourceVersion": None}}),
}


@pytest.mark.parametrize("answer", STRANGE.values(), ids=STRANGE)
async def test_no_response_to_a_list_stops_the_reflector(api: FakeApi, follow: Follow, answer: Reply) -> None:
    api.script(PATH, *[answer] * 2, *[refused(500)] * 6, listed(A1), expired(), listed(A1, B1))
    followed = follow()
    assert {"a@1", "b@2"} <= {*await followed.changes(2)}


@pytest.mark.parametrize("line", WATCHED.values(), ids=WATCHED)
async def test_no_watch_event_stops_the_reflector(api: FakeApi, follow: Follow, line: bytes) -> None:
    api.script(PATH, listed(A1), watch(line), *[expired(), listed(A1, B1)] * 3)
    followed = follow()
    async with asyncio.timeout(5):
        while await followed.changes(1) != ["b@2"]:
            pass


async def test_exception_of_the_handler_is_logged_and_causes_a_relist(
    api: FakeApi, connection: Connection, clock: VirtualClock, caplog: pytest.LogCaptureFixture
) -> None:
    emitted: asyncio.Queue[str] = asyncio.Queue()

    def emit(change: Change[PodObject]) -> None:
        if isinstance(change, Upsert) and change.object.metadata.resource_version == "12":
            raise ZeroDivisionError("a bug")
        emitted.put_nowait(change.object.metadata.name if isinstance(change, Upsert) else "-")

    api.script(PATH, listed(A1), watch(event("MODIFIED", A2)), listed(A2, B1, version=20))
    decoder = ObjectDecoder("pods", PodObject, Refusals())
    reflector = Reflector(connection, Watched(PODS), decoder, emit, clock, random.Random(1))
    task = asyncio.create_task(reflector.run())
    async with asyncio.timeout(5):
        assert [await emitted.get(), await emitted.get()] == ["a", "b"]
    task.cancel()
    await asyncio.gather(task, return_exceptions=True)
    line = next(record for record in caplog.records if "relisting" in record.message)
    assert "ZeroDivisionError" in line.fields["traceback"]  # type: ignore[attr-defined]
    assert clock.slept, "an exception must not cause a tight loop"


async def test_a_dead_watch_is_logged_with_its_resource(
    api: FakeApi, kubeconfig: Path, clock: VirtualClock, caplog: pytest.LogCaptureFixture
) -> None:
    clock.step = 2.0
    connection = await connect(kubeconfig, ConnectionOptions(qps=-1, deadlines=Deadlines(watch=0.1, grace=-0.8)), clock)
    api.script(PATH, listed(A1))
    decoder = ObjectDecoder("pods", PodObject, Refusals())
    reflector = Reflector(connection, Watched(PODS), decoder, lambda _: None, clock, random.Random(1))
    task = asyncio.create_task(reflector.run())
    await api.called(4)
    task.cancel()
    await asyncio.gather(task, return_exceptions=True)
    await connection.close()
    assert [call.query.get("resourceVersion") for call in api.calls[:4]] == [None, "10", "10", "10"]
    line = next(record for record in caplog.records if "did not end" in record.message)
    assert line.fields["resource"] == "pods"  # type: ignore[attr-defined]
