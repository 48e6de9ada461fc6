"""Releases in the style of common charts: they are applied without an error and come to life.

`charts/` has a file for each, with its CustomResourceDefinitions in a second one, as chart tools install them first.
"""

from __future__ import annotations

import json
from collections.abc import AsyncIterator
from pathlib import Path

import pytest
import pytest_asyncio
import yaml

from pyscheduler.embedded.cluster import ClusterSettings, EmbeddedCluster
from pyscheduler.embedded.hollow import LifecycleTimings, node_templates
from pyscheduler.embedded.uncontrolled import REASON
from tests.controlplane.cluster import ControlPlane
from tests.e2e.client import ApiClient, Json
from tests.e2e.kubectl import kubectl
from tests.e2e.plane import EMBEDDED, Plane, new_namespace
from tests.e2e.scheduler import Configured, scheduler

pytestmark = [pytest.mark.asyncio(loop_scope="session"), pytest.mark.slow]
FOLDER = Path(__file__).with_name("charts")
CHARTS = sorted(path.stem for path in FOLDER.glob("*.yaml") if not path.stem.endswith(".crds"))
STANDARD = {
    "metadata": {"name": "standard"},
    "provisioner": "example.com/disk",
    "volumeBindingMode": "WaitForFirstConsumer",
}
ROLLED_OUT = ("Deployment", "StatefulSet", "DaemonSet")
WITHOUT_CONTROLLER = ("Ingress", "NetworkPolicy", "MutatingWebhookConfiguration", "ValidatingWebhookConfiguration")
TIMEOUT = "--timeout=120s"


def documents(chart: str) -> list[Json]:
    return [each for each in yaml.safe_load_all((FOLDER / f"{chart}.yaml").read_text(encoding="utf-8")) if each]


def named(chart: str, *kinds: str) -> list[str]:
    """Return the objects of these kinds as kubectl names them."""
    return [f"{each['kind']}/{each['metadata']['name']}" for each in documents(chart) if each["kind"] in kinds]


def without_controller(chart: str) -> set[str]:
    balanced = {
        f"Service/{each['metadata']['name']}"
        for each in documents(chart)
        if each["kind"] == "Service" and each["spec"].get("type") == "LoadBalancer"
    }
    return balanced | set(named(chart, *WITHOUT_CONTROLLER))


async def install(plane: Plane, namespace: str, chart: str) -> str:
    """Apply a chart; return what kubectl prints about its objects."""
    definitions = FOLDER / f"{chart}.crds.yaml"
    if definitions.exists():
        await kubectl(plane, "apply", "-f", str(definitions))
        await kubectl(plane, "wait", "--for=condition=Established", "-f", str(definitions), TIMEOUT)
    return await kubectl(plane, "-n", namespace, "apply", "-f", str(FOLDER / f"{chart}.yaml"))


@pytest_asyncio.fixture(scope="module", loop_scope="session")
async def running(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> AsyncIterator[Plane]:
    """An embedded cluster with all its controllers, and a scheduler for all pods."""
    if request.config.getoption("--control-plane", default=EMBEDDED) != EMBEDDED:
        pytest.skip("hollow volumes and loads are those of the embedded cluster")
    nodes = node_templates(4, cpu="16", zones=("a", "b"))
    settings = ClusterSettings(timings=LifecycleTimings(start_seconds=0, job_seconds=0.1))
    async with (
        EmbeddedCluster(nodes, settings=settings) as cluster,
        ApiClient(cluster.kubeconfig) as api,
    ):
        plane = Plane(EMBEDDED, cluster.kubeconfig, api, embedded=cluster)
        await api.create("/apis/storage.k8s.io/v1/storageclasses", STANDARD)
        async with scheduler(plane, Configured("default-scheduler"), tmp_path_factory.mktemp("scheduler")):
            yield plane


@pytest.mark.parametrize("chart", CHARTS)
async def test_chart_comes_to_life(running: Plane, chart: str) -> None:
    namespace = f"chart-{chart}"
    await new_namespace(running.api, namespace)
    printed = await install(running, namespace, chart)
    assert [line for line in printed.splitlines() if not line.endswith(" created")] == []
    for name in named(chart, *ROLLED_OUT):
        await kubectl(running, "-n", namespace, "rollout", "status", name, TIMEOUT)
    for name in named(chart, "Job"):
        await kubectl(running, "-n", namespace, "wait", "--for=condition=Complete", name, TIMEOUT)
    for name in named(chart, "HorizontalPodAutoscaler"):
        await kubectl(running, "-n", namespace, "wait", "--for=condition=ScalingActive", name, TIMEOUT)
    assert await uncontrolled(running, namespace) >= without_controller(chart)


async def uncontrolled(plane: Plane, namespace: str) -> set[str]:
    """Return the objects that have an Event about their missing controller."""
    found = json.loads(await kubectl(plane, "get", "events", "-A", "-o", "json"))["items"]
    regarding = [event["involvedObject"] for event in found if event["reason"] == REASON]
    return {f"{each['kind']}/{each['name']}" for each in regarding if each.get("namespace") in (namespace, None)}


@pytest.mark.parametrize("chart", CHARTS)
async def test_chart_is_accepted_by_the_real_api_server(
    real_control_plane: ControlPlane, control_plane: Plane, namespace: str, chart: str
) -> None:
    printed = await install(control_plane, namespace, chart)
    assert [line for line in printed.splitlines() if not line.endswith(" created")] == []
    for path in (FOLDER / f"{chart}.yaml", FOLDER / f"{chart}.crds.yaml"):
        if path.exists():
            await kubectl(control_plane, "-n", namespace, "delete", "--wait=false", "-f", str(path))
