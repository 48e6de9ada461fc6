"""OpenAPI v3 schemas of custom resources: checks of the schema itself, pruning, defaults, and conversion to a tree.

`validation.py` checks objects.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping
from copy import deepcopy
from typing import Any

from pyscheduler.embedded.schema.nodes import ANYTHING, Anything, ListOf, MapOf, Node, Struct
from pyscheduler.embedded.status import Cause, invalid_value, unsupported, wrong_type

Schema = Mapping[str, Any]
ROOT_FIELDS = ("apiVersion", "kind", "metadata")
"""Fields of every object, which have a schema of their own."""
RULES = "x-kubernetes-validations"
LISTS_OF_SCHEMAS = ("allOf", "anyOf", "oneOf")
_TYPES: dict[str, Callable[[Any], bool]] = {
    "object": lambda value: isinstance(value, dict),
    "array": lambda value: isinstance(value, list),
    "string": lambda value: isinstance(value, str),
    "boolean": lambda value: isinstance(value, bool),
    "integer": lambda value: isinstance(value, int) and not isinstance(value, bool),
    "number": lambda value: isinstance(value, int | float) and not isinstance(value, bool),
}
_LISTS = {"required", "enum", *LISTS_OF_SCHEMAS}
_NUMBERS = {f"{end}{what}" for end in ("min", "max") for what in ("imum", "Length", "Items", "Properties")} | {
    "multipleOf"
}


def _preserves_unknown(schema: Schema) -> bool:
    return bool(schema.get("x-kubernetes-preserve-unknown-fields"))


def _values(schema: Schema) -> Schema | None:
    """Return the schema of a map's values; {} if anything is valid, None if the schema is no map."""
    extra = schema.get("additionalProperties")
    return {} if extra is True else extra or None


def rules_of(schema: Schema) -> list[Mapping[str, Any]]:
    """Return the rules of one schema in CEL."""
    found = schema.get(RULES)
    return [rule for rule in found if isinstance(rule, dict)] if isinstance(found, list) else []


def has_rules(schema: Any) -> bool:
    """Return True if a schema or one below it has rules in CEL."""
    if isinstance(schema, dict):
        return bool(rules_of(schema)) or any(map(has_rules, schema.values()))
    return isinstance(schema, list) and any(map(has_rules, schema))


def schema_errors(schema: Any, path: str) -> Iterator[Cause]:
    """Yield the causes that make a schema itself invalid: unknown types, bad patterns, members that are no schemas."""
    if not isinstance(schema, dict):
        yield wrong_type(path, str(schema), "must be a schema")
        return
    kind, pattern, known = schema.get("type", ""), schema.get("pattern"), schema.get("properties") or {}
    if kind and str(kind) not in _TYPES:
        yield unsupported(f"{path}.type", str(kind), _TYPES)
    if pattern is not None and not _compiles(pattern):
        yield invalid_value(f"{path}.pattern", str(pattern), "must be a valid regular expression")
    for names, wanted in ((_LISTS, "array"), (_NUMBERS, "number")):
        for name in names & schema.keys():
            if not _TYPES[wanted](schema[name]):
                yield wrong_type(f"{path}.{name}", str(schema[name]), f"must be of type {wanted}")
    for name, field in known.items() if isinstance(known, dict) else (("properties", known),):
        yield from schema_errors(field, f"{path}.properties[{name}]")
    for name in ("items", "additionalProperties", "not"):
        if schema.get(name) is not None and not isinstance(schema[name], bool):
            yield from schema_errors(schema[name], f"{path}.{name}")
    for name in LISTS_OF_SCHEMAS:
        for index, each in enumerate(schema[name] if isinstance(schema.get(name), list) else ()):
            yield from schema_errors(each, f"{path}.{name}[{index}]")


def _compiles(pattern: Any) -> bool:
    try:
        re.compile(pattern)
    except (re.error, TypeError):
        return False
    return True


def prune(value: Any, schema: Schema, *, root: bool = False) -> None:
    """Drop fields that are not in the schema, in place."""
    if isinstance(value, list):
        for item in value:
            prune(item, schema.get("items") or {})
    if not isinstance(value, dict):
        return
    known, extra = schema.get("properties") or {}, _values(schema)
    for name in list(value):
        if root and name in ROOT_FIELDS:
            continue
        if name in known:
            prune(value[name], known[name])
        elif extra is not None:
            prune(value[name], extra)
        elif schema and not _preserves_unknown(schema):
            del value[name]


def set_defaults(value: Any, schema: Schema) -> None:
    """Set the schema's defaults for missing fields, in place."""
    if isinstance(value, list):
        for item in value:
            set_defaults(item, schema.get("items") or {})
    if not isinstance(value, dict):
        return
    for name, field in (schema.get("properties") or {}).items():
        if name not in value and "default" in field:
            value[name] = deepcopy(field["default"])
        if name in value:
            set_defaults(value[name], field)
    extra = _values(schema)
    for name in value.keys() - (schema.get("properties") or {}).keys() if extra else ():
        set_defaults(value[name], extra or {})


def tree(schema: Schema, metadata: Node | None = None) -> Node:
    """Return the schema as a tree for patches and field ownership; `metadata` is the schema of a root's metadata."""
    kind = schema.get("type", "")
    if kind == "array":
        keys = tuple(schema.get("x-kubernetes-list-map-keys") or ())
        is_set = schema.get("x-kubernetes-list-type") == "set"
        return ListOf(tree(schema.get("items") or {}), keys, is_set)
    extra = _values(schema)
    if kind == "object" and extra is not None:
        return MapOf(tree(extra))
    if kind != "object" or schema.get("x-kubernetes-map-type") == "atomic":
        return Anything(kind or "object")
    if not schema.get("properties") and _preserves_unknown(schema) and metadata is None:
        return MapOf(ANYTHING)

    def fields() -> dict[str, Node]:
        known = {name: tree(field) for name, field in (schema.get("properties") or {}).items()}
        root = {"apiVersion": Anything("string"), "kind": Anything("string"), "metadata": metadata}
        return known | ({name: node for name, node in root.items() if node is not None} if metadata else {})

    return Struct("", fields, open_ended=_preserves_unknown(schema))
