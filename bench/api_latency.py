"""API server latency: a delaying proxy in front of the real API server, as a separate process."""

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
    """Yield a URL at which each API call takes `milliseconds` longer; None with 0: the API server's own URL."""
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
