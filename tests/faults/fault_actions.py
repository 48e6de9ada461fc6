"""The faults by name: what can happen to a call, and what to a watch."""

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
"""Seconds in which lines of a watch count as sent at once."""


def refuses(code: int, retry_after: int | None = None) -> Fault:
    """The server does not get to see it."""

    async def fault(exchange: Exchange) -> None:
        await exchange.answer(status(code, _REASONS[code], f"a fault of {code}", retry_after))

    return fault


async def passes(exchange: Exchange) -> None:
    """Nothing happens to it, whatever other rules say."""
    await exchange.answer(await exchange.forward())


async def hangs_up(exchange: Exchange) -> None:
    """The connection breaks before the server has seen the call."""
    exchange.reset()


async def loses_the_answer(exchange: Exchange) -> None:
    """The server has done it, and nobody hears of it."""
    await exchange.forward()
    exchange.reset()


async def breaks_off(exchange: Exchange) -> None:
    """The connection breaks in the middle of the answer."""
    await exchange.answer_half(await exchange.forward())


async def dies_on_the_way_there(exchange: Exchange) -> None:
    """All connections die without a sign before the server has seen the call."""
    exchange.silence()


async def dies_on_the_way_back(exchange: Exchange) -> None:
    """The server has done it, and all connections die without a sign before its answer arrives."""
    answer = await exchange.forward()
    exchange.silence()
    await exchange.answer(answer)


async def says_500_though_done(exchange: Exchange) -> None:
    """The server has done it and says that it has not, as one does whose etcd answers too late."""
    await exchange.forward()
    await exchange.answer(status(INTERNAL, "InternalError", "etcdserver: request timed out"))


def first(act: Callable[[ProxiedRequest], Awaitable[Any]]) -> Fault:
    """Something happens in the cluster between the decision and the call."""

    async def fault(exchange: Exchange) -> None:
        await act(exchange.asked)
        await exchange.answer(await exchange.forward())

    return fault


class HeldCalls:
    """Calls that are held up until the test lets them go; `after` they have reached the server, or before."""

    def __init__(self, after: bool = False) -> None:
        self._after = after
        self._dropped = False
        self._released = asyncio.Event()

    def release(self) -> None:
        """Let all of them go. Whoever has given up meanwhile is not told, but the server is."""
        self._released.set()

    def drop(self) -> None:
        """They get lost: whoever sent them was quicker to die than they were to arrive."""
        self._dropped = True
        self._released.set()

    async def __call__(self, exchange: Exchange) -> None:
        answer = await exchange.forward() if self._after else None
        await self._released.wait()
        if self._dropped:
            exchange.reset()
        else:
            await exchange.answer(answer or await exchange.forward())


def stalls(seconds: float, after: bool = False) -> Fault:
    """Nothing happens for so long; the client may give up before."""

    async def fault(exchange: Exchange) -> None:
        answer = await exchange.forward() if after else None
        await asyncio.sleep(seconds)
        await exchange.answer(answer or await exchange.forward())

    return fault


# -- watches ---------------------------------------------------------------------------------------------------------

Lines = AsyncIterator[bytes]


def changed(change: Callable[[Lines], Lines]) -> Fault:
    """A watch that tells something else than the server does."""

    async def fault(exchange: Exchange) -> None:
        await exchange.stream(change)

    return fault


def cut_after(count: int) -> Fault:
    """The connection breaks after so many lines."""

    async def fault(exchange: Exchange) -> None:
        async def some(lines: Lines) -> Lines:
            for _ in range(count):
                yield await anext(lines)
            exchange.reset()
            raise ConnectionResetError

        await exchange.stream(some)

    return fault


def says(*lines: bytes, after: int = 0) -> Fault:
    """A watch that tells so many lines of the server's, then these, and ends."""

    async def told(real: Lines) -> Lines:
        for _ in range(after):
            yield await anext(real)
        for line in lines:
            yield line

    return changed(told)


def stays_silent_after(*lines: bytes) -> Fault:
    """A watch that tells these lines and nothing more, though the server would."""

    async def told(_: Lines) -> Lines:
        for line in lines:
            yield line
        await asyncio.Event().wait()

    return changed(told)


def gone_event() -> bytes:
    """The server has forgotten the version."""
    return event("ERROR", {"kind": "Status", "code": GONE, "reason": "Expired", "message": "too old resource version"})


def bookmark(kind: str, version: str) -> bytes:
    return event("BOOKMARK", {"kind": kind, "apiVersion": "v1", "metadata": {"resourceVersion": version}})


def event(type: str, obj: Any) -> bytes:
    """A line of a watch."""
    return json.dumps({"type": type, "object": obj}).encode() + b"\n"


async def _twice(lines: Lines) -> Lines:
    async for line in lines:
        yield line
        yield line


twice: Fault = changed(_twice)
"""A watch that tells everything two times."""


class WatchRecorder:
    """A watch that is told as it is, and remembered line by line."""

    def __init__(self) -> None:
        self.lines: list[bytes] = []

    async def __call__(self, exchange: Exchange) -> None:
        async def kept(lines: Lines) -> Lines:
            async for line in lines:
                self.lines.append(line)
                yield line

        await exchange.stream(kept)


def repeating(old: Iterable[bytes]) -> Fault:
    """A watch that begins with lines of an earlier one, as if the server had forgotten that it told them."""
    old = list(old)

    async def told(lines: Lines) -> Lines:
        for line in old:
            yield line
        async for line in lines:
            yield line

    return changed(told)


async def _shuffled(lines: Lines) -> Lines:
    async for batch in _batches(lines):
        by_object: dict[str, list[bytes]] = {}
        for line in batch:
            by_object.setdefault(_uid(line), []).append(line)
        for told in reversed(by_object.values()):
            for line in told:
                yield line


shuffled: Fault = changed(_shuffled)
"""A watch that tells what happens at once in another order; of one object in the order in which it happened."""


async def _batches(lines: Lines) -> AsyncIterator[list[bytes]]:
    """What comes within a moment, together."""
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
