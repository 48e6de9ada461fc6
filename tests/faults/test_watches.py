"""Watches that end, stutter, repeat themselves or lose the thread: in the end all pods are where the cluster says."""

from __future__ import annotations

import pytest

from tests.faults.fault_actions import (
    GONE,
    INTERNAL,
    TOO_MANY,
    WatchRecorder,
    bookmark,
    cut_after,
    gone_event,
    refuses,
    repeating,
    says,
    shuffled,
    stays_silent_after,
    twice,
)
from tests.faults.fault_namespace import NODES, FaultNamespace
from tests.faults.proxy import Fault
from tests.faults.request_matchers import Matcher, lists, watches
from tests.faults.scheduler_under_test import SchedulerUnderTest

pytestmark = pytest.mark.asyncio(loop_scope="session")

POD_WATCH: Matcher = watches("pods")
FULL = NODES * 4
"""Pods of one core that fill the nodes."""


def asked_for(world: FaultNamespace, matches: Matcher) -> int:
    """How often the scheduler has asked."""
    return sum(map(matches, world.proxy.log))


@pytest.mark.parametrize(
    ("fault", "times"),
    [
        pytest.param(cut_after(3), 3, id="cut in the middle"),
        pytest.param(cut_after(0), 2, id="cut at once"),
        pytest.param(refuses(INTERNAL), 2, id="500"),
        pytest.param(refuses(TOO_MANY, 1), 2, id="429 with Retry-After"),
        pytest.param(refuses(GONE), 1, id="410 as a status"),
        pytest.param(says(gone_event(), after=3), 1, id="410 as an event"),
        pytest.param(says(b'{"type": "MODI', after=3), 1, id="half a line"),
    ],
)
async def test_a_watch_that_ends_badly(world: FaultNamespace, fault: Fault, times: int) -> None:
    with world.proxy.rule(POD_WATCH, fault, times) as rule:
        assert world.proxy.cut(POD_WATCH)
        await world.flood(20)
        await rule.met(times)
        await world.many_bound(20)


async def test_all_watches_cut_at_once(world: FaultNamespace) -> None:
    before = world.proxy.watches
    await world.flood(20, prefix="before")
    assert world.proxy.cut(watches()) == before.total() > 1
    await world.flood(20, prefix="after")
    await world.many_bound(40)
    await world.all_watched(before)


async def test_everything_is_told_twice(world: FaultNamespace) -> None:
    with world.proxy.rule(POD_WATCH, twice) as rule:
        world.proxy.cut(POD_WATCH)
        await rule.met()
        await refill(world)
    world.proxy.cut(POD_WATCH)


async def test_everything_is_told_in_another_order(world: FaultNamespace) -> None:
    with world.proxy.rule(POD_WATCH, shuffled) as rule:
        world.proxy.cut(POD_WATCH)
        await rule.met()
        await refill(world)
    world.proxy.cut(POD_WATCH)


@pytest.mark.parametrize("backwards", [False, True], ids=["in order", "backwards"])
async def test_what_was_told_before_a_relist_is_told_again(world: FaultNamespace, backwards: bool) -> None:
    memory = WatchRecorder()
    with world.proxy.rule(POD_WATCH, memory, times=1) as rule:
        world.proxy.cut(POD_WATCH)
        await rule.met()
        await world.flood(FULL, prefix="old", cpu="1")
        await world.many_bound(FULL)
    told = list(memory.lines)  # of pods that are placed, and nothing yet of their end
    await world.empty()
    again = repeating(reversed(told) if backwards else told)
    before = asked_for(world, lists("pods"))
    with world.proxy.rule(POD_WATCH, again, times=1) as rule, world.proxy.rule(POD_WATCH, refuses(GONE), times=1):
        world.proxy.cut(POD_WATCH)
        await rule.met()
        await world.flood(FULL, prefix="new", cpu="1")
        await world.many_bound(FULL)
    assert asked_for(world, lists("pods")) > before


async def test_nothing_but_bookmarks(world: FaultNamespace, subject: SchedulerUnderTest) -> None:
    """A quiet watch that is cut goes on from the last bookmark, and asks for no list."""
    version = (await world.plane.api.get("/api/v1/pods", limit=1))["metadata"]["resourceVersion"]
    with world.proxy.rule(POD_WATCH, stays_silent_after(bookmark("Pod", version)), times=1) as rule:
        world.proxy.cut(POD_WATCH)
        await rule.met()
        await world.flood(20)
        await subject.metrics()  # whoever answers this has read the bookmark, which came before
    before = asked_for(world, lists("pods"))
    with world.proxy.rule(POD_WATCH, WatchRecorder(), times=1) as resumed:
        world.proxy.cut(POD_WATCH)
        await resumed.met()
        await world.many_bound(20)
    assert resumed.struck[0].query["resourceVersion"] == version
    assert asked_for(world, lists("pods")) == before


async def refill(world: FaultNamespace) -> None:
    """Fill all nodes, twice: what is taken to be there and is not would keep the second from their places."""
    for prefix in ("one", "two"):
        await world.flood(FULL, prefix=prefix, cpu="1")
        await world.many_bound(FULL)
        await world.empty()
