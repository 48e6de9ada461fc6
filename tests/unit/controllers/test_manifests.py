"""Manifests match the code: examples, RBAC rules, probes and the CRD."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import yaml

from pyscheduler.api import ResourceKind
from pyscheduler.controllers.podgroup_status import Member, podgroup_status
from pyscheduler.intree import PLUGINS
from pyscheduler_plugins.pod_groups.plugin import PodGroups

MANIFESTS = Path(__file__).parents[3] / "manifests"
BASE = MANIFESTS / "base"
CRDS = sorted((MANIFESTS.parent / "pyscheduler" / "controllers" / "crds").iterdir())
EXAMPLES = sorted((MANIFESTS / "examples").glob("*.yaml"))

Json = dict[str, Any]


def documents(path: Path) -> list[Json]:
    return [document for document in yaml.safe_load_all(path.read_text()) if document]


def find(kind: str, name: str) -> Json:
    all_documents = [document for path in BASE.glob("*.yaml") for document in documents(path)]
    return next(d for d in all_documents if d.get("kind") == kind and d["metadata"]["name"] == name)


def pod_spec(document: Json) -> Json:
    spec: Json = document["spec"]
    return spec if document["kind"] == "Pod" else spec["template"]["spec"]


@pytest.mark.parametrize("path", EXAMPLES, ids=lambda path: path.name)
def test_examples_set_scheduler_name(path: Path) -> None:
    names = [pod_spec(d)["schedulerName"] for d in documents(path) if d["kind"] != "PodGroup"]
    assert set(names) == {"pyscheduler"}


def test_gang_example_has_enough_members() -> None:
    group, job = documents(MANIFESTS / "examples" / "gang.yaml")
    labels = job["spec"]["template"]["metadata"]["labels"]
    assert labels["scheduling.x-k8s.io/pod-group"] == group["metadata"]["name"]
    assert job["spec"]["parallelism"] >= group["spec"]["minMember"]


def test_role_has_no_wildcards_and_no_access_to_secrets() -> None:
    rules = find("ClusterRole", "pyscheduler")["rules"] + find("Role", "pyscheduler")["rules"]
    words = {word for rule in rules for values in rule.values() for word in values}
    assert not words & {"*", "secrets", "configmaps", "serviceaccounts", "pods/exec"}


@pytest.mark.parametrize(
    ("group", "resource", "verb"),
    [
        ("", "pods", "watch"), ("", "nodes", "list"), ("", "namespaces", "watch"), ("", "pods/binding", "create"),
        ("", "services", "watch"), ("", "replicationcontrollers", "list"), ("apps", "replicasets", "watch"),
        ("apps", "statefulsets", "list"),
        ("", "persistentvolumes", "update"), ("", "persistentvolumeclaims", "update"),
        ("", "pods/status", "patch"), ("", "pods", "delete"), ("", "pods", "get"), ("events.k8s.io", "events", "patch"),
        ("scheduling.x-k8s.io", "podgroups", "watch"), ("scheduling.x-k8s.io", "podgroups/status", "patch"),
        ("scheduling.volcano.sh", "queues", "watch"), ("scheduling.volcano.sh", "queues/status", "patch"),
        ("scheduling.x-k8s.io", "elasticquotas", "list"),
        ("authentication.k8s.io", "tokenreviews", "create"),
        ("authorization.k8s.io", "subjectaccessreviews", "create"),
    ],
)  # fmt: skip
def test_role_grants_required_permission(group: str, resource: str, verb: str) -> None:
    rules = find("ClusterRole", "pyscheduler")["rules"]
    assert any(group in r["apiGroups"] and resource in r["resources"] and verb in r["verbs"] for r in rules)


READ = sorted(
    {kind for plugin in PLUGINS for kind in plugin.watches} | set(PodGroups.watches),
    key=lambda kind: (kind.plural, kind.group, kind.version),
)


@pytest.mark.parametrize("kind", READ, ids=lambda kind: f"{kind.plural}.{kind.version}.{kind.group}")
def test_role_grants_list_and_watch_of_plugin_resources(kind: ResourceKind) -> None:
    rules = [r for r in find("ClusterRole", "pyscheduler")["rules"] if kind.group in r["apiGroups"]]
    assert any(kind.plural in rule["resources"] and {"list", "watch"} <= set(rule["verbs"]) for rule in rules)


def test_pod_satisfies_the_restricted_security_standard() -> None:
    spec = pod_spec(find("Deployment", "pyscheduler"))
    (container,) = spec["containers"]
    assert spec["securityContext"]["runAsNonRoot"]
    assert spec["securityContext"]["seccompProfile"] == {"type": "RuntimeDefault"}
    assert container["securityContext"] == {
        "allowPrivilegeEscalation": False, "readOnlyRootFilesystem": True, "capabilities": {"drop": ["ALL"]},
    }  # fmt: skip


def test_probes_use_the_secure_port() -> None:
    (container,) = pod_spec(find("Deployment", "pyscheduler"))["containers"]
    (port,) = container["ports"]
    assert f"--secure-port={port['containerPort']}" in container["args"]
    probes = [container[name]["httpGet"] for name in ("startupProbe", "livenessProbe", "readinessProbe")]
    assert [(p["port"], p["scheme"]) for p in probes] == [(port["name"], "HTTPS")] * 3


def test_crd_has_all_status_fields_of_the_controller() -> None:
    (crd,) = documents(BASE / "crds" / "podgroups.yaml")
    (version,) = crd["spec"]["versions"]
    fields = version["schema"]["openAPIV3Schema"]["properties"]["status"]["properties"]
    group: Json = {"metadata": {"name": "g"}, "spec": {"minMember": 1}}
    status = podgroup_status(group, [Member("Running", True)], 0.0)
    assert status.keys() <= fields.keys()
    assert status["phase"] in fields["phase"]["enum"]
    assert status["conditions"][0].keys() <= fields["conditions"]["items"]["properties"].keys()
    assert version["subresources"] == {"status": {}}


def undescribed(schema: Json, path: str = "") -> list[str]:
    """Return the paths of properties without a description."""
    missing = []
    for name, part in schema.get("properties", {}).items():
        if "description" not in part and name != "metadata":
            missing.append(f"{path}.{name}")
        missing += undescribed(part, f"{path}.{name}")
    return missing + (undescribed(schema["items"], path + "[]") if "items" in schema else [])


@pytest.mark.parametrize("path", CRDS, ids=lambda path: path.stem)
def test_all_fields_of_a_crd_have_a_description(path: Path) -> None:
    (crd,) = documents(path)
    assert undescribed(crd["spec"]["versions"][0]["schema"]["openAPIV3Schema"]) == []
