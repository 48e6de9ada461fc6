"""Discovery and OpenAPI documents."""

from __future__ import annotations

import pytest

from pyscheduler.embedded import discovery
from pyscheduler.embedded.builtin import builtin_resources
from pyscheduler.embedded.resources import Resource, ResourceRegistry
from pyscheduler.embedded.schema.nodes import Struct
from pyscheduler.embedded.schema.typecheck import schema_of
from pyscheduler.embedded.stored_kinds import published_rows

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


@pytest.mark.parametrize("resource", list(REGISTRY), ids=lambda r: f"{r.api_version}-{r.plural}")
def test_built_in_kind_has_a_schema(resource: Resource) -> None:
    schema = schema_of(resource)
    assert isinstance(schema, Struct)
    assert {"metadata", "kind", "apiVersion"} <= schema.fields.keys()


def test_preferred_version_of_a_group_is_that_of_highest_priority() -> None:
    versions = ("v1alpha2", "v1beta1", "v1alpha10", "v1")
    registry = ResourceRegistry([Resource("example.com", version, "Widget", "widgets", True) for version in versions])
    found = discovery.one_group(registry, "example.com")
    assert found is not None
    assert [each["version"] for each in found["versions"]] == ["v1", "v1beta1", "v1alpha10", "v1alpha2"]
    assert found["preferredVersion"]["version"] == "v1"


NOT_SERVED = {"finalize", "proxy"}
"""Subresources of which only those of pods are served."""


@pytest.mark.parametrize("row", published_rows(), ids=lambda row: f"{row[0]}-{row[2]}")
def test_published_kind_is_served_under_its_published_names(row: list[str]) -> None:
    api_version, kind, plural, scope, names, categories, parts = row
    group, _, version = api_version.rpartition("/")
    found = REGISTRY.find(group, version, plural)
    assert found is not None
    assert (found.kind, found.namespaced) == (kind, scope == "namespaced")
    assert (",".join(found.short_names) or "-", ",".join(found.categories) or "-") == (names, categories)
    missing = set(parts.split(",")) - {"-"} - found.subresources
    assert missing <= NOT_SERVED | ({"status"} if kind == "CSINode" else set())
