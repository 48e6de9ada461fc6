"""Watchdog thread that reports, in the log and in metrics, which plugin call blocks the main loop."""

from __future__ import annotations

import sys
import threading
from collections.abc import Callable, Mapping
from types import FrameType
from typing import Final, Self

from pyscheduler import logs
from pyscheduler.shell.counting import Labels
from pyscheduler.shell.heartbeat import PERIOD, Heartbeat
from pyscheduler.shell.metrics import Metrics
from pyscheduler.shell.plugin_calls import Running, running

BLOCKED_AFTER: Final = 1.0
"""Seconds without a heartbeat after which the loop counts as blocked."""
_log = logs.get("watchdog")


class Watchdog:
    """Watches the event loop of the thread that enters it."""

    def __init__(
        self, heartbeat: Heartbeat, metrics: Metrics, stack: Callable[[int], FrameType | None] | None = None
    ) -> None:
        """`stack` returns the innermost frame of a thread."""
        self._heartbeat = heartbeat
        self._blocks = metrics.loop_blocks.counts
        metrics.loop_blocked.set_function(self._blocked_seconds)
        self._stack = stack or _stack
        self._watched = threading.get_ident()
        self._stopped = threading.Event()
        self._thread = threading.Thread(target=self._watch, name="watchdog", daemon=True)
        self._beat = heartbeat.at
        self._missed = 0
        """Number of checks since the last beat."""
        self._running: Running | None = None
        """Plugin call that blocks the loop; None while it is not blocked."""
        self._next_report = BLOCKED_AFTER

    def __enter__(self) -> Self:
        self._watched = threading.get_ident()
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._stopped.set()
        self._thread.join()

    def check(self) -> None:
        """Check the loop and report if it is or was blocked; call it every `PERIOD`."""
        before, self._beat = self._beat, self._heartbeat.at
        if self._beat != before:
            self._missed = 0
            self._end(self._beat - before)
            return
        # Count checks instead of seconds: after a freeze of the whole process, the loop may beat first.
        self._missed += 1
        if self._missed * PERIOD < BLOCKED_AFTER:
            return
        silence = self._heartbeat.silence()
        first, self._running = self._running is None, running(self._stack(self._watched))
        if first:
            self._blocks[self._running.plugin, self._running.point] += 1
        if silence >= self._next_report:
            self._next_report = 2 * silence
            self._report(self._running, silence)

    def _report(self, call: Running, silence: float) -> None:
        seconds = round(silence, 1)
        if call.plugin:
            _log.warning(
                "Plugin blocks the scheduling loop",
                plugin=call.plugin,
                extensionPoint=call.point,
                pod=call.pod,
                seconds=seconds,
                line=call.line,
            )
        else:
            _log.warning("Scheduling loop is blocked", seconds=seconds, line=call.line)

    def _end(self, seconds: float) -> None:
        call, self._running, self._next_report = self._running, None, BLOCKED_AFTER
        if call is not None:
            _log.info("Scheduling loop is no longer blocked", plugin=call.plugin, seconds=round(seconds, 1))

    def _watch(self) -> None:
        while not self._stopped.wait(PERIOD):
            try:
                self.check()
            except Exception as error:  # attributes of users' objects may raise anything
                _log.crash("Watchdog failed to inspect the main loop", error)

    def _blocked_seconds(self) -> Mapping[Labels, float]:
        call = self._running
        return {} if call is None else {(call.plugin, call.point): self._heartbeat.silence()}


def _stack(thread: int) -> FrameType | None:
    return sys._current_frames().get(thread)
