"""How the core calls a plugin: timed where the attempt is watched, and a bug of the plugin's is named after it."""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeVar, TypeVarTuple

from pyscheduler.api.cycle import Cycle
from pyscheduler.api.plugin import Plugin
from pyscheduler.core.framework.failure import PluginFailed

T = TypeVar("T")
Ts = TypeVarTuple("Ts")


def guarded(plugin: Plugin, point: str, call: Callable[[*Ts], T], *args: *Ts) -> T:
    """What `call` comes to, which asks the plugin for something beside its answer. PluginFailed if it raises."""
    try:
        return call(*args)
    except Exception as error:
        raise PluginFailed(plugin.name, point, error) from error


def called(plugin: Plugin, point: str, call: Callable[[Cycle, *Ts], T], cycle: Cycle, *args: *Ts) -> T:
    """What `call`, a method of the plugin's, answers at the extension point. PluginFailed if it raises.

    Filter and Score of single nodes, which are asked many times in an attempt, do the same by themselves.
    """
    try:
        answer = call(cycle, *args) if cycle.watch is None else cycle.watch(plugin.name, point, call, cycle, *args)
        if cycle.timer is not None:
            cycle.check_time(plugin.name, point)
        return answer
    except Exception as error:
        raise PluginFailed(plugin.name, point, error) from error
