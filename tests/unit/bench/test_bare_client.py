"""The bare client says to the API server what schedulers say to it."""

from __future__ import annotations

import asyncio
import json
from typing import Any

import aiohttp
import pytest

from bench.bare_client import Job, PodMeta, bind_all
from pyscheduler.embedded.server import ApiServer

JOB = Job("bare", events=True)
POD = PodMeta("pod-1", "uid-1", "bench")


def test_a_binding_names_pod_uid_and_node() -> None:
    path, body = JOB.binding(POD, "node-7")

    assert path == "/api/v1/namespaces/bench/pods/pod-1/binding"
    assert json.loads(body)["metadata"] == {"namespace": "bench", "name": "pod-1", "uid": "uid-1"}
    assert json.loads(body)["target"]["name"] == "node-7"


def test_an_event_is_what_a_scheduler_writes() -> None:
    path, body = JOB.event(POD, "node-7", 1.5)

    event = json.loads(body)
    assert path == "/apis/events.k8s.io/v1/namespaces/bench/events"
    assert event["eventTime"] == "1970-01-01T00:00:01.500000Z"
    assert (event["reason"], event["note"]) == ("Scheduled", "Successfully assigned bench/pod-1 to node-7")
    assert event["regarding"]["uid"] == "uid-1"


def test_only_its_own_pending_pods_are_listed() -> None:
    assert JOB.pending.endswith("/pods?fieldSelector=spec.schedulerName=bare,spec.nodeName=")


async def call(session: aiohttp.ClientSession, method: str, path: str, body: object = None) -> dict[str, Any]:
    kind = "application/merge-patch+json" if method == "PATCH" else "application/json"
    async with session.request(method, path, data=json.dumps(body), headers={"Content-Type": kind}) as answer:
        assert answer.status < 300, await answer.text()
        found: dict[str, Any] = await answer.json()
        return found


async def show(session: aiohttp.ClientSession, name: str, **spec: object) -> None:
    """A pod that is the bare client's to bind."""
    of_its_own = {"schedulerName": "bare", "containers": [{"name": "a", "image": "b"}]}
    pod = {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": name}, "spec": {**of_its_own, **spec}}
    await call(session, "POST", "/api/v1/namespaces/default/pods", pod)


async def node_of(session: aiohttp.ClientSession, name: str) -> str | None:
    pod = await call(session, "GET", f"/api/v1/namespaces/default/pods/{name}")
    bound: str | None = pod["spec"].get("nodeName")
    return bound


async def until_bound(session: aiohttp.ClientSession, name: str) -> str:
    while (node := await node_of(session, name)) is None:
        pass
    return node


@pytest.mark.parametrize("events", [False, True])
async def test_a_gated_pod_holds_up_nobody_and_is_bound_when_its_gate_is_lifted(events: bool) -> None:
    server = ApiServer()
    await server.start()
    try:
        async with asyncio.timeout(30), aiohttp.ClientSession(server.url) as session:
            node = {"apiVersion": "v1", "kind": "Node", "metadata": {"name": "n"}}
            await call(session, "POST", "/api/v1/nodes", node)
            await show(session, "a-gated", schedulingGates=[{"name": "x.y/z"}])
            await show(session, "b-free")

            binding = asyncio.create_task(bind_all(session, Job("bare", events)))
            assert await until_bound(session, "b-free") == "n"
            assert await node_of(session, "a-gated") is None
            await call(session, "PATCH", "/api/v1/namespaces/default/pods/a-gated", {"spec": {"schedulingGates": None}})
            await binding

            assert await node_of(session, "a-gated") == "n"
    finally:
        await server.stop()
