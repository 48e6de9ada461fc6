"""Values of CEL at run time.

| CEL | Python |
| --- | --- |
| bool, double, string, bytes, null | `bool`, `float`, `str`, `bytes`, `None` |
| int | `int`, within 64 bits |
| uint | `Uint` |
| list | `tuple` |
| map | `CelMap` |
| timestamp, duration | `Timestamp`, `Duration` |
| type | `CelType` |
| optional | `Optional` |
| error | `CelError` |
| a type of a library | a subclass of `Opaque` |

Functions dispatch on the exact `type(value)`: a bool is not an int, a `Uint` is not an int either. Errors are values,
because `&&` and `||` absorb them.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from typing import ClassVar, Final, TypeAlias

from pyscheduler.cel.types import (
    BOOL,
    BYTES,
    DOUBLE,
    DURATION,
    ERROR,
    INT,
    LIST,
    MAP,
    NULL,
    OPTIONAL,
    STRING,
    TIMESTAMP,
    TYPE,
    UINT,
    CelType,
)

Value: TypeAlias = object
"""One of the classes in the table above."""

INT_MIN: Final = -(2**63)
INT_MAX: Final = 2**63 - 1
UINT_MAX: Final = 2**64 - 1
NANOSECONDS: Final = 1_000_000_000
"""Nanoseconds of a second."""


class CelError:
    """An error of the evaluation; `message` is cel-go's."""

    __slots__ = ("message",)

    def __init__(self, message: str) -> None:
        self.message = message

    def __repr__(self) -> str:
        return f"CelError({self.message!r})"


NO_SUCH_OVERLOAD: Final = CelError("no such overload")


class Uint(int):
    """An unsigned integer of 64 bits."""

    __slots__ = ()


class Duration:
    """A duration in nanoseconds, within 64 bits."""

    __slots__ = ("nanoseconds",)

    def __init__(self, nanoseconds: int) -> None:
        self.nanoseconds = nanoseconds

    def __eq__(self, other: object) -> bool:
        return type(other) is Duration and other.nanoseconds == self.nanoseconds

    def __hash__(self) -> int:
        return hash(("duration", self.nanoseconds))

    def __repr__(self) -> str:
        return f"Duration({self.nanoseconds})"


class Timestamp:
    """A time in nanoseconds since 1970 in UTC, of the years 1 to 9999.

    `offset` is the time zone in seconds east of UTC that its text is written in.
    """

    __slots__ = ("nanoseconds", "offset")

    def __init__(self, nanoseconds: int, offset: int = 0) -> None:
        self.nanoseconds = nanoseconds
        self.offset = offset

    def __eq__(self, other: object) -> bool:
        return type(other) is Timestamp and other.nanoseconds == self.nanoseconds

    def __hash__(self) -> int:
        return hash(("timestamp", self.nanoseconds))

    def __repr__(self) -> str:
        return f"Timestamp({self.nanoseconds})"


class Optional:
    """An optional value; `NONE` is the one without a value."""

    __slots__ = ("value",)

    def __init__(self, value: Value) -> None:
        self.value = value

    def __repr__(self) -> str:
        return "optional.none()" if self is NONE else f"Optional({self.value!r})"


class Missing:
    """Class of `MISSING`."""

    __slots__ = ()


MISSING: Final = Missing()
"""The result of `CelMap.find` for a key that the map does not have; null is a value."""
NONE: Final = Optional(MISSING)
"""`optional.none()`."""


class Opaque:
    """A value of a type that a library declares. Subclasses define `__eq__` and `__hash__`."""

    __slots__ = ()
    TYPE: ClassVar[CelType]

    def equal(self, other: Value) -> bool | CelError:
        """Return True for an equal value, or an error if the type cannot be compared with that of the other."""
        return other == self if type(other) is type(self) else NO_SUCH_OVERLOAD

    def __str__(self) -> str:
        """Return the text that Go prints for the value with `%v`."""
        return repr(self)

    @property
    def size(self) -> int:
        """Return the size that the cost of functions depends on: 1 unless the type has a size in cel-go."""
        return 1


class CelMap:
    """An immutable map in the order of its literal.

    Keys of type string and int are stored as they are, others with the name of their type: Python's True, 1 and 1.0
    are equal, CEL's are not the same key. As in cel-go, an int key is also found by an equal uint or double.
    """

    __slots__ = ("entries",)

    def __init__(self, entries: Mapping[object, Value]) -> None:
        """Wrap entries whose keys are strings or were encoded by `encode_key`."""
        self.entries = entries

    def find(self, key: Value) -> Value | Missing:
        """Return the value of a key, or MISSING."""
        kind = type(key)
        if kind is str:
            return self.entries.get(key, MISSING)
        for candidate in _equal_keys(key):
            found = self.entries.get(candidate, MISSING)
            if found is not MISSING:
                return found
        return MISSING

    def keys(self) -> Iterator[Value]:
        """Return the keys in the order of insertion."""
        return map(decode_key, self.entries)

    def items(self) -> Iterator[tuple[Value, Value]]:
        """Return keys and values in the order of insertion."""
        return ((decode_key(key), value) for key, value in self.entries.items())

    def __len__(self) -> int:
        return len(self.entries)

    def __repr__(self) -> str:
        return f"CelMap({dict(self.items())!r})"


class DefaultMap(CelMap):
    """A map that finds an empty map for each missing string: the domains of a device's attributes and capacities."""

    __slots__ = ()

    def find(self, key: Value) -> Value | Missing:
        """Return the value of a key, or an empty map."""
        return self.entries.get(key, EMPTY_MAP) if type(key) is str else EMPTY_MAP


EMPTY_MAP: Final = CelMap({})


def make_map(pairs: Iterable[tuple[Value, Value]]) -> CelMap:
    """Return a map; of equal keys, the last pair counts."""
    return CelMap({encode_key(key): value for key, value in pairs})


def encode_key(key: Value) -> object:
    """Return the key of `CelMap.entries` for a CEL value."""
    kind = type(key)
    if kind is str or kind is int:
        return key
    if kind is Uint:
        return ("uint", int(key))  # type: ignore[call-overload]
    return (type_of(key).name, key)


def decode_key(key: object) -> Value:
    """Return the CEL value of a key of `CelMap.entries`."""
    if type(key) is not tuple:
        return key
    name, value = key
    return Uint(value) if name == "uint" else value


def _equal_keys(key: Value) -> Iterator[object]:
    """Yield the encoded keys by which cel-go searches: a double is looked up as int and uint, an int as uint too."""
    yield encode_key(key)
    if isinstance(key, float) and key.is_integer():
        number = int(key)
        if INT_MIN <= number <= INT_MAX:
            yield number
        if 0 <= number <= UINT_MAX:
            yield ("uint", number)
    elif type(key) is int and key >= 0:
        yield ("uint", key)
    elif type(key) is Uint and key <= INT_MAX:
        yield int(key)


_TYPES: Final[dict[type, CelType]] = {
    bool: BOOL,
    bytes: BYTES,
    float: DOUBLE,
    Duration: DURATION,
    CelError: ERROR,
    int: INT,
    tuple: LIST,
    CelMap: MAP,
    DefaultMap: MAP,
    type(None): NULL,
    Optional: OPTIONAL,
    str: STRING,
    Timestamp: TIMESTAMP,
    CelType: TYPE,
    Uint: UINT,
}


def type_of(value: Value) -> CelType:
    """Return the type of a value without parameters' types: each list is a `list(dyn)`."""
    found = _TYPES.get(type(value))
    if found is not None:
        return found
    assert isinstance(value, Opaque), value
    return value.TYPE
