"""What the API server calls by a path, etcd has under a key."""

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
    """A key as people read it."""
    return base64.b64decode(encoded).decode()


@pytest.fixture
async def calls() -> AsyncIterator[tuple[Etcd, Calls]]:
    """A client, and what its server is asked."""
    asked: Calls = []

    async def answer(request: web.Request) -> web.Response:
        asked.append((request.path, await request.json()))
        return web.json_response({})

    application = web.Application()
    application.router.add_post("/{tail:.*}", answer)
    async with TestServer(application) as server, aiohttp.ClientSession() as session:
        yield Etcd(str(server.make_url("")).rstrip("/"), session), asked


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
def test_a_path_has_its_key(path: str, key: str) -> None:
    assert key_of(path) == key


async def test_many_objects_go_in_as_few_transactions_as_etcd_takes(calls: tuple[Etcd, Calls]) -> None:
    etcd, asked = calls

    await etcd.delete_each(f"/api/v1/nodes/{number}" for number in range(300))

    sizes = [len(body["success"]) for path, body in asked if path == "/v3/kv/txn"]
    last = asked[-1][1]["success"][-1]["requestDeleteRange"]["key"]
    assert (sizes, plain(last)) == ([128, 128, 44], "/registry/minions/299")


async def test_a_collection_goes_at_once_and_its_neighbour_stays(calls: tuple[Etcd, Calls]) -> None:
    etcd, asked = calls

    await etcd.delete_all("/apis/events.k8s.io/v1/namespaces/ns/events")

    [(path, body)] = asked
    start, end = plain(body["key"]), plain(body["range_end"])
    assert path == "/v3/kv/deleterange"
    assert start <= "/registry/events/ns/a" < end
    assert not any(start <= f"/registry/events/{other}/a" < end for other in ("ns-0", "ns0", "nsa"))


async def test_a_refusal_is_told() -> None:
    async with TestServer(web.Application()) as server, aiohttp.ClientSession() as session:
        etcd = Etcd(str(server.make_url("")).rstrip("/"), session)

        with pytest.raises(EtcdFailed, match="/v3/kv/txn: 404"):
            await etcd.delete_each(["/api/v1/nodes/a"])
