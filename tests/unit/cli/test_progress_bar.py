"""A long command shows a bar on a terminal, and lines elsewhere."""

from __future__ import annotations

import asyncio
import io

import pytest

from pyscheduler.cli.progress_bar import ProgressBar
from tests.unit.cli.terminal import CLEAR, Terminal
from tests.unit.kube.virtual import SteppedClock, VirtualClock


def steps(bar: ProgressBar, clock: VirtualClock, count: int, seconds: float) -> None:
    for _ in bar.track(range(count), "placing pods", count):
        clock.at += seconds


@pytest.mark.parametrize("stream", [io.StringIO(), Terminal()])
def test_quick_command_shows_no_progress(stream: io.StringIO) -> None:
    clock = VirtualClock()
    with ProgressBar("decide", stream=stream, clock=clock) as bar:
        steps(bar, clock, count=20, seconds=0.1)
    assert stream.getvalue() == ""


def test_lines_are_five_seconds_apart_without_a_terminal() -> None:
    clock, stream = VirtualClock(), io.StringIO()
    with ProgressBar("decide", stream=stream, clock=clock) as bar:
        steps(bar, clock, count=1024, seconds=1 / 64)
    assert stream.getvalue().splitlines() == [
        "decide: placing pods, 128 of 1,024, 2 s",
        "decide: placing pods, 448 of 1,024, 7 s",
        "decide: placing pods, 768 of 1,024, 12 s",
    ]


def test_bar_is_drawn_in_place_and_removed_at_the_end() -> None:
    clock, stream = VirtualClock(), Terminal()
    with ProgressBar("decide", stream=stream, clock=clock) as bar:
        steps(bar, clock, count=4, seconds=1.0)
    drawn = stream.getvalue().split(CLEAR)
    assert drawn == [
        "",
        "[############------------] decide: placing pods, 2 of 4, 2 s",
        "[##################------] decide: placing pods, 3 of 4, 3 s",
        "",
    ]


@pytest.mark.parametrize(
    ("columns", "drawn"),
    [
        ("60", "[############------------] a long title: plac…, 1 of 2, 3 s"),
        ("30", "[############------------] , 1"),
    ],
)
def test_bar_fits_into_a_narrow_terminal(columns: str, drawn: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("COLUMNS", columns)
    clock, stream = VirtualClock(), Terminal()
    bar = ProgressBar("a long title", stream=stream, clock=clock)
    clock.at += 3
    bar.show("placing pods", 1, 2)
    assert stream.getvalue() == CLEAR + drawn[: int(columns) - 1]


async def test_step_is_shown_with_the_time_that_passes_and_removed_at_its_end() -> None:
    clock, stream = SteppedClock(), Terminal()
    async with ProgressBar("bench", stream=stream, clock=clock).step("round 1", 1, 2):
        for _ in range(4):
            await clock.until_asleep(1)
            await clock.advance(1.0)
    await clock.advance(10.0)

    drawn = [f"[############------------] bench: round 1, 1 of 2, {seconds} s" for seconds in (2, 3, 4)]
    assert stream.getvalue().split(CLEAR) == ["", *drawn, ""]


async def test_step_that_fails_is_removed_too() -> None:
    clock, stream = SteppedClock(), Terminal()

    async def fail() -> None:
        async with ProgressBar("bench", stream=stream, clock=clock).step("round 1", 1, 2):
            await clock.until_asleep(1)
            await clock.advance(5.0)
            raise ConnectionError

    with pytest.raises(ConnectionError):
        await fail()

    assert stream.getvalue().endswith(CLEAR)
    assert len(asyncio.all_tasks()) == 1


async def test_command_with_lines_of_its_own_gets_none_of_the_bar() -> None:
    clock, stream = SteppedClock(), io.StringIO()
    bar = ProgressBar("bench", stream=stream, clock=clock, lines=False)
    async with bar.step("round 1", 1, 2):
        clock.at += 60
        bar.show("round 1", 1, 2)

    assert stream.getvalue() == ""
