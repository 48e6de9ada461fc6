"""Watchdog: reports of the code that blocks the loop."""

from __future__ import annotations

import itertools
import logging
import sys
import threading
from collections.abc import Callable
from typing import Any

import pytest

from pyscheduler.api import Cycle, FilterPlugin, Handle, NodeInfo, Pod, PreBindPlugin
from pyscheduler.core.framework.handle import empty_handle
from pyscheduler.shell.heartbeat import PERIOD, Heartbeat
from pyscheduler.shell.metrics import Metrics
from pyscheduler.shell.plugin_calls import Running, running
from pyscheduler.shell.watchdog import BLOCKED_AFTER, Watchdog
from pyscheduler.testing import pod
from tests.unit.kube.virtual import VirtualClock

POD = pod("slow").build()
UNUSED: Any = None


class Slow(FilterPlugin, PreBindPlugin):
    """Calls `during` inside each of its methods."""

    name = "Slow"

    def __init__(self, during: Callable[[], None]) -> None:
        super().__init__(None, empty_handle())
        self.during = during

    def filter(self, cycle: Cycle, pod: Pod, node: NodeInfo) -> None:
        helper(self.during)

    async def pre_bind(self, cycle: Cycle, pod: Pod, node_name: str, api: Any) -> None:
        helper(self.during)

    def other_method(self, pod: Pod) -> None:
        helper(self.during)


class Calling(FilterPlugin):
    """A plugin that calls another one."""

    name = "Calling"

    def __init__(self, other: Slow, args: Any = None, handle: Handle | None = None) -> None:
        super().__init__(args, handle or empty_handle())
        self.other = other

    def filter(self, cycle: Cycle, pod: Pod, node: NodeInfo) -> None:
        self.other.filter(cycle, pod, node)


def helper(during: Callable[[], None]) -> None:
    during()


def seen() -> tuple[Callable[[], None], list[Running]]:
    found: list[Running] = []
    return lambda: found.append(running(sys._getframe())), found


def test_plugin_is_found_with_extension_point_pod_and_line() -> None:
    look, found = seen()
    Slow(look).filter(UNUSED, POD, UNUSED)
    assert (found[0].plugin, found[0].point, found[0].pod) == ("Slow", "Filter", "default/slow")
    assert "test_watchdog.py:" in found[0].line


def test_coroutine_of_a_plugin_is_found() -> None:
    look, found = seen()
    with pytest.raises(StopIteration):
        Slow(look).pre_bind(UNUSED, POD, "n1", UNUSED).send(None)
    assert (found[0].plugin, found[0].point) == ("Slow", "PreBind")


def test_innermost_plugin_is_found() -> None:
    look, found = seen()
    Calling(Slow(look)).filter(UNUSED, POD, UNUSED)
    assert found[0].plugin == "Slow"


def test_method_without_an_extension_point_is_reported_by_name() -> None:
    look, found = seen()
    Slow(look).other_method(POD)
    assert (found[0].plugin, found[0].point) == ("Slow", "other_method")


def test_line_is_found_without_a_plugin() -> None:
    look, found = seen()
    helper(look)
    assert found[0].plugin == found[0].point == ""
    assert "test_watchdog.py:" in found[0].line


class WatchdogFixture:
    """A heartbeat on a manual clock, and its watchdog."""

    def __init__(self) -> None:
        self.clock, self.metrics = VirtualClock(), Metrics()
        self.heartbeat = Heartbeat(self.clock)
        self.watchdog = Watchdog(self.heartbeat, self.metrics, lambda _: sys._getframe())

    def pass_time(self, seconds: float, beating: bool = False) -> None:
        for _ in range(round(seconds / PERIOD)):
            self.clock.at += PERIOD
            if beating:
                self.heartbeat.at = self.clock.at
            self.watchdog.check()

    def blocks(self) -> dict[tuple[str, ...], float]:
        return dict(self.metrics.loop_blocks.counts)


@pytest.fixture
def fixture(caplog: pytest.LogCaptureFixture) -> WatchdogFixture:
    caplog.set_level(logging.INFO, "pyscheduler")
    return WatchdogFixture()


def lines(caplog: pytest.LogCaptureFixture, message: str) -> list[dict[str, Any]]:
    return [record.__dict__["fields"] for record in caplog.records if record.getMessage() == message]


def test_running_loop_is_not_reported(fixture: WatchdogFixture, caplog: pytest.LogCaptureFixture) -> None:
    fixture.pass_time(100.0, beating=True)
    assert (fixture.blocks(), fixture.metrics.loop_blocked.read(), caplog.records) == ({}, {}, [])


def test_blocking_plugin_is_reported_while_it_blocks(
    fixture: WatchdogFixture, caplog: pytest.LogCaptureFixture
) -> None:
    shown: list[dict[tuple[str, ...], float]] = []

    def block() -> None:
        fixture.pass_time(3.0)
        shown.append(dict(fixture.metrics.loop_blocked.read()))
        assert lines(caplog, "Plugin blocks the scheduling loop")
        fixture.pass_time(9.0)
        shown.append(dict(fixture.metrics.loop_blocked.read()))

    Slow(block).filter(UNUSED, POD, UNUSED)
    assert shown == [{("Slow", "Filter"): 3.0}, {("Slow", "Filter"): 12.0}]
    assert fixture.blocks() == {("Slow", "Filter"): 1}
    fixture.pass_time(PERIOD, beating=True)
    assert fixture.metrics.loop_blocked.read() == {}
    reports = lines(caplog, "Plugin blocks the scheduling loop")
    assert [report["seconds"] for report in reports] == [1.0, 2.0, 4.0, 8.0], "at doubled intervals"
    assert (reports[0]["plugin"], reports[0]["extensionPoint"], reports[0]["pod"]) == ("Slow", "Filter", "default/slow")
    (over,) = lines(caplog, "Scheduling loop is no longer blocked")
    assert (over["plugin"], over["seconds"]) == ("Slow", 12.2)


def test_each_block_is_counted_and_reported(fixture: WatchdogFixture, caplog: pytest.LogCaptureFixture) -> None:
    for _ in range(3):
        Slow(lambda: fixture.pass_time(1.5)).filter(UNUSED, POD, UNUSED)
        fixture.pass_time(1.0, beating=True)
    assert fixture.blocks() == {("Slow", "Filter"): 3}
    assert len(lines(caplog, "Plugin blocks the scheduling loop")) == 3


def test_block_outside_plugins_is_reported_with_its_line(
    fixture: WatchdogFixture, caplog: pytest.LogCaptureFixture
) -> None:
    fixture.pass_time(1.5)
    assert fixture.blocks() == {("", ""): 1}
    (report,) = lines(caplog, "Scheduling loop is blocked")
    assert "line" in report


def test_frozen_process_is_not_reported_as_blocked(fixture: WatchdogFixture, caplog: pytest.LogCaptureFixture) -> None:
    fixture.pass_time(1.0, beating=True)
    fixture.clock.at += 100.0  # the watchdog was frozen too, and runs before the loop
    fixture.watchdog.check()
    fixture.pass_time(1.0, beating=True)
    assert (fixture.blocks(), caplog.records) == ({}, [])


def test_short_call_is_not_reported(fixture: WatchdogFixture) -> None:
    Slow(lambda: fixture.pass_time(BLOCKED_AFTER - PERIOD)).filter(UNUSED, POD, UNUSED)
    assert fixture.blocks() == {}


def test_watchdog_thread_ends_with_the_block(fixture: WatchdogFixture) -> None:
    with fixture.watchdog as watchdog:
        assert watchdog._thread.is_alive()
    assert not watchdog._thread.is_alive()


def test_watchdog_continues_after_an_exception(caplog: pytest.LogCaptureFixture) -> None:
    checks, twice = itertools.count(1), threading.Event()

    def broken(_: int) -> None:
        if next(checks) == 2:
            twice.set()
        raise AttributeError("this plugin has no name")

    with Watchdog(WatchdogFixture().heartbeat, Metrics(), broken):
        assert twice.wait(30)
    assert (
        lines(caplog, "Watchdog failed to inspect the main loop")[0]["err"] == "AttributeError: this plugin has no name"
    )
