"""Rest between two turns: what came before must not be paid for by what comes next."""

from __future__ import annotations

import asyncio
from collections.abc import Iterable

from bench import proc

_QUIET_CORES = 0.15
_QUIET_SECONDS = 1.0
_PATIENCE = 20.0


async def wait_until_idle(pids: Iterable[int], patience: float = _PATIENCE) -> None:
    """Wait until these processes have worked off what came before, as far as they do within `patience` seconds."""
    known = list(pids)
    deadline = proc.now() + patience
    while known and proc.now() < deadline:
        before = sum(map(proc.cpu_seconds, known))
        await asyncio.sleep(_QUIET_SECONDS)
        if sum(map(proc.cpu_seconds, known)) - before < _QUIET_CORES * _QUIET_SECONDS:
            return
