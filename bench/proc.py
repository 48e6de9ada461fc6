"""What the kernel says of processes and of the machine (Linux only): CPU time, peak memory, time of start."""

from __future__ import annotations

import os
import time
from pathlib import Path

_TICK = 1 / os.sysconf("SC_CLK_TCK")
_ALL_OF_IT = 2
"""Of the clocks of a process the one that counts user and system time (CPUCLOCK_SCHED)."""
_IDLE = (3, 4)  # of /proc/stat's columns: idle, iowait
_COUNTED = 8  # the columns after these are in user and nice already


def now() -> float:
    """Seconds since the machine started: the clock that `started_at` is told in."""
    return time.clock_gettime(time.CLOCK_BOOTTIME)


def started_at(pid: int) -> float:
    """When the process was started, in seconds of `now`, exact to a hundredth."""
    return int(_stat(pid)[19]) * _TICK


def cpu_seconds(pid: int) -> float:
    """User and system time that the process has used since it started. OSError if there is none.

    It is read off the process's own clock (clock_getcpuclockid), since /proc counts in hundredths: a burst of 500 pods
    takes a quarter of a second.
    """
    return time.clock_gettime(~pid << 3 | _ALL_OF_IT)


def children() -> list[int]:
    """The processes that this one has started and that have not been waited for."""
    tasks = Path("/proc/self/task").iterdir()
    return [int(pid) for task in tasks for pid in (task / "children").read_text().split()]


def peak_memory(pid: int) -> int:
    """The most resident memory that the process has had, in bytes."""
    lines = Path(f"/proc/{pid}/status").read_text().splitlines()
    return next(int(line.split()[1]) * 1024 for line in lines if line.startswith("VmHWM"))


def busy_seconds() -> float:
    """CPU time that anything has used on this machine since it started, all cores together."""
    first = Path("/proc/stat").read_text().partition("\n")[0]
    ticks = [int(field) for field in first.split()[1 : 1 + _COUNTED]]
    return sum(count for column, count in enumerate(ticks) if column not in _IDLE) * _TICK


def _stat(pid: int) -> list[str]:
    """The fields of /proc/PID/stat after the program's name, which may hold spaces."""
    return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
