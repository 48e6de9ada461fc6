"""A long command shows a bar on a terminal, and lines elsewhere."""

from __future__ import annotations

import io

import pytest

from pyscheduler.cli.progress_bar import ProgressBar
from tests.unit.kube.virtual import VirtualClock


class Terminal(io.StringIO):
    def isatty(self) -> bool:
        return True


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
    drawn = stream.getvalue().split("\r\x1b[K")
    assert drawn == [
        "",
        "[############------------] decide: placing pods, 2 of 4, 2 s",
        "[##################------] decide: placing pods, 3 of 4, 3 s",
        "",
    ]


def test_bar_fits_into_a_narrow_terminal(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("COLUMNS", "30")
    clock, stream = VirtualClock(), Terminal()
    bar = ProgressBar("a long title", stream=stream, clock=clock)
    clock.at += 3
    bar.show("placing pods", 1, 2)
    assert stream.getvalue() == "\r\x1b[K[############------------] a "
