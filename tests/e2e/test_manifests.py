"""`kubectl apply -k manifests/` installs everything that the scheduler needs, permissions included."""

from __future__ import annotations

from pathlib import Path

import pytest
from click.testing import CliRunner

from pyscheduler.cli.manifests import KUSTOMIZATIONS, manifests
from tests.e2e.kubectl import kubectl
from tests.e2e.plane import Plane
from tests.e2e.scheduler import ROOT, scheduler_with
from tests.e2e.workloads import hollow_nodes, placed, pod, pod_spec

pytestmark = pytest.mark.asyncio(loop_scope="session")
DEPLOYMENT = "/apis/apps/v1/namespaces/kube-system/deployments/pyscheduler"
CONFIG_MAPS = "/api/v1/namespaces/kube-system/configmaps"


async def test_manifests_deploy_a_second_scheduler(control_plane: Plane, namespace: str, tmp_path: Path) -> None:
    api, pods = control_plane.api, f"/api/v1/namespaces/{namespace}/pods"
    await kubectl(control_plane, "apply", "-k", str(ROOT / "manifests"))
    deployment = await api.get(DEPLOYMENT)
    template = deployment["spec"]["template"]["spec"]
    # Its pods would wait for a default scheduler, and take room in the first story that has one.
    await api.delete(DEPLOYMENT, propagationPolicy="Background")
    assert template["serviceAccountName"] == "pyscheduler"
    mounted = next(v["configMap"]["name"] for v in template["volumes"] if "configMap" in v)
    config = tmp_path / "config.yaml"
    config.write_text((await api.get(f"{CONFIG_MAPS}/{mounted}"))["data"]["config.yaml"])
    async with hollow_nodes(control_plane, namespace, 2), scheduler_with(control_plane, config, tmp_path):
        await api.create(pods, pod("mine", pod_spec("pyscheduler", namespace)))
        found = await api.until(pods, lambda found: len(placed(found)) == 1)
        assert placed(found)["mine"].startswith(namespace)


@pytest.mark.parametrize("name", KUSTOMIZATIONS)
async def test_printed_manifests_are_accepted(control_plane: Plane, namespace: str, tmp_path: Path, name: str) -> None:
    """They are created in dry runs, in the order of the files, in a namespace of their own where they may be."""
    words = [] if name in ("crds", "dashboard") else ["--image", "registry.example.com/pyscheduler:0.1.0"]
    words += [] if name == "default-scheduler" else ["--namespace", namespace]
    folder = tmp_path / "printed"
    result = CliRunner().invoke(manifests, [name, *words, "--output", str(folder)])
    assert result.exit_code == 0, result.output
    output = await kubectl(control_plane, "apply", "--dry-run=server", "-f", str(folder))
    assert output.count("(server dry run)") == len(list(folder.iterdir()))
