"""A child process with a log file, in a process group of its own, and terminated when the tests end.

The kernel kills the child if the test process is killed (Linux only); otherwise the group is terminated by `stop`, or
at the interpreter's exit if `stop` was not called.
"""

from __future__ import annotations

import asyncio
import atexit
import ctypes
import os
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Awaitable, Callable, Sequence
from contextlib import ExitStack, suppress
from pathlib import Path

STOP_SECONDS = 10.0
POLL_SECONDS = 0.05
TAIL_LINES = 15
PR_SET_PDEATHSIG = 1

_libc = ctypes.CDLL(None) if sys.platform == "linux" else None
_running: set[Process] = set()


class ProcessFailed(Exception):
    """A process ended or did not become ready in time; the text contains the end of its log."""


class Process:
    """A running program. Its standard output and error go to `log`."""

    def __init__(self, name: str, command: Sequence[str], log: Path) -> None:
        self.name = name
        self.log = log
        with log.open("ab") as output:
            self._child = subprocess.Popen(
                command,
                stdin=subprocess.DEVNULL,
                stdout=output,
                stderr=output,
                start_new_session=True,
                preexec_fn=_die_with_parent,
            )
        _running.add(self)

    @property
    def pid(self) -> int:
        """The process id."""
        return self._child.pid

    @property
    def alive(self) -> bool:
        """True if the process has not ended yet."""
        return self._child.poll() is None

    def cpu_seconds(self) -> float:
        """CPU time used so far, user and system, in seconds (utime + stime of /proc/PID/stat)."""
        fields = Path(f"/proc/{self.pid}/stat").read_text().rpartition(")")[2].split()
        return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")

    def memory_bytes(self) -> int:
        """Resident memory in bytes."""
        return int(Path(f"/proc/{self.pid}/statm").read_text().split()[1]) * os.sysconf("SC_PAGE_SIZE")

    def tail(self, lines: int = TAIL_LINES) -> str:
        """The last lines of the log."""
        return "\n".join(self.log.read_text(errors="replace").splitlines()[-lines:])

    async def until(self, ready: Callable[[], Awaitable[bool]], deadline: float) -> None:
        """Poll `ready` until it is true. `deadline` is a value of time.monotonic(). ProcessFailed after it."""
        while not await ready():
            if not self.alive:
                raise ProcessFailed(f"{self.name} ended with code {self._child.returncode}; {self._end_of_log()}")
            if time.monotonic() > deadline:
                raise ProcessFailed(f"{self.name} was not ready in time; {self._end_of_log()}")
            await asyncio.sleep(POLL_SECONDS)

    async def stop(self) -> None:
        """Terminate the process, then kill its whole group. May be called twice."""
        if self.alive:
            self._child.terminate()
        with suppress(subprocess.TimeoutExpired):
            await asyncio.to_thread(self._child.wait, STOP_SECONDS)
        self.kill()

    def kill(self) -> None:
        """Kill the process and its group at once."""
        with suppress(ProcessLookupError):  # the group is empty
            os.killpg(self.pid, signal.SIGKILL)
        self._child.wait()
        _running.discard(self)

    def _end_of_log(self) -> str:
        return f"its log ends:\n{self.tail()}"


def free_ports(count: int) -> list[int]:
    """Return free loopback ports, all different."""
    with ExitStack() as stack:
        sockets = [stack.enter_context(socket.socket()) for _ in range(count)]
        for each in sockets:
            each.bind(("127.0.0.1", 0))
        return [each.getsockname()[1] for each in sockets]


def _die_with_parent() -> None:
    if _libc is not None:
        _libc.prctl(PR_SET_PDEATHSIG, signal.SIGKILL)


@atexit.register
def _kill_the_rest() -> None:
    for process in list(_running):
        process.kill()
