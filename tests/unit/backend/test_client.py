"""The client before a server that answers as told: what goes out, what is made of what comes back."""

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
    """Answers with what the test puts into `answer`; keeps what was asked."""

    def __init__(self) -> None:
        self.asked: list[tuple[str, str, dict[str, str], Any]] = []
        self.answer: Handler = _nothing
        self.url = ""

    async def handle(self, request: web.Request) -> web.StreamResponse:
        text = await request.text()
        self.asked.append((request.method, request.path, dict(request.query), json.loads(text) if text else None))
        return await self.answer(request)

    def say(self, body: Any, status: int = 200, **headers: str) -> None:
        async def answer(_: web.Request) -> web.StreamResponse:
            return web.json_response(body, status=status, headers=headers)

        self.answer = answer

    def stream(self, *chunks: bytes) -> None:
        """A watch that says so and ends."""

        async def answer(request: web.Request) -> web.StreamResponse:
            response = web.StreamResponse()
            await response.prepare(request)
            for chunk in chunks:
                await response.write(chunk)
            return response

        self.answer = answer


async def _nothing(_: web.Request) -> web.StreamResponse:
    raise AssertionError("nobody said what to answer")


@pytest_asyncio.fixture
async def server() -> AsyncIterator[ScriptedApiServer]:
    found = ScriptedApiServer()
    app = web.Application()
    app.router.add_route("*", "/{path:.*}", found.handle)
    runner = web.AppRunner(app)
    await runner.setup()
    site = web.TCPSite(runner, "127.0.0.1", 0)
    await site.start()
    found.url = f"http://127.0.0.1:{runner.addresses[0][1]}"
    yield found
    await runner.cleanup()


@pytest_asyncio.fixture
async def client(server: ScriptedApiServer) -> AsyncIterator[KubernetesClient]:
    async with KubernetesClient("jobs", server=server.url) as opened:
        yield opened


def pod(name: str, version: int, **status: Any) -> dict[str, Any]:
    notes = {TASK_ID: f"task {name}", ATTEMPT: "2"}
    meta = {"name": name, "uid": f"uid-{name}", "resourceVersion": str(version), "annotations": notes}
    return {"metadata": {**meta, "finalizers": [FINALIZER]}, "spec": {"nodeName": "n1"}, "status": status}


def event(kind: str, body: dict[str, Any]) -> bytes:
    return json.dumps({"type": kind, "object": body}).encode() + b"\n"


async def test_a_pod_is_read(server: ScriptedApiServer, client: KubernetesClient) -> None:
    ended = {"exitCode": 137, "reason": "OOMKilled", "finishedAt": "2026-01-01T00:00:09Z"}
    statuses = [{"name": "a", "state": {"terminated": {"exitCode": 0}}}, {"name": "b", "state": {"terminated": ended}}]
    condition = {"type": "DisruptionTarget", "status": "True", "reason": "EvictionByEvictionAPI"}
    server.say(pod("p", 7, phase="Failed", containerStatuses=statuses, conditions=[condition]))
    found = await client.get_pod("p")
    assert (found.name, found.uid, found.version, found.task, found.attempt) == ("p", "uid-p", 7, "task p", 2)
    assert (found.phase, found.node, found.has_finalizer, found.stopped) == ("Failed", "n1", True, True)
    assert (found.exit_code, found.exit_reason, found.disruption) == (137, "OOMKilled", "EvictionByEvictionAPI")
    assert found.finished_at == 1767225609.0


async def test_what_goes_out(server: ScriptedApiServer, client: KubernetesClient) -> None:
    server.say(pod("p", 7))
    await client.create_pod({"metadata": {"name": "p"}})
    await client.release_pod("p", "u")
    await client.delete_pod("p", "u", 0)
    one = "/api/v1/namespaces/jobs/pods/p"
    release = {"metadata": {"uid": "u", "$deleteFromPrimitiveList/finalizers": [FINALIZER]}}
    assert server.asked == [
        ("POST", "/api/v1/namespaces/jobs/pods", {}, {"metadata": {"name": "p"}}),
        ("PATCH", one, {}, release),
        ("DELETE", one, {}, {"preconditions": {"uid": "u"}, "gracePeriodSeconds": 0}),
    ]
    assert client.calls == {"create": 1, "patch": 1, "delete": 1}


async def test_a_list_has_pages(server: ScriptedApiServer, client: KubernetesClient) -> None:
    async def answer(request: web.Request) -> web.StreamResponse:
        token = request.query.get("continue", "")
        if token == "":
            return web.json_response({"metadata": {"resourceVersion": "9", "continue": "b"}, "items": [pod("a", 3)]})
        return web.json_response({"metadata": {"resourceVersion": "9"}, "items": [pod("b", 4)]})

    server.answer = answer
    found = await client.list_pods("x=y")
    assert (set(found.pods), found.resource_version, found.complete) == ({"a", "b"}, 9, True)
    assert server.asked[0][2] == {"labelSelector": "x=y", "limit": "500"}


async def test_pages_that_expire_are_asked_for_in_one_piece(
    server: ScriptedApiServer, client: KubernetesClient
) -> None:
    async def answer(request: web.Request) -> web.StreamResponse:
        if request.query.get("continue"):
            return web.json_response({"reason": "Expired", "message": "too old"}, status=410)
        more = {"continue": "b"} if request.query.get("limit") else {}
        items = [pod("a", 3)] if more else [pod("b", 12)]
        return web.json_response({"metadata": {"resourceVersion": "9" if more else "15", **more}, "items": items})

    server.answer = answer
    found = await client.list_pods("x=y")
    assert (set(found.pods), found.resource_version) == ({"b"}, 15), "pages of two places are not mixed"


async def watched(client: KubernetesClient) -> tuple[list[PodsSnapshot], ClusterProblem | None]:
    told: list[PodsSnapshot] = []
    try:
        async for snapshot in client.watch_pods("x=y", 5):
            told.append(snapshot)
    except ClusterProblem as problem:
        return told, problem
    return told, None


async def test_a_watch_is_cut_anywhere(server: ScriptedApiServer, client: KubernetesClient) -> None:
    lines = event("ADDED", pod("a", 6)) + event("DELETED", pod("a", 8)) + event("BOOKMARK", {**pod("", 20)})
    server.stream(lines[:30], lines[30:], b'{"type":"ADDED","obj')
    told, problem = await watched(client)
    assert problem is None, "an end in the middle of a line is an end"
    assert (told[0].since, told[-1].resource_version) == (5, 20)
    assert [uid for snapshot in told for uid in snapshot.deleted] == ["uid-a"]
    assert all(one.resource_version == other.since for one, other in pairwise(told))


@pytest.mark.parametrize("inside", [True, False], ids=["as an event", "as the answer"])
async def test_a_place_that_is_too_old(server: ScriptedApiServer, client: KubernetesClient, inside: bool) -> None:
    status = {"kind": "Status", "status": "Failure", "code": 410, "reason": "Expired", "message": "too old"}
    if inside:
        server.stream(event("ADDED", pod("a", 6)), event("ERROR", status))
    else:
        server.say(status, 410)
    told, problem = await watched(client)
    assert problem is not None
    assert problem.status == 410
    assert [name for snapshot in told for name in snapshot.pods] == (["a"] if inside else [])


@pytest.mark.parametrize(
    ("status", "body", "reason", "retriable"),
    [
        pytest.param(409, {"reason": "AlreadyExists", "message": "it is there"}, "AlreadyExists", True, id="taken"),
        pytest.param(422, {"reason": "Invalid", "message": "no"}, "Invalid", False, id="invalid"),
        pytest.param(403, {"reason": "Forbidden", "message": "quota"}, "Forbidden", True, id="forbidden"),
        pytest.param(503, "<html>", "Service Unavailable", True, id="a proxy's page"),
    ],
)
async def test_a_refusal_is_told(
    server: ScriptedApiServer, client: KubernetesClient, status: int, body: Any, reason: str, retriable: bool
) -> None:
    server.say(body, status, **{"Retry-After": "3"})
    with pytest.raises(ClusterProblem, match=f"POST .*: {status} ") as caught:
        await client.create_pod({})
    problem = caught.value
    assert (problem.status, problem.reason, problem.retriable, problem.retry_after) == (status, reason, retriable, 3.0)


async def test_nobody_answers() -> None:
    async with KubernetesClient("jobs", server="http://127.0.0.1:1") as client:
        with pytest.raises(ClusterProblem, match=r"GET .*/pods/p: ") as caught:
            await client.get_pod("p")
    assert (caught.value.status, caught.value.retriable) == (0, True)


async def test_what_is_no_pod_is_no_answer(server: ScriptedApiServer, client: KubernetesClient) -> None:
    server.say({"metadata": {"resourceVersion": "many"}})
    with pytest.raises(ClusterProblem, match="a pod: "):
        await client.get_pod("p")


async def test_a_kubeconfig_that_is_none() -> None:
    with pytest.raises(ClusterProblem, match="kubeconfig /nowhere"):
        await KubernetesClient("jobs", kubeconfig="/nowhere").__aenter__()
