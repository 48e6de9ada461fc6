"""Kustomizations are rendered as by `kubectl kustomize`, and what is not supported is an error."""

from __future__ import annotations

import shutil
import subprocess
from pathlib import Path
from typing import Any

import pytest
import yaml

from pyscheduler.cli.command_problem import CommandProblem
from pyscheduler.cli.kustomize import FILE, render
from pyscheduler.data import MANIFESTS

KUSTOMIZATIONS = sorted(path.parent for path in MANIFESTS.glob(f"**/{FILE}"))
DEPLOYMENT = """
apiVersion: apps/v1
kind: Deployment
metadata: {name: a}
spec:
  template:
    spec:
      containers: [{name: main, image: "a", env: [{name: X, value: "1"}], args: [one]}]
      volumes: [{name: config, configMap: {name: settings}}]
"""
Json = dict[str, Any]


def folder(path: Path, kustomization: str, **files: str) -> Path:
    """Write a kustomization and its files, given by their names without the suffix."""
    path.mkdir(exist_ok=True)
    (path / FILE).write_text(kustomization)
    for name, text in files.items():
        (path / f"{name}.yaml").write_text(text)
    return path


def built_by_kubectl(path: Path) -> list[Json]:
    if shutil.which("kubectl") is None:
        pytest.skip("kubectl is not installed")
    done = subprocess.run(["kubectl", "kustomize", str(path)], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    return list(yaml.safe_load_all(done.stdout))


@pytest.mark.parametrize("path", KUSTOMIZATIONS, ids=lambda path: str(path.relative_to(MANIFESTS)))
def test_objects_equal_those_of_kubectl_in_its_order(path: Path) -> None:
    assert render(path) == built_by_kubectl(path)


PATCHES = {
    "item of a list": "{containers: [{name: main, image: b}]}",
    "new item comes first": "{containers: [{name: side, image: b}], volumes: [{name: new, emptyDir: {}}]}",
    "list without a key is replaced": "{containers: [{name: main, args: [two]}]}",
    "null removes a field": "{volumes: null}",
    "nested lists": "{containers: [{name: main, env: [{name: X, value: '2'}, {name: Y, value: '3'}]}]}",
}


@pytest.mark.parametrize("patch", PATCHES.values(), ids=PATCHES)
def test_patch_has_the_effect_of_kubectl(tmp_path: Path, patch: str) -> None:
    change = f"apiVersion: apps/v1\nkind: Deployment\nmetadata: {{name: a}}\nspec: {{template: {{spec: {patch}}}}}\n"
    path = folder(tmp_path / "k", "resources: [a.yaml]\npatches: [{path: p.yaml}]\n", a=DEPLOYMENT, p=change)
    assert render(path) == built_by_kubectl(path)


@pytest.mark.parametrize("text", ["a: 1", "a: '<&>'", "text: é\u2028", "", "a: |\n  x\n\n"], ids=repr)
def test_name_of_a_generated_config_map_has_the_hash_of_kubectl(tmp_path: Path, text: str) -> None:
    kustomization = "resources: [a.yaml]\nconfigMapGenerator: [{name: settings, files: [s.yaml]}]\n"
    path = folder(tmp_path / "k", kustomization, a=DEPLOYMENT, s=text)
    objects = render(path)
    assert objects == built_by_kubectl(path)
    (config_map,) = (obj for obj in objects if obj["kind"] == "ConfigMap")
    (deployment,) = (obj for obj in objects if obj["kind"] == "Deployment")
    (volume,) = deployment["spec"]["template"]["spec"]["volumes"]
    assert volume["configMap"]["name"] == config_map["metadata"]["name"] != "settings"


WORKLOADS = """
apiVersion: batch/v1
kind: CronJob
metadata: {name: c}
spec:
  jobTemplate:
    spec:
      template:
        spec:
          initContainers: [{name: init, image: "registry.example.com:5000/a:1"}]
          containers:
          - name: main
            image: a@sha256:1234
            envFrom: [{configMapRef: {name: settings}}]
            env: [{name: X, valueFrom: {configMapKeyRef: {name: settings, key: s.yaml}}}]
          volumes: [{name: all, projected: {sources: [{configMap: {name: settings}}]}}]
---
apiVersion: apps/v1
kind: StatefulSet
metadata: {name: s}
spec: {template: {spec: {initContainers: [{name: init, image: "a:1"}], containers: [{name: main, image: b}]}}}
"""
IMAGES = {
    "new tag": "{name: a, newTag: '2'}",
    "new name keeps tag and digest": "{name: a, newName: other.example.com/a}",
    "name with a port": "{name: 'registry.example.com:5000/a', newName: b, newTag: '3'}",
}


@pytest.mark.parametrize("image", IMAGES.values(), ids=IMAGES)
def test_images_and_config_maps_of_all_workloads_change_as_with_kubectl(tmp_path: Path, image: str) -> None:
    generator = "configMapGenerator: [{name: settings, files: [s.yaml]}]"
    path = folder(tmp_path / "k", f"resources: [a.yaml]\n{generator}\nimages: [{image}]\n", a=WORKLOADS, s="x: 1")
    assert render(path) == built_by_kubectl(path)


def test_patch_of_a_target_leaves_its_name(tmp_path: Path) -> None:
    change = "{apiVersion: apps/v1, kind: Any, metadata: {name: any}, spec: {replicas: 3}}"
    patches = f"patches: [{{target: {{kind: Deployment}}, patch: '{change}'}}]"
    path = folder(tmp_path / "k", f"resources: [a.yaml]\n{patches}\n", a=DEPLOYMENT)
    assert render(path) == built_by_kubectl(path)


def test_lists_may_be_empty(tmp_path: Path) -> None:
    assert render(folder(tmp_path / "k", "resources:\npatches:\nimages:\n")) == []


PROBLEMS = [
    pytest.param("images: [{name: a, digest: x}]", "images.digest: is not supported", id="field of an image"),
    pytest.param("labels: [{pairs: {a: b}, includeSelectors: true}]", "labels.includeSelectors: is", id="of a label"),
    pytest.param(
        "patches: [{path: p.yaml, target: {labelSelector: a=b}}]", "patches.target.labelSelector: is", id="of a target"
    ),
    pytest.param("patches: [{patch: '{'}]", f"{FILE}: not valid YAML: ", id="patch that is not YAML"),
    pytest.param("patches: [{}]", "patches: must be strategic merge patches", id="empty patch"),
    pytest.param(
        "patches: [{patch: '[{op: remove, path: /spec}]'}]", "patches: must be strategic merge patches", id="JSON patch"
    ),
    pytest.param("namePrefix: x-", f"{FILE}: namePrefix: is not supported here; use `kubectl apply -k", id="field"),
    pytest.param(
        "configMapGenerator: [{name: a, literals: [x=1]}]", "configMapGenerator.literals: is not supported", id="source"
    ),
    pytest.param("resources: [none.yaml]", "none.yaml: cannot be read: No such file", id="missing resource"),
    pytest.param("resources: [", f"{FILE}: not valid YAML: ", id="not YAML"),
    pytest.param("", f"{FILE}: must be one Kustomization", id="empty"),
    pytest.param(
        "configMapGenerator: [{name: a, behavior: replace, files: []}]", "there is no a to replace", id="no base"
    ),
]


@pytest.mark.parametrize(("text", "message"), PROBLEMS)
def test_problem_names_the_file_and_the_field(tmp_path: Path, text: str, message: str) -> None:
    with pytest.raises(CommandProblem) as problem:
        render(folder(tmp_path / "k", text))
    assert message in str(problem.value)
    assert str(tmp_path) in str(problem.value)
