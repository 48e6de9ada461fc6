"""Idle phase between two turns, so that the work of one turn does not count in the next."""

from __future__ import annotations

import asyncio
from collections.abc import Iterable

from bench import proc

_QUIET_CORES = 0.15
_QUIET_SECONDS = 1.0
_TIMEOUT = 20.0


async def wait_until_idle(pids: Iterable[int], timeout: float = _TIMEOUT) -> None:
    """Wait until these processes are idle, at most `timeout` seconds."""
    processes = list(pids)
    deadline = proc.now() + timeout
    while processes and proc.now() < deadline:
        before = sum(map(proc.cpu_seconds, processes))
        await asyncio.sleep(_QUIET_SECONDS)
        if sum(map(proc.cpu_seconds, processes)) - before < _QUIET_CORES * _QUIET_SECONDS:
            return
