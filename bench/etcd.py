"""Clearing away behind the API server's back: what takes it half a minute, etcd does at once.

The API server learns of it through its watch, like of any other deletion. No scheduler runs meanwhile.
"""

from __future__ import annotations

import base64
from collections.abc import Iterable
from itertools import islice

import aiohttp
import msgspec

_MOST = 128  # deletions that etcd takes in one transaction
_STORED_AS = {"nodes": "minions", "services": "services/specs"}


class EtcdFailed(Exception):
    """etcd refused; the text has its answer."""


def key_of(path: str) -> str:
    """Where etcd keeps the object, or the collection, that the API server has at this path."""
    _, kind, *parts = path.split("/")
    parts = parts[1:] if kind == "api" else parts[2:]  # without version, and group if there is one
    if parts[0] == "namespaces" and len(parts) > 2:
        _, namespace, resource, *name = parts
        return "/".join(["/registry", _STORED_AS.get(resource, resource), namespace, *name])
    resource, *name = parts
    return "/".join(["/registry", _STORED_AS.get(resource, resource), *name])


class Etcd:
    """A client of etcd's JSON gateway that only deletes."""

    def __init__(self, url: str, session: aiohttp.ClientSession) -> None:
        self._url = url
        self._session = session

    async def delete_each(self, paths: Iterable[str]) -> None:
        """Delete these objects, told by their paths in the API; they may be gone already."""
        left = iter(paths)
        while some := list(islice(left, _MOST)):
            deletions = [{"requestDeleteRange": {"key": _encoded(key_of(path))}} for path in some]
            await self._call("/v3/kv/txn", {"success": deletions})

    async def delete_all(self, path: str) -> None:
        """Delete a whole collection."""
        start = key_of(path) + "/"
        await self._call("/v3/kv/deleterange", {"key": _encoded(start), "range_end": _encoded(start[:-1] + "0")})

    async def _call(self, path: str, body: object) -> None:
        async with self._session.post(self._url + path, data=msgspec.json.encode(body)) as answer:
            content = await answer.read()
            if answer.status >= 300:
                raise EtcdFailed(f"{path}: {answer.status} {content[:300].decode(errors='replace')}")


def _encoded(key: str) -> str:
    return base64.b64encode(key.encode()).decode()
