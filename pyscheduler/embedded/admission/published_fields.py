"""Required fields of kinds without a validation of their own, by their published schema.

Only text is checked: in the published schemas `required` stands for a field that Go always writes, and Kubernetes
accepts zero for most numbers and nothing for most lists.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from typing import Any

from pyscheduler.embedded.objects import Json
from pyscheduler.embedded.resources import Rules
from pyscheduler.embedded.schema.published import Schema, definition, definition_name, reference
from pyscheduler.embedded.status import Cause, required


def published_rules(rules: Rules, group: str, version: str, kind: str) -> Rules:
    """Return `rules` with a check of required text before their own check."""

    def check(obj: Json) -> list[Cause]:
        schema = definition(definition_name(group, version, kind))
        present = {name: part for name, part in obj.items() if name not in {"metadata", "status"}}
        return list(missing_text(present, schema)) or rules.check(obj)

    return replace(rules, check=check)


def missing_text(value: Any, schema: Schema, path: str = "") -> Iterator[Cause]:
    """Yield a cause for each required text field that is missing or empty in `value`."""
    name = reference(schema)
    whole = definition(name) if name else schema
    if isinstance(value, list):
        for index, item in enumerate(value):
            yield from missing_text(item, whole.get("items") or {}, f"{path}[{index}]")
    if not isinstance(value, dict):
        return
    fields = whole.get("properties") or {}
    for field in whole.get("required") or ():
        if fields[field].get("type") == "string" and not value.get(field):
            yield required(f"{path}.{field}".lstrip("."))
    for field, part in value.items():
        if field in fields:
            yield from missing_text(part, fields[field], f"{path}.{field}".lstrip("."))
