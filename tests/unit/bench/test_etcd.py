"""Deletion in etcd: keys of API paths, transactions and ranges."""

from __future__ import annotations

import base64
from collections.abc import AsyncIterator
from typing import Any

import aiohttp
import pytest
from aiohttp import web
from aiohttp.test_utils import TestServer

from bench.etcd import Etcd, EtcdFailed, key_of

Calls = list[tuple[str, Any]]


def plain(encoded: str) -> str:
    """Decode a key."""
    return base64.b64decode(encoded).decode()


@pytest.fixture
async def calls() -> AsyncIterator[tuple[Etcd, Calls]]:
    """A client, and the requests that its server has received."""
    requests: Calls = []

    async def respond(request: web.Request) -> web.Response:
        requests.append((request.path, await request.json()))
        return web.json_response({})

    application = web.Application()
    application.router.add_post("/{tail:.*}", respond)
    async with TestServer(application) as server, aiohttp.ClientSession() as session:
        yield Etcd(str(server.make_url("")).rstrip("/"), session), requests


@pytest.mark.parametrize(
    ("path", "key"),
    [
        ("/api/v1/namespaces/ns/pods/a", "/registry/pods/ns/a"),
        ("/api/v1/namespaces/ns/pods", "/registry/pods/ns"),
        ("/api/v1/nodes/a", "/registry/minions/a"),
        ("/api/v1/namespaces/ns/services/a", "/registry/services/specs/ns/a"),
        ("/api/v1/persistentvolumes/a", "/registry/persistentvolumes/a"),
        ("/apis/storage.k8s.io/v1/csinodes/a", "/registry/csinodes/a"),
        ("/apis/events.k8s.io/v1/namespaces/ns/events", "/registry/events/ns"),
        ("/api/v1/namespaces/ns", "/registry/namespaces/ns"),
    ],
)
def test_etcd_key_of_an_api_path(path: str, key: str) -> None:
    assert key_of(path) == key


async def test_deletions_are_batched_into_transactions_of_128(calls: tuple[Etcd, Calls]) -> None:
    etcd, requests = calls

    await etcd.delete_each(f"/api/v1/nodes/{number}" for number in range(300))

    sizes = [len(body["success"]) for path, body in requests if path == "/v3/kv/txn"]
    last = requests[-1][1]["success"][-1]["requestDeleteRange"]["key"]
    assert (sizes, plain(last)) == ([128, 128, 44], "/registry/minions/299")


async def test_collection_is_deleted_as_a_range_without_its_neighbours(calls: tuple[Etcd, Calls]) -> None:
    etcd, requests = calls

    await etcd.delete_all("/apis/events.k8s.io/v1/namespaces/ns/events")

    [(path, body)] = requests
    start, end = plain(body["key"]), plain(body["range_end"])
    assert path == "/v3/kv/deleterange"
    assert start <= "/registry/events/ns/a" < end
    assert not any(start <= f"/registry/events/{other}/a" < end for other in ("ns-0", "ns0", "nsa"))


async def test_error_response_raises() -> None:
    async with TestServer(web.Application()) as server, aiohttp.ClientSession() as session:
        etcd = Etcd(str(server.make_url("")).rstrip("/"), session)

        with pytest.raises(EtcdFailed, match="/v3/kv/txn: 404"):
            await etcd.delete_each(["/api/v1/nodes/a"])
