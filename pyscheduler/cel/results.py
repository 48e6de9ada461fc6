"""The result of a selector as a bool (cel-go's `ConvertToNative`)."""

from __future__ import annotations

from pyscheduler.cel.types import CelType
from pyscheduler.cel.values import NONE, CelError, Opaque, Optional, Value, type_of

_ERRORS = {
    "int": "unsupported type conversion from 'int' to bool",
    "uint": "unsupported type conversion from 'uint' to bool",
    "double": "type conversion error from Double to 'bool'",
    "string": "unsupported native conversion from string to 'bool'",
    "bytes": "type conversion error from Bytes to 'bool'",
    "list": "type conversion error from list to 'bool'",
    "map": "type conversion error from map to 'bool'",
    "null_type": "type conversion error from 'null_type' to 'bool'",
    "google.protobuf.Duration": "type conversion error from 'Duration' to 'bool'",
    "google.protobuf.Timestamp": "type conversion error from 'Timestamp' to 'bool'",
}


def to_match(value: Value) -> bool | CelError:
    """Return the bool of a value, or the error of another value."""
    if isinstance(value, CelError):
        return value
    native = _to_bool(value)
    if isinstance(native, bool):
        return native
    return CelError(f"CEL result of type {type_of(value).name} could not be converted to bool: {native}")


def _to_bool(value: Value) -> bool | str:
    """Return the bool, that of an optional included, or the text of the error."""
    if isinstance(value, bool):
        return value
    if isinstance(value, Optional):
        return "optional.none() dereference" if value is NONE else _to_bool(value.value)
    if isinstance(value, CelType):
        return "type conversion not supported for 'type'"
    if isinstance(value, Opaque):
        name = type(value).__name__.removeprefix("Named")
        return f"type conversion error from '{name}' to 'bool'"
    return _ERRORS[type_of(value).name]
