"""The Helm chart has the objects of kustomize's overlays; the real helm lints and renders it."""

from __future__ import annotations

import subprocess
from pathlib import Path
from typing import Any

import pytest
import yaml

from pyscheduler.cli.kustomize import pod_specs
from pyscheduler.cli.manifests import objects_of
from pyscheduler.data import HELM_CHART
from tests.helm.program import helm

pytestmark = pytest.mark.slow
OVERLAYS = ("second-scheduler", "batch")
IMAGE = "registry.example.com/pyscheduler:0.1.0"
CONFIG = """\
apiVersion: kubescheduler.config.k8s.io/v1
kind: KubeSchedulerConfiguration
leaderElection: {leaderElect: true, resourceName: pyscheduler, resourceNamespace: kube-system}
"""
REPOSITORY = ("--set", "image.repository=registry.example.com/pyscheduler")
Json = dict[str, Any]


def run(*words: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run([helm(), *words], capture_output=True, text=True, check=False)


def templates(*words: str, namespace: str = "kube-system") -> list[Json]:
    """Return the objects that helm renders, CustomResourceDefinitions included."""
    done = run("template", "pyscheduler", str(HELM_CHART), "--include-crds", "--namespace", namespace, *words)
    assert done.returncode == 0, done.stderr
    return [obj for obj in yaml.safe_load_all(done.stdout) if obj]


def comparable(objects: list[Json]) -> dict[tuple[str, str], Json]:
    """Return the objects by kind and name, without what a tool adds: labels, hashes and checksums, pull policy."""
    result = {}
    for obj in objects:
        obj["metadata"].pop("labels", None)
        if obj["kind"] == "ConfigMap":
            obj["metadata"]["name"] = "pyscheduler-config"
        for spec in pod_specs([obj]):
            obj["spec"]["template"]["metadata"].pop("annotations", None)
            spec["containers"][0].pop("imagePullPolicy", None)
            for volume in spec["volumes"]:
                if "configMap" in volume:
                    volume["configMap"]["name"] = "pyscheduler-config"
        result[obj["kind"], obj["metadata"]["name"]] = obj
    return result


@pytest.mark.parametrize("overlay", OVERLAYS)
def test_helm_lints_the_chart(overlay: str) -> None:
    done = run("lint", "--strict", str(HELM_CHART), "--set", f"overlay={overlay}")
    assert done.returncode == 0, done.stdout + done.stderr


@pytest.mark.parametrize("namespace", ["kube-system", "team"])
@pytest.mark.parametrize("overlay", OVERLAYS)
def test_objects_equal_those_of_the_overlay(overlay: str, namespace: str) -> None:
    rendered = comparable(templates("--set", f"overlay={overlay}", *REPOSITORY, namespace=namespace))
    expected = comparable(objects_of(overlay, IMAGE, namespace))
    assert rendered.keys() == expected.keys()
    for identity, obj in expected.items():
        assert rendered[identity] == obj, identity


def test_every_object_of_the_templates_has_the_labels() -> None:
    objects = [obj for obj in templates() if obj["kind"] != "CustomResourceDefinition"]
    labels = [obj["metadata"]["labels"] for obj in objects]
    assert {label["app.kubernetes.io/name"] for label in labels} == {"pyscheduler"}
    assert {label["app.kubernetes.io/managed-by"] for label in labels} == {"Helm"}
    aggregated = [label for label in labels if "rbac.authorization.k8s.io/aggregate-to-view" in label]
    assert len(aggregated) == 1, "labels of the base are kept"


def test_values_set_the_deployment(tmp_path: Path) -> None:
    values = tmp_path / "values.yaml"
    values.write_text(
        "image: {repository: other, tag: '7'}\nreplicas: 3\nnodeSelector: {pool: system}\n"
        "resources: {requests: {cpu: '1'}}\nimagePullSecrets: [{name: token}]\n"
        "extraArgs: [--v=2, --feature-gates=GenericWorkload=true]\n" + yaml.safe_dump({"config": CONFIG})
    )
    objects = templates("--values", str(values))
    (deployment,) = (obj for obj in objects if obj["kind"] == "Deployment")
    (spec,) = pod_specs(objects)
    (container,) = spec["containers"]
    assert deployment["spec"]["replicas"] == 3
    assert (container["image"], container["resources"]["requests"]["cpu"]) == ("other:7", "1")
    assert container["args"][0] == "run"
    assert container["args"][-2:] == ["--v=2", "--feature-gates=GenericWorkload=true"]
    assert (spec["nodeSelector"], spec["imagePullSecrets"]) == ({"pool": "system"}, [{"name": "token"}])
    (config_map,) = (obj for obj in objects if obj["kind"] == "ConfigMap")
    assert config_map["data"]["config.yaml"].strip() == CONFIG.strip()


def test_changed_configuration_restarts_the_pods(tmp_path: Path) -> None:
    file = tmp_path / "config.yaml"
    file.write_text(CONFIG)

    def checksum(*words: str) -> str:
        (deployment,) = (obj for obj in templates(*words) if obj["kind"] == "Deployment")
        return str(deployment["spec"]["template"]["metadata"]["annotations"]["checksum/config"])

    assert len({checksum(), checksum("--set", "overlay=batch"), checksum("--set-file", f"config={file}")}) == 3


@pytest.mark.parametrize(
    "value", ["overlay=default-scheduler", "replicas=0", "image.pullPolicy=Now", "replica=1", "extraArgs={v=2}"]
)
def test_wrong_value_is_rejected(value: str) -> None:
    done = run("template", str(HELM_CHART), "--set", value)
    assert done.returncode != 0
    assert "values don't meet the specifications of the schema" in done.stderr


LEASE = "config: leaderElection: may only use the Lease team/pyscheduler"


@pytest.mark.parametrize(
    ("config", "words", "message"),
    [
        pytest.param(CONFIG.replace("resourceName: pyscheduler, ", ""), (), LEASE, id="kube-scheduler's name"),
        pytest.param(CONFIG.replace("kube-system", "default"), (), LEASE, id="another namespace"),
        pytest.param(CONFIG.partition("leaderElection")[0], (), LEASE, id="kube-scheduler's defaults"),
        pytest.param(CONFIG.replace("true", "false"), (), "every replica would schedule", id="two leaders"),
        pytest.param(CONFIG.replace("true", "false"), ("--set", "replicas=1"), "", id="one replica"),
        pytest.param(f"kind: Other\n---\n{CONFIG}", (), "", id="second document"),
        pytest.param("kind: Other\n", (), "has no document of kind KubeSchedulerConfiguration", id="another kind"),
        pytest.param("profiles: [\n", (), "config: is not a YAML mapping", id="no YAML"),
    ],
)
def test_configuration_without_one_leader_is_rejected(
    tmp_path: Path, config: str, words: tuple[str, ...], message: str
) -> None:
    """The Role of the release permits one Lease: with another one, all replicas would wait for it, and look healthy."""
    file = tmp_path / "config.yaml"
    file.write_text(config)
    done = run("template", str(HELM_CHART), "--namespace", "team", "--set-file", f"config={file}", *words)
    assert (message in done.stderr) if message else (done.returncode == 0), done.stderr
    assert bool(message) == bool(done.returncode)
