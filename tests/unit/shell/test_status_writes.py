"""Pod conditions and nominations are written one at a time per pod, and never overtake its binding."""

from __future__ import annotations

from pyscheduler.core.commands import (
    EventType,
    PatchStatus,
    Record,
)
from pyscheduler.shell.patcher import WORKERS as PATCHERS
from pyscheduler.testing import pod

from .test_executor import ExecutorFixture, Slow, bind, executing, settle, unfit


async def test_only_the_newest_condition_of_a_pod_is_written() -> None:
    fixture = ExecutorFixture()
    async with executing(fixture) as executor:
        for name, message in (("a", "first"), ("b", "only"), ("a", "second")):
            executor.execute(unfit(name, message))
        executor.execute(Record(EventType.WARNING, "FailedScheduling", "Scheduling", "first", pod("a").build()))
        await settle()
    assert sorted(fixture.patched) == ["a: second", "b: only"]
    assert fixture.recorded == ["FailedScheduling"]


async def test_replaced_status_keeps_the_fields_that_the_newer_one_lacks() -> None:
    nominated = unfit("a", "no room", "n1")
    cleared = PatchStatus(pod("a").build(), None, "")
    assert cleared.after(nominated) == PatchStatus(cleared.pod, nominated.condition, "")
    fixture = ExecutorFixture()
    async with executing(fixture) as executor:
        executor.execute(nominated)
        executor.execute(cleared)
        await settle()
    assert fixture.patched == ["a: no room"]


async def test_status_writes_of_a_pod_are_serialised() -> None:
    fixture = Slow()
    async with executing(fixture) as executor:
        executor.execute(unfit("a", "first"))
        await settle()
        executor.execute(unfit("a", "second"))
        executor.execute(unfit("b", "other"))
        await settle()
        assert fixture.patched == ["b: other"], "the server could apply the older one last"
        fixture.awake.set()
        await settle()
    assert fixture.patched == ["b: other", "a: first", "a: second"]


async def test_queued_status_of_a_pod_is_dropped_when_it_is_being_bound() -> None:
    """The API server would reject the nomination but accept the condition: a bound pod marked Unschedulable."""
    fixture, others = Slow(), [f"p{number:02}" for number in range(PATCHERS)]
    fixture.release.set()
    async with executing(fixture) as executor:
        for name in (*others, "a"):
            message = "no room" if name == "a" else "first"
            executor.execute(unfit(name, message, "n1"))
        await settle()  # the others are being written, and `a` waits
        executor.execute(bind("a"))
        await settle()
        fixture.awake.set()
        await settle()
    assert fixture.bound == ["a"]
    assert sorted(fixture.patched) == [f"{name}: first" for name in others]


async def test_statuses_of_several_pods_are_written_concurrently() -> None:
    """With 4 workers, 10,000 unschedulable pods would take two minutes at a latency of 50 ms."""
    fixture = Slow()
    async with executing(fixture) as executor:
        for number in range(2 * PATCHERS):
            executor.execute(unfit(f"p{number}", "first"))
        await settle()
        assert (fixture.patching, PATCHERS) == (PATCHERS, 16)
        fixture.awake.set()
        await settle()
    assert len(fixture.patched) == 2 * PATCHERS


async def test_binding_waits_for_a_status_write_of_its_pod() -> None:
    fixture = Slow()
    fixture.release.set()
    async with executing(fixture) as executor:
        executor.execute(unfit("a", "first"))
        await settle()
        for name in "ab":
            executor.execute(bind(name))
        await settle()
        assert fixture.bound == ["b"]
        fixture.awake.set()
        await settle()
    assert (fixture.patched, fixture.bound) == (["a: first"], ["b", "a"])
