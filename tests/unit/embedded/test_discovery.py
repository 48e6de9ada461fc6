"""Discovery and OpenAPI documents."""

from __future__ import annotations

from typing import Any

import pytest

from pyscheduler.embedded import discovery, openapi
from pyscheduler.embedded.builtin import builtin_resources
from pyscheduler.embedded.resources import ResourceRegistry
from pyscheduler.embedded.schema.lists import LISTS
from pyscheduler.embedded.schema.models import tree
from pyscheduler.embedded.schema.nodes import ListOf, Struct

REGISTRY = ResourceRegistry(builtin_resources())


def test_classic_and_aggregated_discovery_list_the_same_resources() -> None:
    classic: set[tuple[str, str]] = set()
    for group in discovery.group_list(REGISTRY)["groups"]:
        for version in group["versions"]:
            found = discovery.resource_list(REGISTRY, group["name"], version["version"])
            assert found is not None
            classic |= {(group["name"], r["name"]) for r in found["resources"]}
    aggregated: set[tuple[str, str]] = set()
    for group in discovery.aggregated(REGISTRY, core=False)["items"]:
        for version in group["versions"]:
            for resource in version["resources"]:
                parts = ["", *("/" + s["subresource"] for s in resource.get("subresources", ()))]
                aggregated |= {(group["metadata"]["name"], resource["resource"] + part) for part in parts}
    assert classic == aggregated
    assert ("apps", "deployments/scale") in classic


def test_pods_have_binding_and_eviction_subresources() -> None:
    found = discovery.resource_list(REGISTRY, "", "v1")
    assert found is not None
    kinds = {r["name"]: (r.get("group", ""), r["kind"]) for r in found["resources"]}
    assert kinds["pods/binding"] == ("", "Binding")
    assert kinds["pods/eviction"] == ("policy", "Eviction")


@pytest.mark.parametrize("resource", list(REGISTRY), ids=lambda r: f"{r.group_resource}")
def test_built_in_kind_has_a_schema(resource: Any) -> None:
    schema = tree(resource.model)
    assert isinstance(schema, Struct)
    assert {"metadata", "kind", "apiVersion"} <= schema.fields.keys()


@pytest.mark.parametrize("model", sorted(LISTS))
def test_merge_rules_are_about_lists(model: str) -> None:
    schema = tree(model)
    assert isinstance(schema, Struct)
    for field in LISTS[model]:
        assert isinstance(schema.fields.get(field), ListOf), field


def test_openapi_contains_what_kubectl_reads() -> None:
    found = openapi.document(REGISTRY, "apps", "v1")
    assert found is not None
    patch = found["paths"]["/apis/apps/v1/namespaces/{namespace}/deployments/{name}"]["patch"]
    assert patch["x-kubernetes-group-version-kind"] == {"group": "apps", "version": "v1", "kind": "Deployment"}
    assert "fieldValidation" in [p["name"] for p in patch["parameters"]]
    assert "application/strategic-merge-patch+json" in patch["requestBody"]["content"]
    schemas = found["components"]["schemas"]
    containers = schemas["V1PodSpec"]["properties"]["containers"]
    assert (containers["x-kubernetes-patch-merge-key"], containers["x-kubernetes-patch-strategy"]) == ("name", "merge")
    assert schemas["V1PodSpec"]["properties"]["volumes"]["x-kubernetes-patch-strategy"] == "merge,retainKeys"


def test_every_group_in_the_openapi_index_has_a_document() -> None:
    for path in openapi.index(REGISTRY)["paths"]:
        kind, *rest = path.split("/")
        group, version = ("", rest[0]) if kind == "api" else (rest[0], rest[1])
        assert openapi.document(REGISTRY, group, version) is not None
    assert openapi.document(REGISTRY, "none", "v1") is None
