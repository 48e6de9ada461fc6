"""Kustomize overlays and their scheduler configurations."""

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
from pyscheduler.core.framework.handle import empty_handle

MANIFESTS = Path(__file__).parents[3] / "manifests"
OVERLAYS = sorted(path.name for path in (MANIFESTS / "overlays").iterdir())
SECOND, DEFAULT = "overlays/second-scheduler", "overlays/default-scheduler"
CONFIGS = sorted(MANIFESTS.glob("**/config.yaml"))
RBAC_KINDS = {"ServiceAccount", "ClusterRole", "ClusterRoleBinding", "Role", "RoleBinding"}

Json = dict[str, Any]
needs_kubectl = pytest.mark.skipif(shutil.which("kubectl") is None, reason="kubectl is not installed")


def built(folder: str) -> list[Json]:
    """Return the objects that `kubectl kustomize` builds."""
    done = subprocess.run(
        ["kubectl", "kustomize", str(MANIFESTS / folder)], capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr
    return list(yaml.safe_load_all(done.stdout))


def only(kind: str, objects: list[Json]) -> Json:
    """Return the only object of a kind."""
    (match,) = [o for o in objects if o["kind"] == kind]
    return match


def pod_spec(objects: list[Json]) -> Json:
    spec: Json = only("Deployment", objects)["spec"]["template"]["spec"]
    return spec


def loaded(path: Path) -> LoadedConfig:
    """Return a configuration after its plugins were constructed, as `config validate` does."""
    config = load(path)
    build_profiles(config, empty_handle())
    return config


def test_overlays() -> None:
    assert OVERLAYS == ["batch", "default-scheduler", "second-scheduler"]


@pytest.mark.parametrize("folder", [path.parent for path in sorted(MANIFESTS.glob("**/kustomization.yaml"))], ids=str)
def test_kustomization_lists_all_files_of_its_folder(folder: Path) -> None:
    text = (folder / "kustomization.yaml").read_text()
    files = {p.name for p in folder.iterdir() if p.is_file()} - {"kustomization.yaml"}
    assert [name for name in sorted(files) if name not in text] == []


@pytest.mark.parametrize("path", CONFIGS, ids=lambda path: path.parent.name)
def test_configuration_is_valid(path: Path) -> None:
    (profile,) = loaded(path).profiles
    expected = "default-scheduler" if path.parent.name == "default-scheduler" else "pyscheduler"
    assert profile.scheduler_name == expected


@pytest.mark.parametrize("path", CONFIGS, ids=lambda path: path.parent.name)
def test_client_qps_does_not_limit_bindings(path: Path) -> None:
    """kube-scheduler's defaults (qps 50, burst 100) would limit bindings to 50 pods per second."""
    client = loaded(path).configuration.client_connection
    assert (client.qps, client.burst) == (5000, 5000)


@pytest.mark.parametrize("path", CONFIGS, ids=lambda path: path.parent.name)
def test_leader_election_uses_the_lease_of_the_rbac_rules(path: Path) -> None:
    election = loaded(path).configuration.leader_election
    expected = "kube-scheduler" if path.parent.name == "default-scheduler" else "pyscheduler"
    assert election.leader_elect
    assert (election.resource_namespace, election.resource_name) == ("kube-system", expected)


def test_batch_overlay_enables_bin_packing_and_pod_groups() -> None:
    (profile,) = loaded(MANIFESTS / "overlays" / "batch" / "config.yaml").configuration.profiles
    args = {config.name: config.args for config in profile.plugin_config}
    assert args["NodeResourcesFit"]["scoringStrategy"]["type"] == "MostAllocated"
    assert [plugin.name for plugin in profile.plugins.multi_point.enabled] == ["PodGroups", "Queues"]


@needs_kubectl
def test_root_kustomization_is_the_second_scheduler() -> None:
    assert built(".") == built(SECOND)


@needs_kubectl
@pytest.mark.parametrize("overlay", OVERLAYS)
def test_deployment_mounts_the_configuration_of_its_overlay(overlay: str) -> None:
    objects = built(f"overlays/{overlay}")
    made, pod = only("ConfigMap", objects), pod_spec(objects)
    assert made["data"]["config.yaml"] == (MANIFESTS / "overlays" / overlay / "config.yaml").read_text()
    assert made["metadata"]["name"] in {v["configMap"]["name"] for v in pod["volumes"] if "configMap" in v}
    assert ":" in pod["containers"][0]["image"]


@needs_kubectl
@pytest.mark.parametrize("overlay", OVERLAYS)
def test_selectors_match_the_two_spread_replicas(overlay: str) -> None:
    objects = built(f"overlays/{overlay}")
    deployment = only("Deployment", objects)["spec"]
    labels = deployment["template"]["metadata"]["labels"]
    (spread,) = deployment["template"]["spec"]["topologySpreadConstraints"]
    selectors = [
        deployment["selector"]["matchLabels"],
        spread["labelSelector"]["matchLabels"],
        only("PodDisruptionBudget", objects)["spec"]["selector"]["matchLabels"],
        only("Service", objects)["spec"]["selector"],
    ]
    assert deployment["replicas"] == 2
    assert spread["topologyKey"] == "kubernetes.io/hostname"
    assert all(selector.items() <= labels.items() for selector in selectors)


@needs_kubectl
def test_default_scheduler_has_no_rbac_objects_and_no_service_account() -> None:
    objects = built(DEFAULT)
    pod = pod_spec(objects)
    assert not RBAC_KINDS & {o["kind"] for o in objects}
    assert not pod.get("serviceAccountName")
    assert pod["automountServiceAccountToken"] is False


@needs_kubectl
def test_default_scheduler_uses_the_kubeconfig_of_kubeadm() -> None:
    pod = pod_spec(built(DEFAULT))
    (path,) = [v["hostPath"]["path"] for v in pod["volumes"] if "hostPath" in v]
    config = loaded(MANIFESTS / "overlays" / "default-scheduler" / "config.yaml").configuration
    assert path in {m["mountPath"] for m in pod["containers"][0]["volumeMounts"]}
    assert config.client_connection.kubeconfig == path == "/etc/kubernetes/scheduler.conf"
    assert len(pod["containers"][0]["volumeMounts"]) == 3, "the base's mounts are still there"


@needs_kubectl
def test_other_overlays_contain_rbac_objects() -> None:
    for overlay in ("second-scheduler", "batch"):
        assert {o["kind"] for o in built(f"overlays/{overlay}")} >= RBAC_KINDS
