"""Scheduling, end to end: a scheduler process, an API server, controllers, and nodes that run pods."""

from __future__ import annotations

import os
from collections import Counter
from pathlib import Path

import pytest

from pyscheduler.embedded.hollow import NodeTemplate
from tests.e2e.client import Json
from tests.e2e.jobs import ended
from tests.e2e.plane import Plane
from tests.e2e.scheduler import Configured, scheduler
from tests.e2e.workloads import deployment, hollow_nodes, in_pool, job, placed, pod, pod_spec, running, unscheduled

pytestmark = pytest.mark.asyncio(loop_scope="session")

QOS = {"queueSort": {"disabled": [{"name": "*"}], "enabled": [{"name": "QoSSort"}]}}
GANG = {"multiPoint": {"enabled": [{"name": "Gang"}]}}
PLUGIN = '''
from pyscheduler.api import Cycle, NodeInfo, Pod, Reads, ScorePlugin


class PreferQuiet(ScorePlugin):
    """A plugin that prefers nodes with the label quiet=yes."""

    name = "PreferQuiet"
    reads = Reads.OWN_NODE

    def score(self, cycle: Cycle, pod: Pod, node: NodeInfo) -> int:
        return 100 if node.labels.get("quiet") == "yes" else 0
'''


async def test_pods_of_a_deployment_run_and_have_events(control_plane: Plane, namespace: str, tmp_path: Path) -> None:
    api, pods = control_plane.api, f"/api/v1/namespaces/{namespace}/pods"
    theirs = pod("theirs", pod_spec("default-scheduler", namespace))
    async with hollow_nodes(control_plane, namespace, 50), scheduler(control_plane, Configured(namespace), tmp_path):
        await api.create(pods, theirs)
        workload = deployment("web", 500, pod_spec(namespace, namespace))
        await api.create(f"/apis/apps/v1/namespaces/{namespace}/deployments", workload)
        found = await api.until(pods, lambda found: running(found) == 500, 180, labelSelector="app=web")
        per_node = Counter(placed(found).values())
        assert len(per_node) == 50
        assert max(per_node.values()) - min(per_node.values()) <= 1
        await api.until(
            f"/apis/events.k8s.io/v1/namespaces/{namespace}/events",
            lambda found: len(_scheduled(found, namespace)) == 500,
        )
        left_alone = await api.get(f"{pods}/theirs")
        assert not left_alone["spec"].get("nodeName")
        assert unscheduled(left_alone) == ""


def _scheduled(found: Json, reporter: str) -> set[str]:
    """Return the pods with a Scheduled Event of `reporter`."""
    return {
        e["regarding"]["name"]
        for e in found["items"]
        if e["reason"] == "Scheduled" and e["reportingController"] == reporter
    }


@pytest.mark.skipif(not hasattr(os, "SCHED_BATCH"), reason="only Linux has policies to choose from")
async def test_scheduler_runs_under_the_batch_policy(control_plane: Plane, namespace: str, tmp_path: Path) -> None:
    async with scheduler(control_plane, Configured(namespace), tmp_path) as running:
        assert os.sched_getscheduler(running.process.pid) == os.SCHED_BATCH


async def test_job_runs_to_completion(control_plane: Plane, namespace: str, tmp_path: Path) -> None:
    api, jobs = control_plane.api, f"/apis/batch/v1/namespaces/{namespace}/jobs"
    async with hollow_nodes(control_plane, namespace, 2), scheduler(control_plane, Configured(namespace), tmp_path):
        await api.create(jobs, job("pieces", 6, 3, pod_spec(namespace, namespace)))
        done = await api.until(f"{jobs}/pieces", lambda found: "Complete" in ended(found))
        assert done["status"]["succeeded"] == 6


async def test_unschedulable_pod_has_a_reason_and_is_bound_when_there_is_room(
    control_plane: Plane, namespace: str, tmp_path: Path
) -> None:
    api, pods = control_plane.api, f"/api/v1/namespaces/{namespace}/pods"
    async with (
        hollow_nodes(control_plane, namespace, 2) as nodes,
        scheduler(control_plane, Configured(namespace), tmp_path),
    ):
        await api.create(pods, pod("big", pod_spec(namespace, namespace, cpu="6")))
        pending = await api.until(f"{pods}/big", unscheduled)
        assert "2 Insufficient cpu" in unscheduled(pending)
        events = f"/apis/events.k8s.io/v1/namespaces/{namespace}/events"
        found = await api.until(events, lambda found: found["items"])
        assert (found["items"][0]["reason"], found["items"][0]["note"]) == ("FailedScheduling", unscheduled(pending))
        template = in_pool(NodeTemplate(f"{namespace}-large", cpu="8"), namespace)
        await nodes.add(template)
        await api.until(f"{pods}/big", lambda found: found["spec"].get("nodeName") == template.name)
        await api.delete(f"/api/v1/nodes/{template.name}")


async def test_burst_is_bound_in_qos_order_on_a_full_node(control_plane: Plane, namespace: str, tmp_path: Path) -> None:
    api, pods = control_plane.api, f"/api/v1/namespaces/{namespace}/pods"
    classes = {"best-effort": {}, "burstable": {"requests": _SOME}, "guaranteed": {"requests": _SOME, "limits": _SOME}}
    async with hollow_nodes(control_plane, namespace, 1, pods="3"):
        for name, resources in classes.items():
            for i in range(3):
                spec = pod_spec(namespace, namespace)
                spec["containers"][0]["resources"] = resources
                await api.create(pods, pod(f"{name}-{i}", spec))
        async with scheduler(control_plane, Configured(namespace, QOS), tmp_path):
            found = await api.until(pods, lambda found: len(placed(found)) == 3)
            assert set(placed(found)) == {"guaranteed-0", "guaranteed-1", "guaranteed-2"}
            pending = await api.until(f"{pods}/best-effort-0", unscheduled)
            assert "1 Too many pods" in unscheduled(pending)


_SOME = {"cpu": "100m", "memory": "64Mi"}


async def test_gang_of_eight_with_room_for_seven_waits(control_plane: Plane, namespace: str, tmp_path: Path) -> None:
    api, pods = control_plane.api, f"/api/v1/namespaces/{namespace}/pods"
    groups = f"/apis/scheduling.x-k8s.io/v1alpha1/namespaces/{namespace}/podgroups"
    async with (
        hollow_nodes(control_plane, namespace, 7, cpu="1") as nodes,
        scheduler(control_plane, Configured(namespace, GANG), tmp_path),
    ):
        group = {"metadata": {"name": "crew"}, "spec": {"minMember": 8, "scheduleTimeoutSeconds": 5}}
        await api.create(groups, {"apiVersion": "scheduling.x-k8s.io/v1alpha1", "kind": "PodGroup", **group})
        for i in range(8):
            member = pod(
                f"crew-{i}", pod_spec(namespace, namespace, cpu="1"), {"scheduling.x-k8s.io/pod-group": "crew"}
            )
            await api.create(pods, member)
        short = "Insufficient cpu"
        waiting = await api.until(pods, lambda found: any(short in unscheduled(p) for p in found["items"]))
        assert placed(waiting) == {}
        await nodes.add(in_pool(NodeTemplate(f"{namespace}-8", cpu="1"), namespace))
        found = await api.until(pods, lambda found: len(placed(found)) == 8, 60)
        assert len(set(placed(found).values())) == 8
        await api.until(pods, lambda found: running(found) == 8)
        await api.delete(f"/api/v1/nodes/{namespace}-8")


async def test_plugin_from_a_user_file_decides(control_plane: Plane, namespace: str, tmp_path: Path) -> None:
    api, pods = control_plane.api, f"/api/v1/namespaces/{namespace}/pods"
    mine = tmp_path / "mine"
    mine.mkdir()
    (mine / "quiet_plugin.py").write_text(PLUGIN)
    plugins = {"score": {"enabled": [{"name": "quiet_plugin:PreferQuiet", "weight": 100}]}}
    async with hollow_nodes(control_plane, namespace, 5):
        quiet = f"{namespace}-3"
        await api.patch(f"/api/v1/nodes/{quiet}", {"metadata": {"labels": {"quiet": "yes"}}})
        async with scheduler(control_plane, Configured(namespace, plugins), tmp_path, mine):
            for i in range(4):
                await api.create(pods, pod(f"p-{i}", pod_spec(namespace, namespace)))
            found = await api.until(pods, lambda found: len(placed(found)) == 4)
            assert set(placed(found).values()) == {quiet}
