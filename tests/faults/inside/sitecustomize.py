"""Lies on the scheduler's PYTHONPATH, so that Python loads it there before anything else.

It changes four things about the process: each deadline of a call is at most FAULTS_PATIENCE seconds, and watches are
renewed every FAULTS_WATCH seconds if that is set; a loop that is blocked is given up after FAULTS_GIVEN_UP_AFTER
seconds instead of sixty; its clocks are shifted as the file of FAULTS_CLOCK specifies; and on SIGUSR1 it logs how many
tasks it has.
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

from pyscheduler.shell import heartbeat
from pyscheduler.shell.clock import SystemClock
from pyscheduler.shell.kube.connection import Connection, ConnectionOptions

_patience = float(os.environ["FAULTS_PATIENCE"])
_clock = Path(os.environ.get("FAULTS_CLOCK", ""))
_watch = float(os.environ.get("FAULTS_WATCH", "inf"))
_made = Connection.__init__
_known = [0.0, 0.0]


def _made_impatient(
    self: Connection, credentials: Any, options: ConnectionOptions, clock: Any, metrics: Any = None
) -> None:
    shipped = options.deadlines
    calls = {name: min(getattr(shipped, name), _patience) for name in ("connect", "answer", "read", "grace")}
    impatient = msgspec.structs.replace(shipped, **calls, watch=min(shipped.watch, _watch))
    _made(self, credentials, msgspec.structs.replace(options, deadlines=impatient), clock, metrics)


def _wrong_by() -> list[float]:
    """Seconds that the wall clock and the monotonic one are off."""
    with contextlib.suppress(OSError, ValueError):  # it is being written
        wall, now = _clock.read_text().split()
        _known[:] = float(wall), float(now)
    return _known


def _tell_tasks(*_: object) -> None:
    tasks = len(asyncio.all_tasks(asyncio.get_running_loop()))
    sys.stderr.write(f"\ntasks={tasks}\n")
    sys.stderr.flush()


Connection.__init__ = _made_impatient  # type: ignore[method-assign]
heartbeat.DEAD_AFTER = float(os.environ["FAULTS_GIVEN_UP_AFTER"])  # type: ignore[misc]
if _clock.is_file():
    SystemClock.wall = staticmethod(lambda: time.time() + _wrong_by()[0])
    SystemClock.now = staticmethod(lambda: time.monotonic() + _wrong_by()[1])
signal.signal(signal.SIGUSR1, _tell_tasks)
