"""An API server that is far away: a delaying proxy in front of the real one, as a process of its own."""

from __future__ import annotations

import asyncio
import sys
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from urllib.parse import urlsplit

from bench.delay_proxy import LOOPBACK
from tests.e2e.plane import Plane

_PROXY = Path(__file__).with_name("delay_proxy.py")


@asynccontextmanager
async def with_api_latency(plane: Plane, milliseconds: int) -> AsyncIterator[str | None]:
    """URL at which each call to the API server takes so many milliseconds longer; None, for its own, with 0."""
    if not milliseconds or plane.real is None:
        yield None
        return
    command = [sys.executable, str(_PROXY), str(urlsplit(plane.real.server).port), str(milliseconds)]
    process = await asyncio.create_subprocess_exec(*command, stdout=asyncio.subprocess.PIPE)
    try:
        assert process.stdout is not None
        port = int(await process.stdout.readline())
        yield f"https://{LOOPBACK}:{port}"
    finally:
        process.kill()
        await process.wait()
