"""Process and machine statistics of the kernel (Linux only): CPU time, peak memory, start time."""

from __future__ import annotations

import os
import time
from pathlib import Path

_TICK = 1 / os.sysconf("SC_CLK_TCK")
_CPUCLOCK_SCHED = 2
"""The clock of a process that counts user and system time."""
_IDLE = (3, 4)  # of /proc/stat's columns: idle, iowait
_COUNTED = 8  # the later columns are included in user and nice


def now() -> float:
    """Return the seconds since the machine started, the time base of `started_at`."""
    return time.clock_gettime(time.CLOCK_BOOTTIME)


def started_at(pid: int) -> float:
    """Return the start time of the process in seconds of `now`, exact to a hundredth."""
    return int(_stat(pid)[19]) * _TICK


def cpu_seconds(pid: int) -> float:
    """Return the user and system time that the process has used. OSError if it does not exist.

    It is read from the process's own clock (clock_getcpuclockid), since /proc counts in hundredths: a burst of 500 pods
    takes a quarter of a second.
    """
    return time.clock_gettime(~pid << 3 | _CPUCLOCK_SCHED)


def children() -> list[int]:
    """Return the ids of child processes that have not been waited for."""
    tasks = Path("/proc/self/task").iterdir()
    return [int(pid) for task in tasks for pid in (task / "children").read_text().split()]


def peak_memory(pid: int) -> int:
    """Return the maximum resident memory of the process in bytes."""
    lines = Path(f"/proc/{pid}/status").read_text().splitlines()
    return next(int(line.split()[1]) * 1024 for line in lines if line.startswith("VmHWM"))


def busy_seconds() -> float:
    """Return the CPU time used on this machine since it started, all cores together."""
    first = Path("/proc/stat").read_text().partition("\n")[0]
    ticks = [int(field) for field in first.split()[1 : 1 + _COUNTED]]
    return sum(count for column, count in enumerate(ticks) if column not in _IDLE) * _TICK


def _stat(pid: int) -> list[str]:
    """Return the fields of /proc/PID/stat after the program's name, which may contain spaces."""
    return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
