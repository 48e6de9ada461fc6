"""OpenAPI documents of built-in kinds and custom resources: v3, v2, and v2 as protobuf."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import msgspec
import pytest

from pyscheduler.embedded.builtin import builtin_resources
from pyscheduler.embedded.crd import resources_of
from pyscheduler.embedded.openapi import v2, v3
from pyscheduler.embedded.openapi.protobuf import encode_document, encode_schema
from pyscheduler.embedded.resources import ResourceRegistry
from pyscheduler.embedded.wire.decode import read_fields

from .builders import Json

REGISTRY = ResourceRegistry(builtin_resources())
POD_SPEC = "io.k8s.api.core.v1.PodSpec"
SCHEMA: Json = {
    "type": "object",
    "description": "A widget.",
    "properties": {
        "spec": {
            "type": "object",
            "properties": {
                "size": {"type": "integer", "minimum": -1, "default": 3},
                "amount": {"x-kubernetes-int-or-string": True, "anyOf": [{"type": "integer"}, {"type": "string"}]},
                "anything": {"type": "object", "x-kubernetes-preserve-unknown-fields": True},
                "labels": {"type": "object", "additionalProperties": {"type": "string"}},
                "words": {"type": "array", "items": {"type": "string", "enum": ["a", "b"]}},
            },
        }
    },
}


def with_widgets() -> ResourceRegistry:
    version = {"name": "v1", "served": True, "storage": True, "schema": {"openAPIV3Schema": SCHEMA}}
    names = {"plural": "widgets", "kind": "Widget"}
    spec = {"group": "example.com", "scope": "Namespaced", "names": names, "versions": [version]}
    return ResourceRegistry([*builtin_resources(), *resources_of({"spec": spec})])


def document(group: str, version: str, registry: ResourceRegistry = REGISTRY) -> Json:
    found: Json = msgspec.json.decode(msgspec.json.encode(v3.document(registry, group, version)))
    return found


def references(value: Any) -> set[str]:
    if isinstance(value, dict):
        own = {value["$ref"]} if isinstance(value.get("$ref"), str) else set()
        return own.union(*map(references, value.values()))
    return set().union(*map(references, value)) if isinstance(value, list) else set()


def schemas_in(named: Json) -> Iterator[Json]:
    """Yield the schemas of a map and those of their fields."""
    for schema in named.values():
        yield schema
        yield from schemas_in(schema.get("properties") or {})


def test_v3_contains_what_kubectl_reads() -> None:
    found = document("apps", "v1")
    patch = found["paths"]["/apis/apps/v1/namespaces/{namespace}/deployments/{name}"]["patch"]
    assert patch["x-kubernetes-group-version-kind"] == {"group": "apps", "version": "v1", "kind": "Deployment"}
    assert "fieldValidation" in [p["name"] for p in patch["parameters"]]
    assert "application/strategic-merge-patch+json" in patch["requestBody"]["content"]
    spec = found["components"]["schemas"][POD_SPEC]["properties"]
    containers = spec["containers"]
    assert (containers["x-kubernetes-patch-merge-key"], containers["x-kubernetes-patch-strategy"]) == ("name", "merge")
    assert spec["volumes"]["x-kubernetes-patch-strategy"] == "merge,retainKeys"
    assert spec["nodeName"]["description"]


@pytest.mark.parametrize("path", v3.index(REGISTRY)["paths"])
def test_v3_document_is_complete(path: str) -> None:
    kind, *rest = path.split("/")
    found = document("", rest[0]) if kind == "api" else document(rest[0], rest[1])
    names = {f"#/components/schemas/{name}" for name in found["components"]["schemas"]}
    assert references(found) <= names


def test_v3_of_an_unknown_version_is_not_served() -> None:
    assert v3.document(REGISTRY, "none", "v1") is None


def test_v2_is_complete_and_has_no_keywords_of_v3() -> None:
    found = v2.document(with_widgets())
    assert references(found) <= {f"#/definitions/{name}" for name in found["definitions"]}
    assert not any("allOf" in schema for schema in schemas_in(found["definitions"]))
    assert found["definitions"]["io.k8s.apimachinery.pkg.api.resource.Quantity"]["type"] == "string"


@pytest.mark.parametrize("version", ["v2", "v3"])
def test_custom_resource_has_its_own_schema(version: str) -> None:
    registry = with_widgets()
    schemas = (
        v2.document(registry)["definitions"]
        if version == "v2"
        else document("example.com", "v1", registry)["components"]["schemas"]
    )
    widget = schemas["com.example.v1.Widget"]
    assert widget["description"] == "A widget."
    assert widget["x-kubernetes-group-version-kind"] == [{"group": "example.com", "version": "v1", "kind": "Widget"}]
    assert widget["properties"].keys() == {"apiVersion", "kind", "metadata", "spec"}
    fields = widget["properties"]["spec"]["properties"]
    assert ("default" in fields["size"]) == (version == "v3")
    assert "anyOf" not in fields["amount"] or version == "v3"


def decoded(raw: bytes, number: int) -> list[bytes]:
    return [value for found, value in read_fields(raw) if found == number]


def test_protobuf_document_has_every_definition_and_path() -> None:
    source = v2.document(with_widgets())
    raw = encode_document(source)
    definitions = [decoded(each, 1)[0].decode() for each in decoded(decoded(raw, 9)[0], 1)]
    paths = [decoded(each, 1)[0].decode() for each in decoded(decoded(raw, 8)[0], 2)]
    assert (definitions, paths) == (list(source["definitions"]), list(source["paths"]))


def test_protobuf_schema_has_the_fields_of_the_json_form() -> None:
    raw = encode_schema(v2.as_v2(SCHEMA))
    assert decoded(raw, 4) == [b"A widget."]
    spec = decoded(decoded(decoded(raw, 25)[0], 1)[0], 2)[0]
    fields = {decoded(f, 1)[0].decode(): decoded(f, 2)[0] for f in decoded(decoded(spec, 25)[0], 1)}
    assert fields.keys() == SCHEMA["properties"]["spec"]["properties"].keys()
    assert decoded(decoded(fields["size"], 22)[0], 1) == [b"integer"]
    assert decoded(fields["amount"], 22) == []
    words = decoded(decoded(fields["words"], 23)[0], 1)[0]
    assert [decoded(each, 2)[0] for each in decoded(words, 20)] == [b'"a"', b'"b"']
    values = decoded(decoded(fields["labels"], 21)[0], 1)[0]
    assert decoded(decoded(values, 22)[0], 1) == [b"string"]
