"""Every manifest of the repository has the fields of its kind, by the schemas that Kubernetes publishes."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml

from pyscheduler.embedded.api import Api
from pyscheduler.embedded.server_state import WriteOptions
from tests.unit.embedded.builders import Cluster, api_error

ROOT = Path(__file__).parents[3]
FOLDERS = ("manifests", "docs/examples", "pyscheduler/controllers/crds", "tests/e2e/charts")
DEFINITION = "CustomResourceDefinition"
NO_OBJECTS = ("kustomize.config.k8s.io", "kubescheduler.config.k8s.io")
"""API groups of files that no API server reads."""
VARIABLE = "$ITEM"
"""Part of a name for which the guide of Jobs puts a value before the file is applied."""
STRICT = WriteOptions(dry_run=True, validation="Strict")

Json = dict[str, Any]


def documents() -> Iterator[tuple[Path, Json]]:
    """Yield each object with its file. Templates of Helm and patches of Kustomize are not whole objects."""
    for path in sorted(each for folder in FOLDERS for each in (ROOT / folder).rglob("*.yaml")):
        text = path.read_text(encoding="utf-8").replace(VARIABLE, "item")
        if "{{" in text or path.name in _patches(path.parent):
            continue
        for document in yaml.safe_load_all(text):
            is_object = isinstance(document, dict) and "apiVersion" in document and "kind" in document
            if is_object and document["kind"] != "Scenario" and document["apiVersion"].split("/")[0] not in NO_OBJECTS:
                yield path, document


def _patches(folder: Path) -> set[str]:
    file = folder / "kustomization.yaml"
    found = yaml.safe_load(file.read_text(encoding="utf-8")) if file.exists() else {}
    return {each["path"] for each in found.get("patches") or () if "path" in each}


@pytest.fixture(scope="module")
def api() -> Api:
    """An API server that serves all kinds which the manifests define."""
    cluster = Cluster()
    for _, document in documents():
        if document["kind"] == DEFINITION and not cluster.exists(CRDS, document["metadata"]["name"]):
            cluster.create(CRDS, document)
    return cluster.api


CRDS = "customresourcedefinitions.apiextensions.k8s.io"
OBJECTS = [
    pytest.param(each, id=f"{path.relative_to(ROOT)}:{each['kind']}/{each.get('metadata', {}).get('name')}")
    for path, each in documents()
    if each["kind"] != DEFINITION
]


@pytest.mark.parametrize("document", OBJECTS)
def test_manifest_has_the_fields_of_its_kind(api: Api, document: Json) -> None:
    check(api, document)


def check(api: Api, document: Json) -> None:
    resource = api.state.registry.of_kind(document["apiVersion"], document["kind"])
    assert resource is not None, f"no schema of {document['apiVersion']} {document['kind']}"
    namespace = document["metadata"].get("namespace", "default") if resource.namespaced else ""
    if namespace and namespace != "default":
        document = {**document, "metadata": {**document["metadata"], "namespace": "default"}}
        namespace = "default"
    api.create(resource, namespace, document, STRICT)


@pytest.mark.parametrize("broken", [{"replica": 1}, {"replicas": "one"}])
def test_check_finds_a_misspelled_field_and_a_wrong_type(api: Api, broken: Json) -> None:
    template = {"metadata": {"labels": {"a": "b"}}, "spec": {"containers": [{"name": "c", "image": "i"}]}}
    spec = {"selector": {"matchLabels": {"a": "b"}}, "template": template, **broken}
    document = {"apiVersion": "apps/v1", "kind": "Deployment", "metadata": {"name": "x"}, "spec": spec}
    assert next(iter(broken)) in api_error(lambda: check(api, document)).message
