"""An extender for kube-scheduler's protocol has the same effect on kube-scheduler and this scheduler."""

from __future__ import annotations

import asyncio
import json
import sys
from collections.abc import AsyncIterator
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import aiohttp
import pytest
import yaml

from tests.controlplane.process import free_ports
from tests.e2e.client import ApiError, Json
from tests.e2e.extender import BOUND_BY, KEEP, NEVER, PREEMPT, PREFER
from tests.e2e.plane import Plane
from tests.e2e.scheduler import ROOT, scheduler_with
from tests.e2e.workloads import hollow_nodes, placed, pod, pod_spec, unscheduled

pytestmark = [pytest.mark.asyncio(loop_scope="session"), pytest.mark.slow]

CLASSES = "/apis/scheduling.k8s.io/v1/priorityclasses"
BOTH = pytest.mark.parametrize("contender", ["pyscheduler", "kube-scheduler"])
FORMS = pytest.mark.parametrize("names", [False, True], ids=["whole nodes", "names"])


@dataclass(frozen=True)
class Running:
    """A running extender."""

    url: str
    log: Path

    def calls(self, verb: str) -> list[Json]:
        """Return the arguments of the calls with a verb, oldest first."""
        lines = [json.loads(line) for line in self.log.read_text().splitlines()] if self.log.exists() else []
        return [line["args"] for line in lines if line["verb"] == verb]


@asynccontextmanager
async def extender(plane: Plane, folder: Path) -> AsyncIterator[Running]:
    """Run the extender's process."""
    (port,) = free_ports(1)
    running = Running(f"http://127.0.0.1:{port}", folder / "calls.jsonl")
    command = [sys.executable, "-m", "tests.e2e.extender", port, plane.kubeconfig, running.log]
    process = await asyncio.create_subprocess_exec(*map(str, command), cwd=ROOT)
    try:
        await _answers(plane, running)
        yield running
    finally:
        process.terminate()
        await process.wait()


async def _answers(plane: Plane, running: Running) -> None:
    for _ in range(600):
        try:
            await plane.api.text("/healthz", server=running.url)
            return
        except (ApiError, OSError, aiohttp.ClientError):
            await asyncio.sleep(0.1)
    raise AssertionError("the extender does not answer")


def configuration(name: str, url: str, names: bool) -> str:
    """Return a configuration for either scheduler."""
    settings: Json = {"urlPrefix": url, "nodeCacheCapable": names, "httpTimeout": "10s", "weight": 50}
    verbs = {f"{verb}Verb": verb for verb in ("filter", "prioritize", "preempt", "bind")}
    return yaml.safe_dump(
        {
            "apiVersion": "kubescheduler.config.k8s.io/v1",
            "kind": "KubeSchedulerConfiguration",
            "leaderElection": {"leaderElect": False},
            "profiles": [{"schedulerName": name}],
            "extenders": [{**settings, **verbs}],
        }
    )


def running_scheduler(contender: str, plane: Plane, config: str, folder: Path) -> AbstractAsyncContextManager[Any]:
    """Run this scheduler or the real one."""
    if contender == "kube-scheduler":
        if plane.real is None:
            pytest.skip("needs the real control plane: pytest tests/e2e --control-plane=real")
        return plane.real.kube_scheduler(config)
    file = folder / "config.yaml"
    file.write_text(config)
    return scheduler_with(plane, file, folder)


def ordered(name: str, spec: Json, **orders: str) -> Json:
    """Return a pod with annotations for the extender."""
    made = pod(name, spec)
    made["metadata"]["annotations"] = {
        {"keep": KEEP, "prefer": PREFER, "preempt": PREEMPT}[word]: order for word, order in orders.items()
    }
    return made


@BOTH
@FORMS
async def test_pods_run_on_the_nodes_of_the_extender(
    control_plane: Plane, namespace: str, tmp_path: Path, contender: str, names: bool
) -> None:
    api, pods = control_plane.api, f"/api/v1/namespaces/{namespace}/pods"
    spec = pod_spec(namespace, namespace)
    async with (
        hollow_nodes(control_plane, namespace, 4),
        extender(control_plane, tmp_path) as service,
        running_scheduler(contender, control_plane, configuration(namespace, service.url, names), tmp_path),
    ):
        nodes = sorted(
            n["metadata"]["name"] for n in await api.list("/api/v1/nodes", labelSelector=f"pool={namespace}")
        )
        await api.patch(f"/api/v1/nodes/{nodes[0]}", {"metadata": {"labels": {NEVER: "yes"}}})
        await api.create(pods, ordered("kept", spec, keep=nodes[2]))
        await api.create(pods, ordered("preferred", spec, prefer=nodes[3]))
        await api.create(pods, ordered("both", spec, keep=",".join(nodes[:2]), prefer=nodes[1]))
        await api.create(pods, ordered("nowhere", spec, keep="elsewhere"))
        found = await api.until(pods, lambda found: len(placed(found)) == 3)
        assert placed(found) == {"kept": nodes[2], "preferred": nodes[3], "both": nodes[1]}
        bound = [p["metadata"]["name"] for p in found["items"] if BOUND_BY in p["metadata"].get("annotations", {})]
        assert sorted(bound) == ["both", "kept", "preferred"]
        await api.until(f"{pods}/nowhere", lambda found: unscheduled(found) == _refusal(names))
    _check_protocol(service, names)


def _refusal(names: bool) -> str:
    """Return the message of a pod that the extender rejects everywhere; with names only, it has no node labels."""
    refused, helped = "4 not on the list", "4 No preemption victims found for incoming pod"
    if not names:
        refused = "1 never on the list, 3 not on the list"
        helped = "1 Preemption is not helpful for scheduling, 3 No preemption victims found for incoming pod"
    available = "0/4 nodes are available"
    return f"{available}: {refused}. preemption: {available}: {helped}."


def _check_protocol(service: Running, names: bool) -> None:
    """Check keys and forms of the requests, which are equal for both schedulers."""
    for verb in ("filter", "prioritize"):
        for args in service.calls(verb):
            assert set(args) == {"Pod", "Nodes", "NodeNames"}
            assert set(args["Pod"]) == {"metadata", "spec", "status"}
            assert "managedFields" not in args["Pod"]["metadata"]
            assert (args["Nodes"] is None, args["NodeNames"] is None) == (names, not names)
            for node in [] if names else args["Nodes"]["items"]:
                assert set(node) == {"metadata", "spec", "status"}
    for args in service.calls("bind"):
        assert set(args) == {"PodName", "PodNamespace", "PodUID", "Node"}


@BOTH
@FORMS
async def test_extender_chooses_the_victims(
    control_plane: Plane, namespace: str, tmp_path: Path, contender: str, names: bool
) -> None:
    api, pods, urgent = control_plane.api, f"/api/v1/namespaces/{namespace}/pods", f"{namespace}-urgent"
    kind = {"apiVersion": "scheduling.k8s.io/v1", "kind": "PriorityClass"}
    await api.create(CLASSES, {**kind, "metadata": {"name": urgent}, "value": 1000})
    spec = pod_spec(namespace, namespace, cpu="1")
    async with (
        hollow_nodes(control_plane, namespace, 3, cpu="1"),
        extender(control_plane, tmp_path) as service,
        running_scheduler(contender, control_plane, configuration(namespace, service.url, names), tmp_path),
    ):
        for i in range(3):
            await api.create(pods, pod(f"low-{i}", spec))
        where = placed(await api.until(pods, lambda found: len(placed(found)) == 3))
        await api.create(pods, ordered("urgent", {**spec, "priorityClassName": urgent}, preempt=where["low-1"]))
        bound = await api.until(f"{pods}/urgent", lambda found: found["spec"].get("nodeName"))
        assert bound["spec"]["nodeName"] == where["low-1"]
        left = await api.until(pods, lambda found: len(found["items"]) == 3)
        assert sorted(p["metadata"]["name"] for p in left["items"]) == ["low-0", "low-2", "urgent"]
    await api.delete(f"{CLASSES}/{urgent}")
    for args in service.calls("preempt"):
        assert set(args) == {"Pod", "NodeNameToVictims", "NodeNameToMetaVictims"}
        victims = args["NodeNameToMetaVictims" if names else "NodeNameToVictims"]
        assert args["NodeNameToVictims" if names else "NodeNameToMetaVictims"] is None
        assert set(victims) == set(where.values())
        for found in victims.values():
            assert set(found) == {"Pods", "NumPDBViolations"}
