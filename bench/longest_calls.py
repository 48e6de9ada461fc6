"""Timed calls of the machine, of which the longest counts."""

from __future__ import annotations

import gc
import time
from collections.abc import Callable
from typing import Any, NamedTuple

from pyscheduler.shell.gc_tuning import CollectorBySize
from pyscheduler.shell.loop import BURST


class Row(NamedTuple):
    """An event or attempt and its longest call, in milliseconds."""

    what: str
    longest: float
    calls: int
    """Calls of the machine until all work was done."""
    first: float = 0.0
    """Longest call of the first repetition, which may also build label columns."""


def timed(call: Callable[[], Any]) -> tuple[float, Any]:
    """Return the CPU milliseconds and the result; then run the garbage collector as the scheduling loop does."""
    began = time.process_time()
    result = call()
    spent = time.process_time() - began
    collector.after(spent)
    return spent * 1e3, result


class Collector:
    """Collects garbage as the scheduling loop does, after each burst."""

    def __init__(self) -> None:
        self._spent = 0.0
        self._by_size = CollectorBySize()

    def after(self, seconds: float) -> None:
        self._spent += seconds
        if self._spent >= BURST and gc.isenabled():
            self._spent = 0.0
            self._by_size.collect()


collector = Collector()
