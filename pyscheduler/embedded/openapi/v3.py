"""OpenAPI v3: one document for each API version."""

from __future__ import annotations

from typing import Any

from pyscheduler.embedded.discovery import KUBERNETES, VIRTUAL
from pyscheduler.embedded.objects import Json
from pyscheduler.embedded.openapi.operations import QUERY, gvk, patch_types, path_of
from pyscheduler.embedded.openapi.schemas import encoded_schemas, schema_name
from pyscheduler.embedded.resources import Resource, ResourceRegistry
from pyscheduler.embedded.schema.published import PREFIX


def index(registry: ResourceRegistry) -> Json:
    """Return /openapi/v3: the path of the document of each API version."""
    paths = {}
    for group, versions in registry.groups().items():
        for version in versions:
            name = f"apis/{group}/{version}" if group else f"api/{version}"
            paths[name] = {"serverRelativeURL": f"/openapi/v3/{name}"}
    return {"paths": paths}


def document(registry: ResourceRegistry, group: str, version: str) -> dict[str, Any] | None:
    """Return /openapi/v3/apis/group/version, None if it is not served."""
    resources = registry.groups().get(group, {}).get(version)
    if not resources:
        return None
    virtual = [
        (each.group, each.version, each.kind) for each in VIRTUAL if (each.group, each.version) == (group, version)
    ]
    info = {"title": "Kubernetes", "version": KUBERNETES["gitVersion"]}
    paths = {path_of(resource): _operations(resource) for resource in resources}
    return {
        "openapi": "3.0.0",
        "info": info,
        "paths": paths,
        "components": {"schemas": encoded_schemas(resources, virtual)},
    }


def _operations(resource: Resource) -> Json:
    def parameter(name: str, kind: str = "string") -> Json:
        return {"name": name, "in": "query", "schema": {"type": kind, "uniqueItems": True}}

    schema = {"$ref": f"{PREFIX}{schema_name(resource)}"}
    response = {"200": {"description": "OK", "content": {"application/json": {"schema": schema}}}}
    common = {"x-kubernetes-group-version-kind": gvk(resource), "responses": response}
    parameters = [parameter(name) for name in QUERY]
    return {
        "get": {**common, "x-kubernetes-action": "get"},
        "put": {**common, "x-kubernetes-action": "put", "parameters": parameters},
        "patch": {
            **common,
            "x-kubernetes-action": "patch",
            "parameters": [*parameters, parameter("force", "boolean")],
            "requestBody": {"content": {each: {"schema": {"type": "object"}} for each in patch_types(resource)}},
        },
    }
