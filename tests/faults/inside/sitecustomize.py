"""Test hooks of the scheduler process: Python imports this module at start, from the PYTHONPATH.

API calls time out after at most FAULTS_CALL_TIMEOUT seconds, and watches are renewed every FAULTS_WATCH seconds if that
is set. A blocked event loop counts as dead after FAULTS_GIVEN_UP_AFTER seconds instead of 60. The clocks are shifted by
the offsets in the file FAULTS_CLOCK. On SIGUSR1 the process logs the number of its asyncio tasks.
"""

from __future__ import annotations

import asyncio
import contextlib
import os
import signal
import sys
import time
from pathlib import Path
from typing import Any

import msgspec

from pyscheduler.clock import SystemClock
from pyscheduler.kube.connection import Connection, ConnectionOptions
from pyscheduler.shell import heartbeat

_patience = float(os.environ["FAULTS_CALL_TIMEOUT"])
_clock = Path(os.environ.get("FAULTS_CLOCK", ""))
_watch = float(os.environ.get("FAULTS_WATCH", "inf"))
_original_init = Connection.__init__
_offsets = [0.0, 0.0]


def _init_with_short_deadlines(
    self: Connection, credentials: Any, options: ConnectionOptions, *others: Any, **named: Any
) -> None:
    shipped = options.deadlines
    calls = {name: min(getattr(shipped, name), _patience) for name in ("connect", "response", "read", "grace")}
    deadlines = msgspec.structs.replace(shipped, **calls, watch=min(shipped.watch, _watch))
    _original_init(self, credentials, msgspec.structs.replace(options, deadlines=deadlines), *others, **named)


def _clock_offsets() -> list[float]:
    """Return the offsets of the wall clock and of the monotonic clock in seconds."""
    with contextlib.suppress(OSError, ValueError):  # the file is being written
        wall, now = _clock.read_text().split()
        _offsets[:] = float(wall), float(now)
    return _offsets


def _log_tasks(*_: object) -> None:
    tasks = len(asyncio.all_tasks(asyncio.get_running_loop()))
    sys.stderr.write(f"\ntasks={tasks}\n")
    sys.stderr.flush()


Connection.__init__ = _init_with_short_deadlines  # type: ignore[method-assign]
heartbeat.DEAD_AFTER = float(os.environ["FAULTS_GIVEN_UP_AFTER"])  # type: ignore[misc]
if _clock.is_file():
    SystemClock.wall = staticmethod(lambda: time.time() + _clock_offsets()[0])
    SystemClock.now = staticmethod(lambda: time.monotonic() + _clock_offsets()[1])
signal.signal(signal.SIGUSR1, _log_tasks)
