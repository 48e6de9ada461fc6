"""Fields of record types and their YAML keys, for dataclasses and API structs.

Used for decoding and encoding, so that encoded configurations can be decoded again.
"""

from __future__ import annotations

import dataclasses
import re
from collections.abc import Callable
from typing import Annotated, Any, get_type_hints

import msgspec

DURATION = "duration"
Seconds = Annotated[float, DURATION]
"""Seconds, written in YAML as Go durations: 15s, 1m30s, 500ms."""

ZERO_IS_DEFAULT = "zero is default"
"""Annotation: 0 and "" mean the default, as in Kubernetes' defaulting."""

INT32 = "int32"
Int32 = Annotated[int, INT32]
"""32-bit integer, as most Kubernetes fields are; others are 64-bit."""

_UNDERSCORE = re.compile(r"_+([a-z0-9])")
MISSING: Any = object()


class UnknownType(Exception):
    """Type annotations of a record cannot be resolved; the message names them."""


class RecordField(msgspec.Struct, frozen=True):
    """Field of a record: `key` is its YAML name, `name` its Python name; `default` is MISSING for required fields."""

    key: str
    name: str
    type: Any
    default: Callable[[], Any] | Any = MISSING
    zero_is_default: bool = False

    @property
    def required(self) -> bool:
        """True if the field has no default."""
        return self.default is MISSING

    def or_default(self, otherwise: Any) -> Any:
        """Return the default, or `otherwise` if there is none."""
        return otherwise if self.required else self.default()


def is_record(cls: object) -> bool:
    """Return True if a type is encoded as a mapping with fixed keys."""
    return isinstance(cls, type) and (dataclasses.is_dataclass(cls) or issubclass(cls, msgspec.Struct))


def fields_of(cls: type) -> tuple[RecordField, ...]:
    """Return the fields that YAML can set. UnknownType if annotations cannot be resolved."""
    if issubclass(cls, msgspec.Struct):
        return tuple(_struct_field(f) for f in msgspec.structs.fields(cls))
    try:
        hints = get_type_hints(cls, include_extras=True)
    except (NameError, TypeError, SyntaxError) as e:
        raise UnknownType(f"the annotations of {cls.__qualname__} cannot be read: {e}") from None
    declared: tuple[dataclasses.Field[Any], ...] = dataclasses.fields(cls)  # type: ignore[arg-type]
    return tuple(_dataclass_field(f, hints[f.name]) for f in declared if f.init)


def camel(name: str) -> str:
    """Return the Kubernetes spelling of a name: `lease_duration` becomes `leaseDuration`."""
    return _UNDERSCORE.sub(lambda m: m.group(1).upper(), name.rstrip("_"))


def _dataclass_field(field: dataclasses.Field[Any], kind: Any) -> RecordField:
    default: Any = MISSING
    if field.default is not dataclasses.MISSING:
        value = field.default
        default = lambda: value  # noqa: E731 - defaults are always callables
    elif field.default_factory is not dataclasses.MISSING:
        default = field.default_factory
    key = field.metadata.get("key") or camel(field.name)
    return RecordField(key, field.name, kind, default, _zero_is_default(kind))


def _struct_field(field: msgspec.structs.FieldInfo) -> RecordField:
    default: Any = MISSING
    if field.default is not msgspec.NODEFAULT:
        value = field.default
        default = lambda: value  # noqa: E731
    elif field.default_factory is not msgspec.NODEFAULT:
        default = field.default_factory
    return RecordField(field.encode_name, field.name, field.type, default, _zero_is_default(field.type))


def _zero_is_default(kind: Any) -> bool:
    return ZERO_IS_DEFAULT in getattr(kind, "__metadata__", ())
