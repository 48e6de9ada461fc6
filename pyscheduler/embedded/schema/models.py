"""Schemas of the built-in kinds, read from the OpenAPI models of the Kubernetes client package.

The models contain every field and type of Kubernetes' API, so nothing is written down twice. They are imported on first
use: a server that serves only reads does not pay for them. `typed` checks types at C speed on every write; `tree` is
the schema for patches and field ownership.
"""

from __future__ import annotations

import re
from functools import cache
from typing import Any

import msgspec

from pyscheduler.embedded.schema.lists import (
    ATOMIC_MAPS,
    KEY_DEFAULTS,
    LISTS,
    PATCH_REPLACES,
    QUANTITY_FIELDS,
    QUANTITY_SCALARS,
    Merge,
)
from pyscheduler.embedded.schema.nodes import ANYTHING, Anything, ListOf, MapOf, Node, Struct

_SCALARS = {"str": "string", "int": "integer", "bool": "boolean", "float": "number", "datetime": "string"}
_PYTHON: dict[str, Any] = {"str": str, "int": int, "bool": bool, "float": float, "datetime": str}
_GENERIC = re.compile(r"(list|dict)[\[(](?:str, )?(.*)[\])]\Z")


@cache
def _model(name: str) -> Any:
    """Return the model class, None if the installed package has no such kind."""
    from kubernetes_asyncio.client import models

    return getattr(models, name, None)


def _members(name: str) -> dict[str, tuple[str, str]]:
    """Return (attribute, type) by JSON name."""
    model = _model(name)
    types: dict[str, str] = model.openapi_types
    return {json_name: (attribute, types[attribute]) for attribute, json_name in model.attribute_map.items()}


@cache
def tree(name: str) -> Node:
    """Return the schema of the model `name`, ANYTHING if there is no such model."""
    if not name or _model(name) is None:
        return ANYTHING

    def fields() -> dict[str, Node]:
        return {field: _node(name, field, text) for field, (_, text) in _members(name).items()}

    return Struct(name, fields)


def _node(owner: str, field: str, text: str) -> Node:
    if text in _SCALARS:
        return Anything(_SCALARS[text])
    if (owner, field) in PATCH_REPLACES:
        return Anything(patch_replaces=True)
    generic = _GENERIC.match(text)
    if generic is None:
        return ANYTHING if (text, "") in ATOMIC_MAPS or text == "object" else tree(text)
    container, inner = generic.groups()
    if container == "dict":
        return ANYTHING if (owner, field) in ATOMIC_MAPS else MapOf(_node(owner, "", inner))
    merge = LISTS.get(owner, {}).get(field, Merge())
    patch_key = merge.patch_key if merge.patch_key is not None else next(iter(merge.keys), "")
    return ListOf(_node(owner, "", inner), merge.keys, merge.is_set, patch_key, merge.patch_set, KEY_DEFAULTS)


_building: set[str] = set()


@cache
def typed(name: str) -> Any:
    """Return a msgspec type that rejects wrong types and accepts unknown fields; `Any` without a model."""
    if not name or _model(name) is None or name in _building:
        return Any  # a recursive schema (JSONSchemaProps) is not checked further
    _building.add(name)
    members = _members(name)
    fields = [(attribute, _python(name, field, text) | None, None) for field, (attribute, text) in members.items()]
    struct = msgspec.defstruct(name, fields, rename={attribute: field for field, (attribute, _) in members.items()})
    _building.discard(name)
    return struct


def _python(owner: str, field: str, text: str) -> Any:
    if (owner, field) in QUANTITY_SCALARS:
        return str | int | float
    if text in _PYTHON:
        return _PYTHON[text]
    generic = _GENERIC.match(text)
    if generic is None:
        return Any if text == "object" else typed(text)
    container, inner = generic.groups()
    if container == "dict":
        values = str | int | float if field in QUANTITY_FIELDS and inner == "str" else _python(owner, "", inner)
        return dict[str, values | None]  # type: ignore[valid-type]
    return list[_python(owner, "", inner)]  # type: ignore[misc]
