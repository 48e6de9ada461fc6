"""Encoding of records as plain YAML values, to print a configuration with its defaults."""

from __future__ import annotations

import enum
from collections.abc import Mapping
from typing import Annotated, Any, get_args, get_origin

from pyscheduler.config.durations import format_duration
from pyscheduler.config.fields import DURATION, RecordField, fields_of, is_record


def encode(record: Any) -> dict[str, Any]:
    """Return a record as a mapping with camel-case keys; fields that are None are omitted."""
    pairs = ((f, getattr(record, f.name)) for f in fields_of(type(record)))
    return {f.key: _field(f, value) for f, value in pairs if value is not None}


def _field(field: RecordField, value: Any) -> Any:
    return format_duration(value) if _is_duration(field.type) else _value(value)


def _is_duration(kind: Any) -> bool:
    if get_origin(kind) is Annotated:
        return DURATION in get_args(kind)[1:]
    return any(_is_duration(arg) for arg in get_args(kind))


def _value(value: Any) -> Any:
    if isinstance(value, enum.Enum):
        return value.value
    if is_record(type(value)):
        return encode(value)
    if isinstance(value, Mapping):
        return {str(k): _value(v) for k, v in value.items()}
    if isinstance(value, set | frozenset):
        return [_value(v) for v in sorted(value)]
    if isinstance(value, list | tuple):
        return [_value(v) for v in value]
    return value
