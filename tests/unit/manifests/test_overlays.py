"""The overlays: what kustomize makes of them, and that each has a configuration that the scheduler takes."""

from __future__ import annotations

import shutil
import subprocess
from pathlib import Path
from typing import Any

import pytest
import yaml

from pyscheduler.config.build import build_profiles
from pyscheduler.config.load import load
from pyscheduler.config.loaded import LoadedConfig
from pyscheduler.core.framework.handle import CoreHandle

MANIFESTS = Path(__file__).parents[3] / "manifests"
OVERLAYS = sorted(path.name for path in (MANIFESTS / "overlays").iterdir())
SECOND, DEFAULT = "overlays/second-scheduler", "overlays/default-scheduler"
CONFIGS = sorted(MANIFESTS.glob("**/config.yaml"))
RIGHTS = {"ServiceAccount", "ClusterRole", "ClusterRoleBinding", "Role", "RoleBinding"}

Json = dict[str, Any]
needs_kubectl = pytest.mark.skipif(shutil.which("kubectl") is None, reason="kubectl is not installed")


def built(folder: str) -> list[Json]:
    """The objects of a kustomization."""
    done = subprocess.run(
        ["kubectl", "kustomize", str(MANIFESTS / folder)], capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr
    return list(yaml.safe_load_all(done.stdout))


def the(kind: str, objects: list[Json]) -> Json:
    """The one object of a kind."""
    (found,) = [o for o in objects if o["kind"] == kind]
    return found


def pod_spec(objects: list[Json]) -> Json:
    spec: Json = the("Deployment", objects)["spec"]["template"]["spec"]
    return spec


def loaded(path: Path) -> LoadedConfig:
    """A configuration, its plugins constructed: what `config validate` does."""
    config = load(path)
    build_profiles(config, CoreHandle())
    return config


def test_there_are_the_three_ways_to_run_it() -> None:
    assert OVERLAYS == ["batch", "default-scheduler", "second-scheduler"]


@pytest.mark.parametrize("folder", [path.parent for path in sorted(MANIFESTS.glob("**/kustomization.yaml"))], ids=str)
def test_a_kustomization_names_every_file_beside_it(folder: Path) -> None:
    text = (folder / "kustomization.yaml").read_text()
    files = {p.name for p in folder.iterdir() if p.is_file()} - {"kustomization.yaml"}
    assert [name for name in sorted(files) if name not in text] == []


@pytest.mark.parametrize("path", CONFIGS, ids=lambda path: path.parent.name)
def test_each_configuration_is_valid(path: Path) -> None:
    (profile,) = loaded(path).profiles
    expected = "default-scheduler" if path.parent.name == "default-scheduler" else "pyscheduler"
    assert profile.scheduler_name == expected


@pytest.mark.parametrize("path", CONFIGS, ids=lambda path: path.parent.name)
def test_the_rate_of_bindings_is_not_bounded_by_the_client(path: Path) -> None:
    """kube-scheduler's defaults of 50 and 100 would: 50 pods a second, after the first 100."""
    client = loaded(path).configuration.client_connection
    assert (client.qps, client.burst) == (5000, 5000)


@pytest.mark.parametrize("path", CONFIGS, ids=lambda path: path.parent.name)
def test_replicas_elect_a_leader_on_the_lease_that_they_have_rights_to(path: Path) -> None:
    election = loaded(path).configuration.leader_election
    expected = "kube-scheduler" if path.parent.name == "default-scheduler" else "pyscheduler"
    assert election.leader_elect
    assert (election.resource_namespace, election.resource_name) == ("kube-system", expected)


def test_the_batch_overlay_fills_nodes_and_starts_gangs_whole() -> None:
    (profile,) = loaded(MANIFESTS / "overlays" / "batch" / "config.yaml").configuration.profiles
    args = {config.name: config.args for config in profile.plugin_config}
    assert args["NodeResourcesFit"]["scoringStrategy"]["type"] == "MostAllocated"
    assert [plugin.name for plugin in profile.plugins.multi_point.enabled] == ["Gang"]
    assert [plugin.name for plugin in profile.plugins.queue_sort.enabled] == ["QoSSort"]


@needs_kubectl
def test_the_folder_itself_is_the_second_scheduler() -> None:
    assert built(".") == built(SECOND)


@needs_kubectl
@pytest.mark.parametrize("overlay", OVERLAYS)
def test_the_deployment_mounts_the_configuration_of_its_overlay(overlay: str) -> None:
    objects = built(f"overlays/{overlay}")
    made, pod = the("ConfigMap", objects), pod_spec(objects)
    assert made["data"]["config.yaml"] == (MANIFESTS / "overlays" / overlay / "config.yaml").read_text()
    assert made["metadata"]["name"] in {v["configMap"]["name"] for v in pod["volumes"] if "configMap" in v}
    assert ":" in pod["containers"][0]["image"]


@needs_kubectl
@pytest.mark.parametrize("overlay", OVERLAYS)
def test_two_replicas_keep_apart_and_are_found(overlay: str) -> None:
    objects = built(f"overlays/{overlay}")
    deployment = the("Deployment", objects)["spec"]
    labels = deployment["template"]["metadata"]["labels"]
    (spread,) = deployment["template"]["spec"]["topologySpreadConstraints"]
    selectors = [
        deployment["selector"]["matchLabels"],
        spread["labelSelector"]["matchLabels"],
        the("PodDisruptionBudget", objects)["spec"]["selector"]["matchLabels"],
        the("Service", objects)["spec"]["selector"],
    ]
    assert deployment["replicas"] == 2
    assert spread["topologyKey"] == "kubernetes.io/hostname"
    assert all(selector.items() <= labels.items() for selector in selectors)


@needs_kubectl
def test_the_default_scheduler_has_the_rights_of_its_user_and_no_others() -> None:
    objects = built(DEFAULT)
    pod = pod_spec(objects)
    assert not RIGHTS & {o["kind"] for o in objects}
    assert not pod.get("serviceAccountName")
    assert pod["automountServiceAccountToken"] is False


@needs_kubectl
def test_the_default_scheduler_reads_the_kubeconfig_of_kubeadm() -> None:
    pod = pod_spec(built(DEFAULT))
    (path,) = [v["hostPath"]["path"] for v in pod["volumes"] if "hostPath" in v]
    config = loaded(MANIFESTS / "overlays" / "default-scheduler" / "config.yaml").configuration
    assert path in {m["mountPath"] for m in pod["containers"][0]["volumeMounts"]}
    assert config.client_connection.kubeconfig == path == "/etc/kubernetes/scheduler.conf"
    assert len(pod["containers"][0]["volumeMounts"]) == 3, "the base's mounts are still there"


@needs_kubectl
def test_the_others_bring_their_rights_along() -> None:
    for overlay in ("second-scheduler", "batch"):
        assert {o["kind"] for o in built(f"overlays/{overlay}")} >= RIGHTS
