"""Creation, counting and deletion of many objects, as fast as the API server allows."""

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
_TIMEOUT = aiohttp.ClientTimeout(total=120)


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
    """Client for raw bodies; responses are decoded only where needed. Error responses raise ApiError."""

    def __init__(self, server: str, session: aiohttp.ClientSession) -> None:
        self._server = server
        self._session = session

    async def create(self, batch: Batch, numbers: Iterable[int] | None = None) -> None:
        """Create the objects of the batch, or those with these numbers; existing objects are not changed."""
        left = iter(range(batch.count) if numbers is None else numbers)

        async def worker() -> None:
            for number in left:
                await self._call("POST", batch.path, batch.body_of(number), _JSON, allowed=409)

        await _run_concurrently(worker)

    async def create_one(self, path: str, body: bytes) -> None:
        """Create one object unless it exists."""
        await self._call("POST", path, body, _JSON, allowed=409)

    async def merge(self, path: str, body: bytes) -> None:
        """Merge into an object."""
        await self._call("PATCH", path, body, _MERGE)

    async def merge_each(self, paths: Iterable[str], body: bytes) -> None:
        """Merge the same into these objects."""
        left = iter(paths)

        async def worker() -> None:
            for path in left:
                await self.merge(path, body)

        await _run_concurrently(worker)

    async def delete_one(self, path: str) -> None:
        """Delete an object at once; a missing one is ignored."""
        await self._call("DELETE", path, _NOW, _JSON, allowed=404)

    async def delete_each(self, paths: Iterable[str]) -> None:
        """Delete these objects."""
        left = iter(paths)

        async def worker() -> None:
            for path in left:
                await self.delete_one(path)

        await _run_concurrently(worker)

    async def delete_all(self, path: str, labels: str = "") -> None:
        """Delete the objects of a collection that match the selector, with the API server's concurrent workers."""
        while await self.names(path, labels, most=1):
            try:
                await self._call("DELETE", path, _NOW, _JSON, query={"labelSelector": labels})
            except TimeoutError:
                continue  # deleting thousands may exceed the request timeout; the next request deletes the rest
            except ApiError as problem:
                if problem.status not in _BUSY:
                    raise

    async def count(self, path: str) -> int:
        """Return the number of objects in the collection, without fetching them."""
        page = _decode(await self._call("GET", path, query={"limit": "1"}))
        return len(page.items) + page.metadata.remaining

    async def names(self, path: str, labels: str = "", most: int | None = None) -> list[str]:
        """Return the names of the objects that match the selector, at most `most`."""
        found: list[str] = []
        query = {"labelSelector": labels, "limit": str(most or _PAGE)}
        while True:
            page = _decode(await self._call("GET", path, query=query))
            found += [item.metadata.name for item in page.items]
            if not page.metadata.more or (most is not None and len(found) >= most):
                return found
            query["continue"] = page.metadata.more

    async def collect_garbage(self) -> None:
        """Make the API server collect garbage now, as Go does before a heap profile; 404 without the endpoint."""
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
        async with self._session.request(method, url, data=body, headers=headers, params=query) as response:
            content = await response.read()
            if response.status >= 400 and response.status != allowed:
                raise ApiError(method, url, response.status, content.decode(errors="replace"))
            return content


@asynccontextmanager
async def connect(api: ApiClient) -> AsyncIterator[BulkClient]:
    """Yield a client for the same user, with separate connections."""
    tls: Any = api.tls if api.tls is not None else True
    connector = aiohttp.TCPConnector(limit=_CONNECTIONS, ssl=tls)
    async with aiohttp.ClientSession(connector=connector, timeout=_TIMEOUT) as session:
        yield BulkClient(api.server, session)


async def _run_concurrently(worker: Callable[[], Coroutine[Any, Any, None]]) -> None:
    """Run one worker per connection; the first exception ends all, and is raised alone."""
    try:
        async with asyncio.TaskGroup() as group:
            for _ in range(_CONNECTIONS):
                group.create_task(worker())
    except ExceptionGroup as problems:
        raise problems.exceptions[0] from None


def missing(batch: Batch, names: Sequence[str]) -> list[int]:
    """Return the numbers of the batch's objects that are not among `names`."""
    existing = set(names)
    return [number for number in range(batch.count) if batch.name_of(number) not in existing]
