"""Many objects at once, as fast as the API server takes them: made, counted, deleted."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable, Coroutine, Iterable, Sequence
from contextlib import asynccontextmanager
from typing import Any

import aiohttp
import msgspec

from bench.manifests import Batch
from tests.e2e.client import ApiClient, ApiError

_CONNECTIONS = 32
_JSON = {"Content-Type": "application/json"}
_MERGE = {"Content-Type": "application/merge-patch+json"}
_NOW = b'{"apiVersion":"v1","kind":"DeleteOptions","gracePeriodSeconds":0}'
_BUSY = (429, 500, 503, 504)
_PAGE = 2000
_PATIENCE = aiohttp.ClientTimeout(total=120)


class _Meta(msgspec.Struct):
    name: str = ""
    more: str = msgspec.field(name="continue", default="")
    remaining: int = msgspec.field(name="remainingItemCount", default=0)


class _Named(msgspec.Struct):
    metadata: _Meta


class _List(msgspec.Struct):
    metadata: _Meta
    items: list[_Named]


_decode = msgspec.json.Decoder(_List).decode


class BulkClient:
    """Calls that carry bytes one way and do not read what comes back, unless something went wrong: ApiError."""

    def __init__(self, server: str, session: aiohttp.ClientSession) -> None:
        self._server = server
        self._session = session

    async def create(self, batch: Batch, numbers: Iterable[int] | None = None) -> None:
        """Make the objects of the batch, or those with these numbers; what is there already stays."""
        left = iter(range(batch.count) if numbers is None else numbers)

        async def worker() -> None:
            for number in left:
                await self._call("POST", batch.path, batch.body_of(number), _JSON, allowed=409)

        await _run_concurrently(worker)

    async def create_one(self, path: str, body: bytes) -> None:
        """Make one object; it stays if it is there already."""
        await self._call("POST", path, body, _JSON, allowed=409)

    async def merge(self, path: str, body: bytes) -> None:
        """Merge into an object."""
        await self._call("PATCH", path, body, _MERGE)

    async def delete_one(self, path: str) -> None:
        """Delete an object at once; it may be gone already."""
        await self._call("DELETE", path, _NOW, _JSON, allowed=404)

    async def delete_each(self, paths: Iterable[str]) -> None:
        """Delete these objects."""
        left = iter(paths)

        async def worker() -> None:
            for path in left:
                await self.delete_one(path)

        await _run_concurrently(worker)

    async def delete_all(self, path: str, labels: str = "") -> None:
        """Delete what the label selector fits in a collection; the API server spreads it over its workers."""
        while await self.names(path, labels, most=1):
            try:
                await self._call("DELETE", path, _NOW, _JSON, query={"labelSelector": labels})
            except TimeoutError:
                continue  # thousands in one call may take longer than a call may; the rest goes with the next
            except ApiError as problem:
                if problem.status not in _BUSY:
                    raise

    async def count(self, path: str) -> int:
        """How many objects the collection has, without fetching them."""
        page = _decode(await self._call("GET", path, query={"limit": "1"}))
        return len(page.items) + page.metadata.remaining

    async def names(self, path: str, labels: str = "", most: int | None = None) -> list[str]:
        """The names of the objects that the label selector fits, `most` at most."""
        found: list[str] = []
        query = {"labelSelector": labels, "limit": str(most or _PAGE)}
        while True:
            page = _decode(await self._call("GET", path, query=query))
            found += [item.metadata.name for item in page.items]
            if not page.metadata.more or (most is not None and len(found) >= most):
                return found
            query["continue"] = page.metadata.more

    async def collect_garbage(self) -> None:
        """Let the API server collect its garbage now, as Go does before a heap profile; one that has none says 404."""
        await self._call("GET", "/debug/pprof/heap", query={"gc": "1"}, allowed=404)

    async def _call(
        self,
        method: str,
        path: str,
        body: bytes | None = None,
        headers: dict[str, str] | None = None,
        query: dict[str, str] | None = None,
        allowed: int = 0,
    ) -> bytes:
        url = self._server + path
        async with self._session.request(method, url, data=body, headers=headers, params=query) as answer:
            content = await answer.read()
            if answer.status >= 400 and answer.status != allowed:
                raise ApiError(method, url, answer.status, content.decode(errors="replace"))
            return content


@asynccontextmanager
async def opened(api: ApiClient) -> AsyncIterator[BulkClient]:
    """As the client's user, over connections of its own."""
    tls: Any = api.tls if api.tls is not None else True
    connector = aiohttp.TCPConnector(limit=_CONNECTIONS, ssl=tls)
    async with aiohttp.ClientSession(connector=connector, timeout=_PATIENCE) as session:
        yield BulkClient(api.server, session)


async def _run_concurrently(worker: Callable[[], Coroutine[Any, Any, None]]) -> None:
    """As many workers as there are connections; the first problem ends all, and is raised by itself."""
    try:
        async with asyncio.TaskGroup() as group:
            for _ in range(_CONNECTIONS):
                group.create_task(worker())
    except ExceptionGroup as problems:
        raise problems.exceptions[0] from None


def missing(batch: Batch, there: Sequence[str]) -> list[int]:
    """The numbers of the batch's objects that are not there."""
    known = set(there)
    return [number for number in range(batch.count) if batch.name_of(number) not in known]
