"""Faults of watches: they end, repeat, reorder or lose events; in the end the scheduler's cache is correct."""

from __future__ import annotations

import pytest

from tests.faults.fault_actions import (
    GONE,
    INTERNAL,
    TOO_MANY,
    WatchRecorder,
    bookmark,
    cut_after,
    duplicated,
    gone_event,
    reject,
    reordered,
    replay,
    send_lines,
    send_lines_then_hang,
)
from tests.faults.fault_namespace import NODES, FaultNamespace
from tests.faults.proxy import Fault
from tests.faults.request_matchers import Matcher, lists, watches
from tests.faults.scheduler_under_test import SchedulerUnderTest

pytestmark = pytest.mark.asyncio(loop_scope="session")

POD_WATCH: Matcher = watches("pods")
FULL = NODES * 4
"""Pods of one core that fill the nodes."""


def count_requests(ns: FaultNamespace, matches: Matcher) -> int:
    """Return the number of matching requests of the scheduler."""
    return sum(map(matches, ns.proxy.log))


@pytest.mark.parametrize(
    ("fault", "times"),
    [
        pytest.param(cut_after(3), 3, id="cut in the middle"),
        pytest.param(cut_after(0), 2, id="cut at once"),
        pytest.param(reject(INTERNAL), 2, id="500"),
        pytest.param(reject(TOO_MANY, 1), 2, id="429 with Retry-After"),
        pytest.param(reject(GONE), 1, id="410 as a status"),
        pytest.param(send_lines(gone_event(), after=3), 1, id="410 as an event"),
        pytest.param(send_lines(b'{"type": "MODI', after=3), 1, id="half a line"),
    ],
)
async def test_pods_are_bound_after_a_watch_fails(ns: FaultNamespace, fault: Fault, times: int) -> None:
    with ns.proxy.rule(POD_WATCH, fault, times) as rule:
        assert ns.proxy.cut(POD_WATCH)
        await ns.create_pods(20)
        await rule.wait_matched(times)
        await ns.wait_for_bound(20)


async def test_all_watches_are_opened_again_after_a_cut(ns: FaultNamespace) -> None:
    before = ns.proxy.watches
    await ns.create_pods(20, prefix="before")
    await ns.wait_for_watches(before)  # one may just be opened again, at the end of its time
    assert ns.proxy.cut(watches()) == before.total() > 1
    await ns.create_pods(20, prefix="after")
    await ns.wait_for_bound(40)
    await ns.wait_for_watches(before)


async def test_duplicate_watch_events_count_once(ns: FaultNamespace) -> None:
    with ns.proxy.rule(POD_WATCH, duplicated) as rule:
        ns.proxy.cut(POD_WATCH)
        await rule.wait_matched()
        await refill(ns)
    ns.proxy.cut(POD_WATCH)


async def test_reordered_watch_events_count_once(ns: FaultNamespace) -> None:
    with ns.proxy.rule(POD_WATCH, reordered) as rule:
        ns.proxy.cut(POD_WATCH)
        await rule.wait_matched()
        await refill(ns)
    ns.proxy.cut(POD_WATCH)


@pytest.mark.parametrize("backwards", [False, True], ids=["in order", "backwards"])
async def test_replayed_watch_events_do_not_revive_deleted_pods(ns: FaultNamespace, backwards: bool) -> None:
    memory = WatchRecorder()
    with ns.proxy.rule(POD_WATCH, memory, times=1) as rule:
        ns.proxy.cut(POD_WATCH)
        await rule.wait_matched()
        await ns.create_pods(FULL, prefix="old", cpu="1")
        await ns.wait_for_bound(FULL)
    old_lines = list(memory.lines)  # the pods are bound and not deleted yet
    await ns.delete_pods()
    replayed = replay(reversed(old_lines) if backwards else old_lines)
    before = count_requests(ns, lists("pods"))
    with ns.proxy.rule(POD_WATCH, replayed, times=1) as rule, ns.proxy.rule(POD_WATCH, reject(GONE), times=1):
        ns.proxy.cut(POD_WATCH)
        await rule.wait_matched()
        await ns.create_pods(FULL, prefix="new", cpu="1")
        await ns.wait_for_bound(FULL)
    assert count_requests(ns, lists("pods")) > before


async def test_watch_resumes_from_a_bookmark_without_a_list(ns: FaultNamespace, subject: SchedulerUnderTest) -> None:
    """A watch without events that is cut resumes from its last bookmark, without a list."""
    version = (await ns.plane.api.get("/api/v1/pods", limit=1))["metadata"]["resourceVersion"]
    with ns.proxy.rule(POD_WATCH, send_lines_then_hang(bookmark("Pod", version)), times=1) as rule:
        ns.proxy.cut(POD_WATCH)
        await rule.wait_matched()
        await ns.create_pods(20)
        await subject.metrics()  # its response shows that the bookmark, which was sent earlier, has been read
    before = count_requests(ns, lists("pods"))
    with ns.proxy.rule(POD_WATCH, WatchRecorder(), times=1) as resumed:
        ns.proxy.cut(POD_WATCH)
        await resumed.wait_matched()
        await ns.wait_for_bound(20)
    assert resumed.matched[0].query["resourceVersion"] == version
    assert count_requests(ns, lists("pods")) == before


async def refill(ns: FaultNamespace) -> None:
    """Fill all nodes twice: pods wrongly kept in the cache would leave no room for the second time."""
    for prefix in ("one", "two"):
        await ns.create_pods(FULL, prefix=prefix, cpu="1")
        await ns.wait_for_bound(FULL)
        await ns.delete_pods()
