"""Sees every binding as any client would: one watch on the contender's pods, cheap enough to share the machine.

The times of all contenders are taken here, by the same code and on the same side of the API server, rather than from
what each of them says of itself.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from types import TracebackType
from typing import Self

import aiohttp
import msgspec

from bench import proc
from bench.workload import PODS
from tests.e2e.client import ApiClient

_WATCH_SECONDS = 3600
_LOOK_SECONDS = 1.0


class Unfinished(Exception):
    """Not all pods were bound; the text says how many were."""


class _Meta(msgspec.Struct):
    name: str = ""


class _Spec(msgspec.Struct):
    node_name: str = msgspec.field(name="nodeName", default="")


class _Pod(msgspec.Struct):
    metadata: _Meta = msgspec.field(default_factory=_Meta)
    spec: _Spec = msgspec.field(default_factory=_Spec)


class _Event(msgspec.Struct):
    type: str
    object: _Pod


_decode = msgspec.json.Decoder(_Event).decode


class BindWatch:
    """Watches the pods of one scheduler from `version` on. `placed` maps pods to nodes; times are `proc.now`'s."""

    def __init__(self, api: ApiClient, scheduler_name: str, expected: int, version: str) -> None:
        self.placed: dict[str, str] = {}
        self.first = 0.0
        self.last = 0.0
        self._api = api
        self._expected = expected
        self._query = {
            "watch": "1",
            "fieldSelector": f"spec.schedulerName={scheduler_name}",
            "resourceVersion": version,
            "timeoutSeconds": str(_WATCH_SECONDS),
        }

    async def __aenter__(self) -> Self:
        self._session = aiohttp.ClientSession(
            self._api.server,
            connector=aiohttp.TCPConnector(ssl=self._api.tls if self._api.tls is not None else True),
            timeout=aiohttp.ClientTimeout(total=None),
            read_bufsize=2**18,
        )
        try:
            self._answer = await self._session.get(PODS, params=self._query, raise_for_status=True)
        except BaseException:
            await self._session.close()
            raise
        self._reading = asyncio.create_task(self._read())
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._reading.cancel()
        await asyncio.gather(self._reading, return_exceptions=True)
        self._answer.close()
        await self._session.close()

    async def all_bound(self, seconds: float, alive: Callable[[], bool]) -> None:
        """Wait for the last binding, at most `seconds` and while the contender is `alive`. Raises Unfinished."""
        deadline = proc.now() + seconds
        while not self._reading.done() and alive() and proc.now() < deadline:
            await asyncio.wait([self._reading], timeout=_LOOK_SECONDS)
        if self._reading.done():
            self._reading.result()
        if len(self.placed) < self._expected:
            end = "its process ended" if not alive() else "the watch or the time ended"
            raise Unfinished(f"{len(self.placed)} of {self._expected} pods were bound when {end}")

    def take(self, line: bytes, at: float) -> None:
        """Note a line of the watch, if it is one that tells of a binding."""
        event = _decode(line)
        if event.type == "ERROR":
            raise Unfinished(f"the watch failed: {line.decode(errors='replace')[:300]}")
        name, node = event.object.metadata.name, event.object.spec.node_name
        if node and name not in self.placed:
            self.placed[name] = node
            self.first = self.first or at
            self.last = at

    async def _read(self) -> None:
        rest = b""
        async for chunk in self._answer.content.iter_any():
            *lines, rest = (rest + chunk).split(b"\n")
            at = proc.now()
            for line in lines:
                self.take(line, at)
            if len(self.placed) >= self._expected:
                return
