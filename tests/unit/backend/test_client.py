"""Kubernetes client against a scripted HTTP server: requests sent and responses decoded."""

from __future__ import annotations

import json
from collections.abc import AsyncIterator, Awaitable, Callable
from itertools import pairwise
from typing import Any

import pytest
import pytest_asyncio
from aiohttp import web

from pyscheduler.backend import ClusterProblem, KubernetesClient, PodsSnapshot
from pyscheduler.backend.template import ATTEMPT, FINALIZER, TASK_ID

Handler = Callable[[web.Request], Awaitable[web.StreamResponse]]


class ScriptedApiServer:
    """API server that responds with `handler`, set by the test, and records requests as (method, path, query, body)."""

    def __init__(self) -> None:
        self.requests: list[tuple[str, str, dict[str, str], Any]] = []
        self.handler: Handler = _unexpected
        self.url = ""

    async def handle(self, request: web.Request) -> web.StreamResponse:
        text = await request.text()
        self.requests.append((request.method, request.path, dict(request.query), json.loads(text) if text else None))
        return await self.handler(request)

    def respond(self, body: Any, status: int = 200, **headers: str) -> None:
        async def handler(_: web.Request) -> web.StreamResponse:
            return web.json_response(body, status=status, headers=headers)

        self.handler = handler

    def stream(self, *chunks: bytes) -> None:
        """Respond to watches with these chunks, then close."""

        async def handler(request: web.Request) -> web.StreamResponse:
            response = web.StreamResponse()
            await response.prepare(request)
            for chunk in chunks:
                await response.write(chunk)
            return response

        self.handler = handler


async def _unexpected(_: web.Request) -> web.StreamResponse:
    raise AssertionError("unexpected request: the test has set no response")


@pytest_asyncio.fixture
async def server() -> AsyncIterator[ScriptedApiServer]:
    scripted = ScriptedApiServer()
    app = web.Application()
    app.router.add_route("*", "/{path:.*}", scripted.handle)
    runner = web.AppRunner(app)
    await runner.setup()
    site = web.TCPSite(runner, "127.0.0.1", 0)
    await site.start()
    scripted.url = f"http://127.0.0.1:{runner.addresses[0][1]}"
    yield scripted
    await runner.cleanup()


@pytest_asyncio.fixture
async def client(server: ScriptedApiServer) -> AsyncIterator[KubernetesClient]:
    async with KubernetesClient("jobs", server=server.url) as opened:
        yield opened


def pod(name: str, version: int, **status: Any) -> dict[str, Any]:
    annotations = {TASK_ID: f"task {name}", ATTEMPT: "2"}
    meta = {"name": name, "uid": f"uid-{name}", "resourceVersion": str(version), "annotations": annotations}
    return {"metadata": {**meta, "finalizers": [FINALIZER]}, "spec": {"nodeName": "n1"}, "status": status}


def event(kind: str, body: dict[str, Any]) -> bytes:
    return json.dumps({"type": kind, "object": body}).encode() + b"\n"


async def test_get_decodes_the_status_of_a_pod(server: ScriptedApiServer, client: KubernetesClient) -> None:
    ended = {"exitCode": 137, "reason": "OOMKilled", "finishedAt": "2026-01-01T00:00:09Z"}
    statuses = [{"name": "a", "state": {"terminated": {"exitCode": 0}}}, {"name": "b", "state": {"terminated": ended}}]
    condition = {"type": "DisruptionTarget", "status": "True", "reason": "EvictionByEvictionAPI"}
    server.respond(pod("p", 7, phase="Failed", containerStatuses=statuses, conditions=[condition]))
    state = await client.get_pod("p")
    assert (state.name, state.uid, state.version, state.task, state.attempt) == ("p", "uid-p", 7, "task p", 2)
    assert (state.phase, state.node, state.has_finalizer, state.stopped) == ("Failed", "n1", True, True)
    assert (state.exit_code, state.exit_reason, state.disruption) == (137, "OOMKilled", "EvictionByEvictionAPI")
    assert state.finished_at == 1767225609.0


async def test_create_release_and_delete_send_the_expected_requests(
    server: ScriptedApiServer, client: KubernetesClient
) -> None:
    server.respond(pod("p", 7))
    await client.create_pod({"metadata": {"name": "p"}})
    await client.release_pod("p", "u")
    await client.delete_pod("p", "u", 0)
    one = "/api/v1/namespaces/jobs/pods/p"
    release = {"metadata": {"uid": "u", "$deleteFromPrimitiveList/finalizers": [FINALIZER]}}
    assert server.requests == [
        ("POST", "/api/v1/namespaces/jobs/pods", {}, {"metadata": {"name": "p"}}),
        ("PATCH", one, {}, release),
        ("DELETE", one, {}, {"preconditions": {"uid": "u"}, "gracePeriodSeconds": 0}),
    ]
    assert client.calls == {"create": 1, "patch": 1, "delete": 1}


async def test_list_follows_continue_tokens(server: ScriptedApiServer, client: KubernetesClient) -> None:
    async def handler(request: web.Request) -> web.StreamResponse:
        token = request.query.get("continue", "")
        if token == "":
            return web.json_response({"metadata": {"resourceVersion": "9", "continue": "b"}, "items": [pod("a", 3)]})
        return web.json_response({"metadata": {"resourceVersion": "9"}, "items": [pod("b", 4)]})

    server.handler = handler
    snapshot = await client.list_pods("x=y")
    assert (set(snapshot.pods), snapshot.resource_version, snapshot.complete) == ({"a", "b"}, 9, True)
    assert server.requests[0][2] == {"labelSelector": "x=y", "limit": "500"}


async def test_list_restarts_without_pages_after_410(server: ScriptedApiServer, client: KubernetesClient) -> None:
    async def handler(request: web.Request) -> web.StreamResponse:
        if request.query.get("continue"):
            return web.json_response({"reason": "Expired", "message": "too old"}, status=410)
        more = {"continue": "b"} if request.query.get("limit") else {}
        items = [pod("a", 3)] if more else [pod("b", 12)]
        return web.json_response({"metadata": {"resourceVersion": "9" if more else "15", **more}, "items": items})

    server.handler = handler
    snapshot = await client.list_pods("x=y")
    assert (set(snapshot.pods), snapshot.resource_version) == ({"b"}, 15), "pages of two lists are not mixed"


async def watched(client: KubernetesClient) -> tuple[list[PodsSnapshot], ClusterProblem | None]:
    snapshots: list[PodsSnapshot] = []
    try:
        async for snapshot in client.watch_pods("x=y", 5):
            snapshots.append(snapshot)
    except ClusterProblem as problem:
        return snapshots, problem
    return snapshots, None


async def test_watch_survives_chunks_and_ends_inside_a_line(
    server: ScriptedApiServer, client: KubernetesClient
) -> None:
    lines = event("ADDED", pod("a", 6)) + event("DELETED", pod("a", 8)) + event("BOOKMARK", {**pod("", 20)})
    server.stream(lines[:30], lines[30:], b'{"type":"ADDED","obj')
    snapshots, problem = await watched(client)
    assert problem is None, "a watch that ends inside a line is no error"
    assert (snapshots[0].since, snapshots[-1].resource_version) == (5, 20)
    assert [uid for snapshot in snapshots for uid in snapshot.deleted] == ["uid-a"]
    assert all(one.resource_version == other.since for one, other in pairwise(snapshots))


@pytest.mark.parametrize("inside", [True, False], ids=["ERROR event", "HTTP status"])
async def test_watch_raises_410_when_its_resource_version_is_too_old(
    server: ScriptedApiServer, client: KubernetesClient, inside: bool
) -> None:
    status = {"kind": "Status", "status": "Failure", "code": 410, "reason": "Expired", "message": "too old"}
    if inside:
        server.stream(event("ADDED", pod("a", 6)), event("ERROR", status))
    else:
        server.respond(status, 410)
    snapshots, problem = await watched(client)
    assert problem is not None
    assert problem.status == 410
    assert [name for snapshot in snapshots for name in snapshot.pods] == (["a"] if inside else [])


@pytest.mark.parametrize(
    ("status", "body", "reason", "retriable"),
    [
        pytest.param(409, {"reason": "AlreadyExists", "message": "it is there"}, "AlreadyExists", True, id="taken"),
        pytest.param(422, {"reason": "Invalid", "message": "no"}, "Invalid", False, id="invalid"),
        pytest.param(403, {"reason": "Forbidden", "message": "quota"}, "Forbidden", True, id="forbidden"),
        pytest.param(503, "<html>", "Service Unavailable", True, id="a proxy's page"),
    ],
)
async def test_error_has_status_reason_and_retry_after(
    server: ScriptedApiServer, client: KubernetesClient, status: int, body: Any, reason: str, retriable: bool
) -> None:
    server.respond(body, status, **{"Retry-After": "3"})
    with pytest.raises(ClusterProblem, match=f"POST .*: {status} ") as caught:
        await client.create_pod({})
    problem = caught.value
    assert (problem.status, problem.reason, problem.retriable, problem.retry_after) == (status, reason, retriable, 3.0)


async def test_connection_refused_is_a_retriable_error() -> None:
    async with KubernetesClient("jobs", server="http://127.0.0.1:1") as client:
        with pytest.raises(ClusterProblem, match=r"GET .*/pods/p: ") as caught:
            await client.get_pod("p")
    assert (caught.value.status, caught.value.retriable) == (0, True)


async def test_invalid_pod_in_a_response_raises(server: ScriptedApiServer, client: KubernetesClient) -> None:
    server.respond({"metadata": {"resourceVersion": "many"}})
    with pytest.raises(ClusterProblem, match="a pod: "):
        await client.get_pod("p")


async def test_missing_kubeconfig_raises() -> None:
    with pytest.raises(ClusterProblem, match="kubeconfig /nowhere"):
        await KubernetesClient("jobs", kubeconfig="/nowhere").__aenter__()
