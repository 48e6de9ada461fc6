"""JSON values of a schema as CEL values, with field names escaped as Kubernetes does."""

from __future__ import annotations

import base64
import re
from typing import Any, Final

from pyscheduler.cel.functions.conversions import to_duration, to_timestamp
from pyscheduler.cel.parser import RESERVED
from pyscheduler.cel.values import CelError, CelMap, Value
from pyscheduler.embedded.schema.structural import Schema

_KEYWORDS: Final = RESERVED | {"true", "false", "null", "in"}
_ESCAPES: Final = (("__", "__underscores__"), (".", "__dot__"), ("-", "__dash__"), ("/", "__slash__"))
_IDENTIFIER: Final = re.compile(r"[A-Za-z_][A-Za-z0-9_]*\Z")


def escaped(name: str) -> str:
    """Return the identifier of a field in expressions, "" if it has none."""
    if name in _KEYWORDS:
        return f"__{name}__"
    for text, escape in _ESCAPES:
        name = name.replace(text, escape)
    return name if _IDENTIFIER.match(name) else ""


def as_cel(value: Any, schema: Schema) -> Value:
    """Return a JSON value as CEL value: numbers, times and bytes by the type and format of the schema."""
    if isinstance(value, dict):
        return CelMap(_entries(value, schema))
    if isinstance(value, list):
        items = schema.get("items") or {}
        return tuple(as_cel(item, items) for item in value)
    if schema.get("type") == "number" and isinstance(value, int) and not isinstance(value, bool):
        return float(value)
    return _text(value, schema.get("format", "")) if isinstance(value, str) else value


def _entries(value: dict[str, Any], schema: Schema) -> dict[object, Value]:
    extra = schema.get("additionalProperties")
    if extra:
        of_items: Schema = extra if isinstance(extra, dict) else {}
        return {name: as_cel(item, of_items) for name, item in value.items()}
    known = schema.get("properties") or {}
    return {escaped(name) or name: as_cel(item, known.get(name) or {}) for name, item in value.items()}


def _text(text: str, form: str) -> Value:
    converted: Value = text
    if form in ("date-time", "date"):
        converted = to_timestamp(f"{text}T00:00:00Z" if form == "date" else text)
    elif form == "duration":
        converted = to_duration(text)
    elif form == "byte":
        try:
            converted = base64.b64decode(text, validate=True)
        except ValueError:  # not base64, or not even ASCII
            return text
    return text if isinstance(converted, CelError) else converted
