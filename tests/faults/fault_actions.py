"""Faults that the proxy injects into calls and watches."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator, Awaitable, Callable, Iterable
from typing import Any

from tests.faults.proxy import Exchange, Fault, status
from tests.faults.request_matchers import ProxiedRequest

TOO_MANY, INTERNAL, UNAVAILABLE, GONE = 429, 500, 503, 410
_REASONS = {429: "TooManyRequests", 500: "InternalError", 503: "ServiceUnavailable", 410: "Expired"}
TOGETHER = 0.05
"""Seconds within which lines of a watch form one batch."""


def reject(code: int, retry_after: int | None = None) -> Fault:
    """Respond with an error status without forwarding the call."""

    async def fault(exchange: Exchange) -> None:
        await exchange.answer(status(code, _REASONS[code], f"a fault of {code}", retry_after))

    return fault


async def forward(exchange: Exchange) -> None:
    """Forward the call unchanged; used to exempt it from other rules."""
    await exchange.answer(await exchange.forward())


async def reset_before_request(exchange: Exchange) -> None:
    """Reset the connection without forwarding the call."""
    exchange.reset()


async def lose_response(exchange: Exchange) -> None:
    """Forward the call, then reset the connection instead of responding."""
    await exchange.forward()
    exchange.reset()


async def reset_mid_response(exchange: Exchange) -> None:
    """Forward the call, then reset the connection in the middle of the response."""
    await exchange.answer_half(await exchange.forward())


async def die_before_request(exchange: Exchange) -> None:
    """Silence all connections without forwarding the call."""
    exchange.silence()


async def die_before_response(exchange: Exchange) -> None:
    """Forward the call, then silence all connections before the response."""
    answer = await exchange.forward()
    exchange.silence()
    await exchange.answer(answer)


async def respond_500_after_success(exchange: Exchange) -> None:
    """Forward the call, then respond with 500, as an API server does after an etcd timeout."""
    await exchange.forward()
    await exchange.answer(status(INTERNAL, "InternalError", "etcdserver: request timed out"))


def act_first(act: Callable[[ProxiedRequest], Awaitable[Any]]) -> Fault:
    """Run an action between the scheduler's decision and its call, then forward the call."""

    async def fault(exchange: Exchange) -> None:
        await act(exchange.request)
        await exchange.answer(await exchange.forward())

    return fault


class HeldCalls:
    """Calls held until the test releases them, before they reach the server or `after` it."""

    def __init__(self, after: bool = False) -> None:
        self._after = after
        self._dropped = False
        self._released = asyncio.Event()

    def release(self) -> None:
        """Forward and answer all held calls; they reach the server even if the client has timed out."""
        self._released.set()

    def drop(self) -> None:
        """Reset the connections of all held calls."""
        self._dropped = True
        self._released.set()

    async def __call__(self, exchange: Exchange) -> None:
        answer = await exchange.forward() if self._after else None
        await self._released.wait()
        if self._dropped:
            exchange.reset()
        else:
            await exchange.answer(answer or await exchange.forward())


def stall(seconds: float, after: bool = False) -> Fault:
    """Delay the call, or with `after` its response; the client may time out earlier."""

    async def fault(exchange: Exchange) -> None:
        answer = await exchange.forward() if after else None
        await asyncio.sleep(seconds)
        await exchange.answer(answer or await exchange.forward())

    return fault


# -- watches ---------------------------------------------------------------------------------------------------------

Lines = AsyncIterator[bytes]


def transform(change: Callable[[Lines], Lines]) -> Fault:
    """Pass the lines of a watch through `change`."""

    async def fault(exchange: Exchange) -> None:
        await exchange.stream(change)

    return fault


def cut_after(count: int) -> Fault:
    """Reset the connection of a watch after `count` lines."""

    async def fault(exchange: Exchange) -> None:
        async def some(lines: Lines) -> Lines:
            for _ in range(count):
                yield await anext(lines)
            exchange.reset()
            raise ConnectionResetError

        await exchange.stream(some)

    return fault


def send_lines(*lines: bytes, after: int = 0) -> Fault:
    """Send `after` lines of the server, then these lines, and end the watch."""

    async def altered(real: Lines) -> Lines:
        for _ in range(after):
            yield await anext(real)
        for line in lines:
            yield line

    return transform(altered)


def send_lines_then_hang(*lines: bytes) -> Fault:
    """Send these lines, then nothing more, and keep the watch open."""

    async def altered(_: Lines) -> Lines:
        for line in lines:
            yield line
        await asyncio.Event().wait()

    return transform(altered)


def gone_event() -> bytes:
    """Return the ERROR event for an expired resourceVersion."""
    return event("ERROR", {"kind": "Status", "code": GONE, "reason": "Expired", "message": "too old resource version"})


def bookmark(kind: str, version: str) -> bytes:
    return event("BOOKMARK", {"kind": kind, "apiVersion": "v1", "metadata": {"resourceVersion": version}})


def event(type: str, obj: Any) -> bytes:
    """Return a watch event as a line."""
    return json.dumps({"type": type, "object": obj}).encode() + b"\n"


async def _duplicate(lines: Lines) -> Lines:
    async for line in lines:
        yield line
        yield line


duplicated: Fault = transform(_duplicate)
"""Send each line of a watch twice."""


class WatchRecorder:
    """Forwards a watch unchanged and records its lines."""

    def __init__(self) -> None:
        self.lines: list[bytes] = []

    async def __call__(self, exchange: Exchange) -> None:
        async def kept(lines: Lines) -> Lines:
            async for line in lines:
                self.lines.append(line)
                yield line

        await exchange.stream(kept)


def replay(old: Iterable[bytes]) -> Fault:
    """Send lines of an earlier watch before those of the server."""
    old = list(old)

    async def altered(lines: Lines) -> Lines:
        for line in old:
            yield line
        async for line in lines:
            yield line

    return transform(altered)


async def _reorder(lines: Lines) -> Lines:
    async for batch in _batches(lines):
        by_object: dict[str, list[bytes]] = {}
        for line in batch:
            by_object.setdefault(_uid(line), []).append(line)
        for object_lines in reversed(by_object.values()):
            for line in object_lines:
                yield line


reordered: Fault = transform(_reorder)
"""Reorder the objects of each batch of a watch; events of one object keep their order."""


async def _batches(lines: Lines) -> AsyncIterator[list[bytes]]:
    """Group lines that arrive within `TOGETHER` seconds."""
    coming = asyncio.ensure_future(anext(lines, b""))
    try:
        batch: list[bytes] = []
        while True:
            await asyncio.wait({coming}, timeout=TOGETHER if batch else None)
            if not coming.done():
                yield batch
                batch = []
            elif line := coming.result():
                batch.append(line)
                coming = asyncio.ensure_future(anext(lines, b""))
            else:
                yield batch
                return
    finally:
        coming.cancel()


def _uid(line: bytes) -> str:
    return str(json.loads(line)["object"]["metadata"].get("uid", ""))
