"""Requests of the bare client."""

from __future__ import annotations

import asyncio
import json

import aiohttp
import pytest

from bench.bare_client import BindingJob, PodMeta, bind_all
from tests.e2e.client import Json
from tests.e2e.plane import Plane
from tests.e2e.workloads import pod

JOB = BindingJob("bare", events=True)
PODS = "/api/v1/namespaces/default/pods"
POD = PodMeta("pod-1", "uid-1", "bench")


def test_binding_contains_pod_uid_and_node() -> None:
    path, body = JOB.binding(POD, "node-7")

    assert path == "/api/v1/namespaces/bench/pods/pod-1/binding"
    assert json.loads(body)["metadata"] == {"namespace": "bench", "name": "pod-1", "uid": "uid-1"}
    assert json.loads(body)["target"]["name"] == "node-7"


def test_event_is_that_of_a_scheduler() -> None:
    path, body = JOB.event(POD, "node-7", 1.5)

    event = json.loads(body)
    assert path == "/apis/events.k8s.io/v1/namespaces/bench/events"
    assert event["eventTime"] == "1970-01-01T00:00:01.500000Z"
    assert (event["reason"], event["note"]) == ("Scheduled", "Successfully assigned bench/pod-1 to node-7")
    assert event["regarding"]["uid"] == "uid-1"


def test_only_pending_pods_of_the_scheduler_name_are_listed() -> None:
    assert JOB.pending.endswith("/pods?fieldSelector=spec.schedulerName=bare,spec.nodeName=")


@pytest.mark.parametrize("events", [False, True])
async def test_gated_pod_does_not_block_others_and_is_bound_once_ungated(plane: Plane, events: bool) -> None:
    api, spec = plane.api, {"schedulerName": "bare", "containers": [{"name": "a", "image": "b"}]}
    await api.create("/api/v1/nodes", {"metadata": {"name": "n"}})
    await api.create(PODS, pod("a-gated", {**spec, "schedulingGates": [{"name": "x.y/z"}]}))
    await api.create(PODS, pod("b-free", spec))

    async with asyncio.timeout(30), aiohttp.ClientSession(api.server) as session:
        binding = asyncio.create_task(bind_all(session, BindingJob("bare", events)))
        await api.until(f"{PODS}/b-free", node_of)
        assert node_of(await api.get(f"{PODS}/a-gated")) is None
        await api.patch(f"{PODS}/a-gated", {"spec": {"schedulingGates": None}})
        await binding

    assert [node_of(await api.get(f"{PODS}/{name}")) for name in ("a-gated", "b-free")] == ["n", "n"]


def node_of(found: Json) -> str | None:
    """Return the node that a pod is bound to."""
    node: str | None = found["spec"].get("nodeName")
    return node
