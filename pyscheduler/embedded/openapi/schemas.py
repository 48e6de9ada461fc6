"""Schemas of served kinds for OpenAPI v3: names and JSON."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import msgspec

from pyscheduler.embedded.objects import Json
from pyscheduler.embedded.openapi.operations import gvk
from pyscheduler.embedded.resources import Resource
from pyscheduler.embedded.schema.published import OBJECT_META, PREFIX, closure, definition, definition_name, encoded

_TEXT = {"type": "string"}


def schema_name(resource: Resource) -> str:
    """Return the name of the kind's schema: the published one, or for a custom resource its group reversed."""
    if not resource.custom:
        return definition_name(resource.group, resource.version, resource.kind)
    return ".".join([*reversed(resource.group.split(".")), resource.version, resource.kind])


def published(resources: Iterable[Resource], virtual: Iterable[tuple[str, str, str]] = ()) -> list[str]:
    """Return the names of the definitions of built-in kinds, and of all to which these refer.

    `virtual` are group, version and kind of resources that are not stored.
    """
    names = [OBJECT_META, *(schema_name(each) for each in resources if not each.custom)]
    return closure([*names, *filter(None, (definition_name(*each) for each in virtual))])


def custom_schema(resource: Resource) -> Json:
    """Return the schema of a custom resource, with the root fields and metadata that its definition omits."""
    whole: dict[str, Any] = {"type": "object", **(resource.openapi or {})}
    root = {name: definition("io.k8s.api.core.v1.Pod")["properties"][name] for name in ("apiVersion", "kind")}
    root["metadata"] = {"allOf": [{"$ref": f"{PREFIX}{OBJECT_META}"}], "description": "Standard object's metadata."}
    own = {name: field for name, field in (whole.get("properties") or {}).items() if name not in root}
    return {**whole, "properties": {**root, **own}, "x-kubernetes-group-version-kind": [gvk(resource)]}


def encoded_schemas(
    resources: Iterable[Resource], virtual: Iterable[tuple[str, str, str]]
) -> dict[str, msgspec.Raw | Json]:
    """Return the schemas of kinds and of all to which they refer by name; published ones stay encoded."""
    found: dict[str, msgspec.Raw | Json] = {name: encoded(name) for name in published(resources, virtual)}
    return found | {schema_name(each): custom_schema(each) for each in resources if each.custom}
