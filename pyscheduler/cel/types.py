"""Types of CEL: those of the type checker, which are also the values that `type(x)` returns."""

from __future__ import annotations

from typing import Final

import msgspec


class CelType(msgspec.Struct, frozen=True):
    """A type with its parameters: `list(int)` is `CelType("list", "list", (INT,))`.

    `kind` is the category that the checker decides on, `name` is the run-time name of cel-go's `types.Type`. A type
    that a library declares has the kind "opaque", a message with fields has the kind "struct".
    """

    kind: str
    name: str
    parameters: tuple[CelType, ...] = ()

    def __str__(self) -> str:
        """Return the text that cel-go's `Type.String` returns."""
        if self.kind == "type_param":
            return f"<{self.name}>"
        if not self.parameters:
            return self.name
        return f"{self.name}({', '.join(map(str, self.parameters))})"


def TypeParam(name: str) -> CelType:
    """Return the type parameter of a generic overload."""
    return CelType("type_param", name)


def list_of(element: CelType) -> CelType:
    """Return the type of lists of an element type."""
    return CelType("list", "list", (element,))


def map_of(key: CelType, value: CelType) -> CelType:
    """Return the type of maps."""
    return CelType("map", "map", (key, value))


def optional_of(value: CelType) -> CelType:
    """Return the type of optional values."""
    return CelType("opaque", "optional_type", (value,))


def type_of_type(value: CelType) -> CelType:
    """Return the type of a type."""
    return CelType("type", "type", (value,))


def struct(name: str) -> CelType:
    """Return the type of messages with fields; `kubernetes.Quantity` is one without fields."""
    return CelType("struct", name)


def opaque(name: str, *parameters: CelType) -> CelType:
    """Return a type that a library declares, such as `kubernetes.Quantity`."""
    return CelType("opaque", name, parameters)


ANY: Final = CelType("any", "google.protobuf.Any")
BOOL: Final = CelType("bool", "bool")
BYTES: Final = CelType("bytes", "bytes")
DOUBLE: Final = CelType("double", "double")
DURATION: Final = CelType("duration", "google.protobuf.Duration")
DYN: Final = CelType("dyn", "dyn")
ERROR: Final = CelType("error", "error")
INT: Final = CelType("int", "int")
NULL: Final = CelType("null", "null_type")
STRING: Final = CelType("string", "string")
TIMESTAMP: Final = CelType("timestamp", "google.protobuf.Timestamp")
TYPE: Final = CelType("type", "type")
UINT: Final = CelType("uint", "uint")
LIST: Final = list_of(DYN)
MAP: Final = map_of(DYN, DYN)
OPTIONAL: Final = optional_of(DYN)
