"""OpenAPI v2: one document for all API versions. Its schemas are those of v3 without what v2 lacks."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from pyscheduler.embedded.discovery import KUBERNETES, VIRTUAL
from pyscheduler.embedded.objects import Json
from pyscheduler.embedded.openapi.operations import QUERY, gvk, patch_types, path_of
from pyscheduler.embedded.openapi.schemas import custom_schema, published, schema_name
from pyscheduler.embedded.resources import Resource, ResourceRegistry
from pyscheduler.embedded.schema.published import definition, reference

_REF = "#/definitions/"
_UNKNOWN = ("default", "nullable", "oneOf", "anyOf", "not", "allOf", "x-kubernetes-validations")
"""Keywords that v2 lacks or that Kubernetes omits from it."""


def document(registry: ResourceRegistry) -> Json:
    """Return /openapi/v2."""
    resources = list(registry)
    virtual = [(each.group, each.version, each.kind) for each in VIRTUAL]
    definitions = {name: as_v2(definition(name)) for name in published(resources, virtual)}
    definitions |= {schema_name(each): as_v2(custom_schema(each)) for each in resources if each.custom}
    return {
        "swagger": "2.0",
        "info": {"title": "Kubernetes", "version": KUBERNETES["gitVersion"]},
        "paths": {path_of(resource): _operations(resource) for resource in resources},
        "definitions": definitions,
    }


def as_v2(schema: Mapping[str, Any]) -> Json:
    """Return an OpenAPI v3 schema in the form of v2."""
    referred = reference(schema)
    if referred:
        kept = {name: value for name, value in schema.items() if name == "description" or name.startswith("x-")}
        return {"$ref": f"{_REF}{referred}", **kept}
    result = {name: value for name, value in schema.items() if name not in _UNKNOWN}
    if schema.get("x-kubernetes-preserve-unknown-fields") or schema.get("x-kubernetes-int-or-string"):
        return {name: value for name, value in result.items() if name not in {"type", "properties", "items"}}
    if "oneOf" in schema and "type" not in schema:  # quantities and int-or-string
        result["type"] = "string"
    if "properties" in result:
        result["properties"] = {name: as_v2(field) for name, field in result["properties"].items()}
    for name in ("items", "additionalProperties"):
        if isinstance(result.get(name), Mapping):
            result[name] = as_v2(result[name])
    return result


def _operations(resource: Resource) -> Json:
    parameters = [{"name": name, "in": "query", "type": "string", "uniqueItems": True} for name in QUERY]
    response = {"200": {"description": "OK", "schema": {"$ref": f"{_REF}{schema_name(resource)}"}}}
    common = {"x-kubernetes-group-version-kind": gvk(resource), "responses": response}
    writes = {"consumes": patch_types(resource), "parameters": parameters}
    return {
        "get": {**common, "x-kubernetes-action": "get"},
        "patch": {**common, **writes, "x-kubernetes-action": "patch"},
    }
