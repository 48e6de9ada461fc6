"""Schemas of the built-in kinds, from the definitions that Kubernetes publishes.

`typed` checks types at C speed on every write; `tree` is the schema for patches and field ownership, with the merge
keys of lists.
"""

from __future__ import annotations

from functools import cache
from typing import Any

import msgspec

from pyscheduler.embedded.schema.nodes import ANYTHING, Anything, ListOf, MapOf, Node, Struct
from pyscheduler.embedded.schema.published import Schema, definition, reference

_PYTHON: dict[str, Any] = {"string": str, "integer": int, "boolean": bool, "number": float}
_QUANTITY = "io.k8s.apimachinery.pkg.api.resource.Quantity"


@cache
def tree(name: str) -> Node:
    """Return the schema of the definition `name`, ANYTHING for the name ""."""
    return _node(definition(name), name) if name else ANYTHING


def _node(schema: Schema, name: str = "") -> Node:
    referred = reference(schema)
    if referred:
        return _referred(tree(referred), schema)
    if "properties" in schema:
        return Struct(
            name,
            lambda: {field: _node(part) for field, part in schema["properties"].items()},
            atomic=_is_atomic(schema),
        )
    kind = schema.get("type", "object")
    if kind == "array":
        return _list(schema)
    if kind == "object" and "additionalProperties" in schema and not _is_atomic(schema):
        return MapOf(_node(schema["additionalProperties"]))
    return Anything("string" if "oneOf" in schema else kind)


def _is_atomic(schema: Schema) -> bool:
    return schema.get("x-kubernetes-map-type") == "atomic"


def _referred(found: Node, schema: Schema) -> Node:
    """Return a definition as the field that refers to it declares its merging."""
    replaces = schema.get("x-kubernetes-patch-strategy") == "replace"
    if isinstance(found, Struct) and (replaces or _is_atomic(schema)):
        return Struct(found.name, lambda: found.fields, atomic=True, patch_replaces=replaces)
    return found


def _list(schema: Schema) -> ListOf:
    kind = schema.get("x-kubernetes-list-type")
    merges = "merge" in schema.get("x-kubernetes-patch-strategy", "").split(",")
    patch_key = schema.get("x-kubernetes-patch-merge-key", "") if merges else ""
    keys = tuple(schema.get("x-kubernetes-list-map-keys") or ()) if kind == "map" else ()
    item = reference(schema["items"])
    fields = definition(item).get("properties", {}) if keys and item else {}
    defaults = {key: fields[key]["default"] for key in keys if fields.get(key, {}).get("default")}
    return ListOf(_node(schema["items"]), keys, kind == "set", patch_key, merges and not patch_key, defaults)


_building: set[str] = set()


@cache
def typed(name: str) -> Any:
    """Return a msgspec type that rejects wrong types and accepts unknown fields; `Any` for the name ""."""
    if not name or name in _building:
        return Any  # a recursive schema (JSONSchemaProps) is not checked further
    schema = definition(name)
    if "properties" not in schema:
        return _python(schema)
    _building.add(name)
    names = {f"field_{number}": field for number, field in enumerate(schema["properties"])}  # not all are identifiers
    fields = [(attribute, _python(schema["properties"][field]) | None, None) for attribute, field in names.items()]
    struct = msgspec.defstruct(name.rpartition(".")[2], fields, rename=names)
    _building.discard(name)
    return struct


def _python(schema: Schema) -> Any:
    referred = reference(schema)
    if referred:
        return str | int | float if referred == _QUANTITY else typed(referred)
    kind = schema.get("type", "")
    if kind == "array":
        return list[_python(schema["items"])]  # type: ignore[misc]
    if kind == "object" and "additionalProperties" in schema:
        return dict[str, _python(schema["additionalProperties"]) | None]  # type: ignore[misc]
    if schema.get("format") == "int-or-string":
        return int | str
    return _PYTHON.get(kind, Any)
