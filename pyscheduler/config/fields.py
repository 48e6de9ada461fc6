"""The fields of a record type and their YAML keys, the same for dataclasses and for the API's own structs.

Decoding and showing both walk these, so that what is shown can be read back.
"""

from __future__ import annotations

import dataclasses
import re
from collections.abc import Callable
from typing import Annotated, Any, get_type_hints

import msgspec

DURATION = "duration"
Seconds = Annotated[float, DURATION]
"""Seconds, written in YAML as Go writes durations: 15s, 1m30s, 500ms."""

ZERO_IS_DEFAULT = "zero is default"
"""Annotated with it: 0 and "" stand for the default, as in Kubernetes' own defaulting."""

INT32 = "int32"
Int32 = Annotated[int, INT32]
"""A whole number of 32 bits, as Kubernetes has for most; all others have 64."""

_UNDERSCORE = re.compile(r"_+([a-z0-9])")
MISSING: Any = object()


class UnknownType(Exception):
    """A record's annotations cannot be resolved; the message says which."""


class Field(msgspec.Struct, frozen=True):
    """One field: `key` is its YAML name, `name` its Python name; `default` is MISSING where a value must be given."""

    key: str
    name: str
    type: Any
    default: Callable[[], Any] | Any = MISSING
    zero_is_default: bool = False

    @property
    def required(self) -> bool:
        return self.default is MISSING

    def or_default(self, otherwise: Any) -> Any:
        """The default, `otherwise` where there is none."""
        return otherwise if self.required else self.default()


def is_record(cls: object) -> bool:
    """Whether a type is written as a mapping with known keys."""
    return isinstance(cls, type) and (dataclasses.is_dataclass(cls) or issubclass(cls, msgspec.Struct))


def fields_of(cls: type) -> tuple[Field, ...]:
    """The fields that YAML may give. UnknownType for annotations that name something that does not exist."""
    if issubclass(cls, msgspec.Struct):
        return tuple(_struct_field(f) for f in msgspec.structs.fields(cls))
    try:
        hints = get_type_hints(cls, include_extras=True)
    except (NameError, TypeError, SyntaxError) as e:
        raise UnknownType(f"the annotations of {cls.__qualname__} cannot be read: {e}") from None
    declared: tuple[dataclasses.Field[Any], ...] = dataclasses.fields(cls)  # type: ignore[arg-type]
    return tuple(_dataclass_field(f, hints[f.name]) for f in declared if f.init)


def camel(name: str) -> str:
    """`lease_duration` as Kubernetes writes it: `leaseDuration`."""
    return _UNDERSCORE.sub(lambda m: m.group(1).upper(), name.rstrip("_"))


def _dataclass_field(field: dataclasses.Field[Any], kind: Any) -> Field:
    default: Any = MISSING
    if field.default is not dataclasses.MISSING:
        value = field.default
        default = lambda: value  # noqa: E731 - a default is always a call, whether it was given as value or factory
    elif field.default_factory is not dataclasses.MISSING:
        default = field.default_factory
    key = field.metadata.get("key") or camel(field.name)
    return Field(key, field.name, kind, default, _zero_is_default(kind))


def _struct_field(field: msgspec.structs.FieldInfo) -> Field:
    default: Any = MISSING
    if field.default is not msgspec.NODEFAULT:
        value = field.default
        default = lambda: value  # noqa: E731
    elif field.default_factory is not msgspec.NODEFAULT:
        default = field.default_factory
    return Field(field.encode_name, field.name, field.type, default, _zero_is_default(field.type))


def _zero_is_default(kind: Any) -> bool:
    return ZERO_IS_DEFAULT in getattr(kind, "__metadata__", ())
