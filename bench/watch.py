"""Observation of bindings by one watch of the contender's pods, cheap enough to run on the same machine.

The times of all contenders are taken here, by the same code and on the same side of the API server, and not from their
own metrics.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Collection
from dataclasses import dataclass
from types import TracebackType
from typing import Literal, Self

import aiohttp
import msgspec

from bench import proc
from tests.e2e.client import ApiClient

PODS = "/api/v1/pods"
_WATCH_SECONDS = 3600
_POLL_SECONDS = 0.05


class Unfinished(Exception):
    """Not all pods were bound; the text has their number."""


class _Meta(msgspec.Struct):
    name: str = ""
    namespace: str = ""
    version: str = msgspec.field(name="resourceVersion", default="")


class _Spec(msgspec.Struct):
    node_name: str = msgspec.field(name="nodeName", default="")


class _Condition(msgspec.Struct):
    type: str


class _Status(msgspec.Struct):
    conditions: list[_Condition] = msgspec.field(default_factory=list)


class _Pod(msgspec.Struct):
    metadata: _Meta = msgspec.field(default_factory=_Meta)
    spec: _Spec = msgspec.field(default_factory=_Spec)
    status: _Status = msgspec.field(default_factory=_Status)


class _Event(msgspec.Struct):
    type: Literal["ADDED", "MODIFIED", "DELETED", "BOOKMARK"]
    object: _Pod


class _Details(msgspec.Struct):
    retry_after: int = msgspec.field(name="retryAfterSeconds", default=0)


class _Failure(msgspec.Struct):
    details: _Details = msgspec.field(default_factory=_Details)


class _Failed(msgspec.Struct):
    """An event of type ERROR: its object is a Status, which has text in `status`."""

    object: _Failure


_decode = msgspec.json.Decoder(_Event).decode
_decode_failure = msgspec.json.Decoder(_Failed).decode


@dataclass(frozen=True)
class WaitLimit:
    """Deadline (a value of `proc.now`), and a check that the contender is alive."""

    until: float
    alive: Callable[[], bool]


class BindWatch:
    """Watch of all pods of one scheduler, identified by NAMESPACE/NAME; times are `proc.now`'s.

    `placed` maps pods to nodes, `tried` has the pods with a PodScheduled condition; `first` and `last` are the times of
    the first and the last binding of the `measured` pods, and `at_end` is called at each of the two.
    """

    def __init__(self, api: ApiClient, scheduler_name: str, measured: frozenset[str]) -> None:
        self.placed: dict[str, str] = {}
        self.tried: set[str] = set()
        self.first = 0.0
        self.last = 0.0
        self.left = len(measured)
        self.at_end: Callable[[], None] = lambda: None
        self._measured = measured
        self._api = api
        self._version = ""
        self._query = {
            "watch": "1",
            "fieldSelector": f"spec.schedulerName={scheduler_name}",
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
            self._response = await self._open()
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
        self._response.close()
        await self._session.close()

    async def all_bound(self, limit: WaitLimit) -> None:
        """Wait for the last binding of the measured pods. Unfinished."""
        await self._until(lambda: not self.left, limit)

    async def bound(self, pods: Collection[str], limit: WaitLimit) -> None:
        """Wait until these pods are bound. Unfinished."""
        await self._until(lambda: self.placed.keys() >= set(pods), limit)

    async def attempted(self, pods: Collection[str], limit: WaitLimit) -> None:
        """Wait until each of these pods was attempted once, with any result. Unfinished."""
        await self._until(lambda: all(pod in self.placed or pod in self.tried for pod in pods), limit)

    async def _until(self, condition: Callable[[], bool], limit: WaitLimit) -> None:
        while not condition():
            if self._reading.done():
                self._reading.result()
            if not limit.alive():
                raise Unfinished(f"{self._so_far()} when its process ended")
            if proc.now() > limit.until:
                raise Unfinished(f"{self._so_far()} when the time was up")
            await asyncio.wait([self._reading], timeout=_POLL_SECONDS)

    def _so_far(self) -> str:
        return f"{len(self._measured) - self.left} of {len(self._measured)} pods were bound"

    def take(self, line: bytes, at: float) -> None:
        """Record the pod of a line of the watch."""
        try:
            event = _decode(line)
        except msgspec.ValidationError:
            if _decode_failure(line).object.details.retry_after:
                return  # the API server's watch cache is behind, as after 100,000 deletions; the next watch waits
            raise Unfinished(f"the watch failed: {line.decode(errors='replace')[:300]}") from None
        pod = event.object
        self._version = pod.metadata.version or self._version
        key, node = f"{pod.metadata.namespace}/{pod.metadata.name}", pod.spec.node_name
        if not node:
            if any(condition.type == "PodScheduled" for condition in pod.status.conditions):
                self.tried.add(key)
        elif key not in self.placed:
            self.placed[key] = node
            if key in self._measured:
                self._bound(at)

    def _bound(self, at: float) -> None:
        self.left -= 1
        self.last = at
        if not self.first:
            self.first = at
            self.at_end()
        if not self.left:
            self.at_end()

    async def _open(self) -> aiohttp.ClientResponse:
        """Open the watch where the last one ended; the first one starts with the existing pods."""
        query = {**self._query, "resourceVersion": self._version} if self._version else self._query
        return await self._session.get(PODS, params=query, raise_for_status=True)

    async def _read(self) -> None:
        """Read the watch, and reopen it when the API server ends it, as it does to slow readers."""
        while True:
            rest = b""
            async for chunk in self._response.content.iter_any():
                *lines, rest = (rest + chunk).split(b"\n")
                at = proc.now()
                for line in lines:
                    self.take(line, at)
            self._response.close()
            self._response = await self._open()
