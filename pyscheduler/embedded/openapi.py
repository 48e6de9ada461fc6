"""OpenAPI v3 documents, limited to what kubectl reads: schemas of the served kinds and their patch operations.

kubectl reads two things: whether the PATCH of a kind accepts `fieldValidation` (then the server validates fields, not
kubectl), and how lists merge (for `kubectl apply`). Types come from the schema trees that the server itself uses;
descriptions are omitted. OpenAPI v2 is not served: kubectl does not need it where v3 is.
"""

from __future__ import annotations

from typing import Any

from pyscheduler.embedded.discovery import KUBERNETES
from pyscheduler.embedded.objects import Json
from pyscheduler.embedded.resources import Resource, ResourceRegistry
from pyscheduler.embedded.schema.lists import RETAIN_KEYS
from pyscheduler.embedded.schema.nodes import Anything, ListOf, MapOf, Node, Struct
from pyscheduler.embedded.schema.typecheck import schema_of
from pyscheduler.embedded.verbs.patch import PATCH_TYPES, STRATEGIC


def index(registry: ResourceRegistry) -> Json:
    """Return /openapi/v3: one document for each group and version."""
    paths = {}
    for group, versions in registry.groups().items():
        for version in versions:
            name = f"apis/{group}/{version}" if group else f"api/{version}"
            paths[name] = {"serverRelativeURL": f"/openapi/v3/{name}"}
    return {"paths": paths}


def document(registry: ResourceRegistry, group: str, version: str) -> Json | None:
    """Return /openapi/v3/apis/group/version, None if it is not served."""
    resources = registry.groups().get(group, {}).get(version)
    if not resources:
        return None
    schemas: dict[str, Json] = {}
    paths: dict[str, Json] = {}
    for resource in resources:
        name = f"{resource.group or 'core'}.{resource.version}.{resource.kind}"
        schemas[name] = _schema(schema_of(resource), schemas)
        if "$ref" in schemas[name]:
            schemas[name] = dict(schemas[schemas[name]["$ref"].rpartition("/")[2]])
        schemas[name]["x-kubernetes-group-version-kind"] = [_gvk(resource)]
        paths[_path(resource)] = _operations(resource, name)
    info = {"title": "pyscheduler embedded API server", "version": KUBERNETES["gitVersion"]}
    return {"openapi": "3.0.0", "info": info, "paths": paths, "components": {"schemas": schemas}}


def _gvk(resource: Resource) -> Json:
    return {"group": resource.group, "version": resource.version, "kind": resource.kind}


def _path(resource: Resource) -> str:
    root = f"/apis/{resource.group}/{resource.version}" if resource.group else f"/api/{resource.version}"
    scope = "/namespaces/{namespace}" if resource.namespaced else ""
    return f"{root}{scope}/{resource.plural}/{{name}}"


def _operations(resource: Resource, schema_name: str) -> Json:
    def parameter(name: str, kind: str = "string") -> Json:
        return {"name": name, "in": "query", "schema": {"type": kind, "uniqueItems": True}}

    body = {"schema": {"type": "object"}}
    types = [t for t in PATCH_TYPES if not (resource.custom and t == STRATEGIC)]
    response = {"200": {"description": "OK", "content": {"application/json": {"schema": _ref(schema_name)}}}}
    common = {"x-kubernetes-group-version-kind": _gvk(resource), "responses": response}
    parameters = [parameter("dryRun"), parameter("fieldManager"), parameter("fieldValidation")]
    return {
        "get": {**common, "x-kubernetes-action": "get"},
        "put": {**common, "x-kubernetes-action": "put", "parameters": parameters},
        "patch": {
            **common,
            "x-kubernetes-action": "patch",
            "parameters": [*parameters, parameter("force", "boolean")],
            "requestBody": {"content": dict.fromkeys(types, body)},
        },
    }


def _ref(name: str) -> Json:
    return {"$ref": f"#/components/schemas/{name}"}


def _schema(node: Node, schemas: dict[str, Json]) -> Json:
    if isinstance(node, Anything):
        return {"type": node.type}
    if isinstance(node, MapOf):
        return {"type": "object", "additionalProperties": _schema(node.value, schemas)}
    if isinstance(node, ListOf):
        return {"type": "array", "items": _schema(node.item, schemas), **_list_marks(node)}
    return _struct(node, schemas)


def _struct(node: Struct, schemas: dict[str, Json]) -> Json:
    if not node.name:
        return {"type": "object", "properties": _properties(node, schemas)}
    if node.name not in schemas:
        schemas[node.name] = {}  # a schema may contain itself
        schemas[node.name] |= {"type": "object", "properties": _properties(node, schemas)}
    return _ref(node.name)


def _properties(node: Struct, schemas: dict[str, Json]) -> dict[str, Any]:
    properties = {name: _member(field, schemas) for name, field in node.fields.items()}
    for name, schema in properties.items():
        if (node.name, name) in RETAIN_KEYS:
            strategies = [schema.get("x-kubernetes-patch-strategy"), "retainKeys"]
            schema["x-kubernetes-patch-strategy"] = ",".join(filter(None, strategies))
    return properties


def _member(node: Node, schemas: dict[str, Json]) -> Json:
    schema = _schema(node, schemas)
    if "$ref" in schema:
        return {"allOf": [schema], "default": {}}
    if isinstance(node, Anything) and node.patch_replaces:
        schema["x-kubernetes-patch-strategy"] = "replace"
    return schema


def _list_marks(node: ListOf) -> Json:
    marks: Json = {}
    if node.keys:
        marks |= {"x-kubernetes-list-type": "map", "x-kubernetes-list-map-keys": list(node.keys)}
    elif node.is_set:
        marks["x-kubernetes-list-type"] = "set"
    else:
        marks["x-kubernetes-list-type"] = "atomic"
    if node.patch_key:
        marks |= {"x-kubernetes-patch-merge-key": node.patch_key, "x-kubernetes-patch-strategy": "merge"}
    elif node.patch_set:
        marks["x-kubernetes-patch-strategy"] = "merge"
    return marks
