"""Preemption, end to end: a full node, a pod of higher priority, conditions and Events of victim and preemptor."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.e2e.client import ApiError, Json
from tests.e2e.plane import Plane
from tests.e2e.scheduler import Configured, scheduler
from tests.e2e.workloads import hollow_nodes, placed, pod, pod_spec, running

pytestmark = pytest.mark.asyncio(loop_scope="session")

CLASSES = "/apis/scheduling.k8s.io/v1/priorityclasses"


async def test_pod_preempts_one_of_lower_priority(control_plane: Plane, namespace: str, tmp_path: Path) -> None:
    api, pods = control_plane.api, f"/api/v1/namespaces/{namespace}/pods"
    urgent = f"{namespace}-urgent"
    await api.create(
        CLASSES,
        {
            "apiVersion": "scheduling.k8s.io/v1",
            "kind": "PriorityClass",
            "metadata": {"name": urgent},
            "value": 1000,
        },
    )
    victim = pod("victim", pod_spec(namespace, namespace, cpu="1"))
    victim["metadata"]["finalizers"] = ["example.com/looked-at"]  # it stays to be looked at, though not on its node
    async with (
        hollow_nodes(control_plane, namespace, 1, cpu="1") as nodes,
        scheduler(control_plane, Configured(namespace), tmp_path),
    ):
        await api.create(pods, victim)
        found = await api.until(pods, running)
        node = placed(found)["victim"]
        nodes.kill(node)  # a kubelet that takes its time: what is deleted goes on to run
        await api.create(pods, pod("urgent", pod_spec(namespace, namespace, cpu="1", priorityClassName=urgent)))
        victim = await api.until(f"{pods}/victim", lambda found: found["metadata"].get("deletionTimestamp"))
        condition = next(c for c in victim["status"]["conditions"] if c["type"] == "DisruptionTarget")
        assert (condition["status"], condition["reason"]) == ("True", "PreemptionByScheduler")
        assert condition["message"] == f"{namespace}: preempting to accommodate a higher priority pod"
        waiting = await api.until(f"{pods}/urgent", lambda found: found["status"].get("nominatedNodeName") == node)
        assert (victim["status"]["phase"], waiting["spec"].get("nodeName")) == ("Running", None)
        nodes.revive(node)
        bound = await api.until(f"{pods}/urgent", lambda found: found["spec"].get("nodeName"))
        assert bound["spec"]["nodeName"] == node
        # It was not the end of the object that made room, but that of its containers.
        assert (await api.get(f"{pods}/victim"))["status"]["phase"] == "Failed"
        await api.patch(f"{pods}/victim", {"metadata": {"finalizers": None}})
        events = await api.until(f"/apis/events.k8s.io/v1/namespaces/{namespace}/events", _preempted)
        (event,) = _preempted(events)
        assert event["regarding"]["name"] == "victim"
        assert event["related"]["name"] == "urgent"
        assert event["note"] == f"Preempted by pod {bound['metadata']['uid']} on node {node}"
        assert (event["type"], event["action"]) == ("Normal", "Preempting")
    await api.delete(f"{CLASSES}/{urgent}")


async def test_api_server_rejects_a_nomination_of_a_bound_pod(control_plane: Plane, namespace: str) -> None:
    """The scheduler must not write a nomination after the binding."""
    pods = f"/api/v1/namespaces/{namespace}/pods"
    await control_plane.api.create(pods, pod("bound", pod_spec(namespace, namespace, nodeName="somewhere")))
    with pytest.raises(ApiError, match="may not be set on pods that are already bound to a node") as refused:
        await control_plane.api.patch(f"{pods}/bound/status", {"status": {"nominatedNodeName": "elsewhere"}})
    assert refused.value.status == 422
    await control_plane.api.delete(f"{pods}/bound", {"gracePeriodSeconds": 0})


def _preempted(events: Json) -> list[Json]:
    return [event for event in events["items"] if event["reason"] == "Preempted"]
