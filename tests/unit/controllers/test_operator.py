"""PodGroup controller against an embedded API server."""

from __future__ import annotations

from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest
import yaml

from pyscheduler.api import ResourceKind
from pyscheduler.controllers.handlers import POD_GROUPS
from pyscheduler.controllers.operator import PodGroupOperator
from pyscheduler.controllers.podgroup_status import POD_GROUP_LABEL
from pyscheduler.embedded.server import ApiServer
from pyscheduler.kube.credentials import ConnectionProblem
from pyscheduler.kube.object_client import ObjectClient
from pyscheduler.kube.paths import NODES, PODS
from pyscheduler.testing import PodBuilder, node, pod
from tests.unit.hollow.live import bind, connected, create_pod, wait_for

CRD = Path(__file__).parents[3] / "manifests" / "base" / "crds" / "podgroups.yaml"
CRDS = ResourceKind(
    "apiextensions.k8s.io", "v1", "customresourcedefinitions", "CustomResourceDefinition", namespaced=False
)
GROUP = {
    "apiVersion": "scheduling.x-k8s.io/v1alpha1",
    "kind": "PodGroup",
    "metadata": {"name": "g", "namespace": "default"},
    "spec": {"minMember": 2},
}


@pytest.fixture
async def client(tmp_path: Path) -> AsyncIterator[ObjectClient]:
    async with ApiServer() as server, connected(server.url) as connection:
        client = ObjectClient(connection)
        await client.create(CRDS, yaml.safe_load(CRD.read_text()))
        machine = node("n").manifest
        del machine["metadata"]["uid"]
        await client.create(NODES, machine)
        async with PodGroupOperator(server.write_kubeconfig(tmp_path / "kubeconfig")):
            yield client


def member(name: str) -> PodBuilder:
    return pod(name).label(POD_GROUP_LABEL, "g")


def has_status(phase: str, scheduled: str) -> Any:
    return lambda group: (
        group.get("status", {}).get("phase") == phase
        and [c["status"] for c in group["status"]["conditions"] if c["type"] == "Scheduled"] == [scheduled]
    )


async def test_status_follows_the_pods_of_a_group(client: ObjectClient) -> None:
    await client.create(POD_GROUPS, GROUP)
    await wait_for(client, POD_GROUPS, "g", has_status("Pending", "False"))
    await create_pod(client, member("a"))
    await create_pod(client, member("b"))
    await create_pod(client, pod("other"))
    await wait_for(client, POD_GROUPS, "g", has_status("Scheduling", "False"))
    for name in ("a", "b"):
        await bind(client, name, "n")
    await wait_for(client, POD_GROUPS, "g", has_status("Scheduling", "True"))
    for name in ("a", "b"):
        await client.patch_status(PODS, ("default", name), {"phase": "Succeeded"})
    group = await wait_for(client, POD_GROUPS, "g", has_status("Finished", "True"))
    assert group["status"]["succeeded"] == 2
    unchanged = await client.get(PODS, "default", "a")
    assert not {"annotations", "finalizers"} & (unchanged["metadata"].keys() | group["metadata"].keys())


@pytest.mark.parametrize(
    "text",
    [
        pytest.param(None, id="file does not exist"),
        pytest.param("nonsense", id="not a kubeconfig"),
        pytest.param("a: [", id="invalid YAML"),
    ],
)
async def test_invalid_kubeconfig_is_reported_in_one_line(text: str | None, tmp_path: Path) -> None:
    path = tmp_path / "kubeconfig"
    if text is not None:
        path.write_text(text)
    with pytest.raises(ConnectionProblem, match="kubeconfig") as problem:
        await PodGroupOperator(path).start()
    assert "\n" not in str(problem.value)
