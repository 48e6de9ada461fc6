"""Guarded plugin calls: observed, timed, with the result checked and any failure attributed to the plugin."""

from __future__ import annotations

from collections.abc import Callable, Generator
from typing import Any, TypeVar, TypeVarTuple

from pyscheduler.api.cycle import Cycle
from pyscheduler.api.plugin import Plugin
from pyscheduler.core.framework.plugin_failure import raise_plugin_failed
from pyscheduler.core.framework.result_checks import EXPECTED, check_result

T = TypeVar("T")
Ts = TypeVarTuple("Ts")


def call_guarded(plugin: str, point: str, call: Callable[[*Ts], T], *args: *Ts) -> T:
    """Call code of a plugin outside of an attempt and return its result. PluginFailed if it fails."""
    try:
        result = call(*args)
        expected = EXPECTED.get(point)
        if expected is not None and type(result) not in expected.types:
            check_result(point, call, result)
        return result
    except BaseException as error:
        raise_plugin_failed(plugin, point, error)


def call_plugin(plugin: Plugin, point: str, call: Callable[[Cycle, *Ts], T], cycle: Cycle, *args: *Ts) -> T:
    """Call a plugin's method at an extension point and return its result. PluginFailed if it fails.

    Filter and Score of single nodes, which run many times in an attempt, inline these steps.
    """
    try:
        observer = cycle.call_observer
        result = call(cycle, *args) if observer is None else observer(plugin.name, point, call, cycle, *args)
        if cycle.timer is not None:
            cycle.check_time(plugin.name, point)
        expected = EXPECTED.get(point)
        if expected is not None and type(result) not in expected.types:
            check_result(point, call, result)
        return result
    except BaseException as error:
        raise_plugin_failed(plugin.name, point, error)


def run_step(steps: Generator[Any, None, Any]) -> StopIteration | None:
    """Run one step of a plugin's generator. Return the StopIteration with the result if it was the last one."""
    try:
        next(steps)
    except StopIteration as end:
        return end
    return None
