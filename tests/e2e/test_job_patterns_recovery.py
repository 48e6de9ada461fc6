"""Jobs and sync workers recover from the loss of a pod, a node and the scheduler, on both clusters."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.e2e.client import Json
from tests.e2e.jobs import (
    PLUGINS,
    Bench,
    counts,
    crew,
    crew_with_scheduler,
    ended,
    in_phase,
    index,
    nodes_of,
    not_terminating,
)
from tests.e2e.plane import Plane
from tests.e2e.scheduler import Configured, replica

pytestmark = [pytest.mark.asyncio(loop_scope="session"), pytest.mark.slow]

DONE = {"succeeded": 6, "completedIndexes": "0-5", "ready": 0, "terminating": 0, "uncounted": {}}


@pytest.fixture
def bench(control_plane: Plane, namespace: str) -> Bench:
    return Bench(control_plane.api, namespace)


async def test_deleted_pod_is_replaced(control_plane: Plane, bench: Bench, tmp_path: Path) -> None:
    async with crew_with_scheduler(control_plane, bench.namespace, tmp_path):
        await bench.apply("recovery.yaml")
        first = await bench.pods("recovery", in_phase("Running", 3))
        lost = first[0]["metadata"]["name"]
        await bench.api.delete(bench.at("Pod", lost))
        job = await bench.complete("recovery")
        assert counts(job) == {**DONE, "failed": 1}
        pods = await bench.pods("recovery", lambda pods: lost not in {pod["metadata"]["name"] for pod in pods})
        assert Counter(map(index, pods)) == dict.fromkeys("012345", 1)


async def test_pods_of_a_lost_node_run_elsewhere(control_plane: Plane, bench: Bench, tmp_path: Path) -> None:
    async with crew_with_scheduler(control_plane, bench.namespace, tmp_path) as nodes:
        await bench.apply("recovery.yaml")
        await bench.apply("sync-workers.yaml", shorten_tolerations)
        running = await bench.pods(holds=in_phase("Running", 6))
        lost = next(pod["spec"]["nodeName"] for pod in running if is_shard(pod))
        stranded = {pod["metadata"]["name"]: pod for pod in running if pod["spec"]["nodeName"] == lost}
        shards = sum(map(is_shard, stranded.values()))
        nodes.kill(lost)
        await declare_lost(bench, lost)
        job = await bench.job("recovery", lambda job: ended(job) == ["SuccessCriteriaMet"])
        assert (job["status"]["completedIndexes"], job["status"]["failed"]) == ("0-5", shards)
        pods = await bench.pods(holds=workers_run(3))
        new = [pod for pod in pods if pod["metadata"]["name"] not in stranded]
        assert lost not in nodes_of(new)
        # The lost pods may still run, so the Job waits until they are force-deleted.
        assert job["status"]["terminating"] == shards
        for name in stranded:
            await bench.api.delete(bench.at("Pod", name), gracePeriodSeconds=0)
        assert counts(await bench.complete("recovery")) == {**DONE, "failed": shards}


def shorten_tolerations(document: Json) -> None:
    """Let the workers tolerate a lost node for two seconds only, like the Job's pods."""
    for toleration in document["spec"]["template"]["spec"]["tolerations"]:
        toleration["tolerationSeconds"] = 2


async def declare_lost(bench: Bench, node: str) -> None:
    """Set the condition that the node lifecycle controller sets after its grace period, which is long here."""
    words = {"reason": "NodeStatusUnknown", "message": "Kubelet stopped posting node status."}
    unknown = {"type": "Ready", "status": "Unknown", **words}
    await bench.api.patch(f"/api/v1/nodes/{node}/status", {"status": {"conditions": [unknown]}}, "strategic")


def is_shard(pod: Json) -> bool:
    """Return True for a pod of the Job."""
    return "batch.kubernetes.io/job-name" in pod["metadata"]["labels"]


def workers_run(count: int) -> Callable[[list[Json]], bool]:
    """Return True if so many workers run and are not terminating."""

    def holds(pods: list[Json]) -> bool:
        return in_phase("Running", count)([pod for pod in not_terminating(pods) if not is_shard(pod)])

    return holds


async def test_killed_scheduler_loses_and_duplicates_no_pod(control_plane: Plane, bench: Bench, tmp_path: Path) -> None:
    config = tmp_path / "config.yaml"
    config.write_text(Configured("pyscheduler", PLUGINS).document())
    async with crew(control_plane, bench.namespace, nodes=2, cpu="2"):
        await bench.apply("recovery.yaml")
        seen = 0
        for _ in range(3):
            async with replica(control_plane, config, tmp_path) as running:
                # It dies right after a binding, with its next decisions under way.
                seen = len(bound(await bench.pods("recovery", more_bound_than(seen))))
                running.process.kill()
                await running.process.wait()
        async with replica(control_plane, config, tmp_path):
            job = await bench.complete("recovery")
        assert counts(job) == DONE
        pods = await bench.pods("recovery")
        assert Counter(map(index, pods)) == dict.fromkeys("012345", 1)


def bound(pods: list[Json]) -> list[str]:
    """Return the names of the bound pods."""
    return [pod["metadata"]["name"] for pod in pods if pod["spec"].get("nodeName")]


def more_bound_than(count: int) -> Callable[[list[Json]], bool]:
    """Return True if more pods than that have a node, or all have."""
    return lambda pods: len(bound(pods)) > count or len(bound(pods)) == 6
