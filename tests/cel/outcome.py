"""Our outcome of a case, in the form of the oracle's."""

from __future__ import annotations

import math
import struct
from typing import Any

from pyscheduler.cel import CelError, CelSyntaxError, Program, SelectorDevice, compile_selector
from pyscheduler.cel.functions.formats import Format
from pyscheduler.cel.functions.semver import Semver, parse_semver
from pyscheduler.cel.network import CIDR, IP
from pyscheduler.cel.quantity import Quantity, parse_quantity
from pyscheduler.cel.types import CelType
from pyscheduler.cel.url import URL
from pyscheduler.cel.values import NANOSECONDS, NONE, CelMap, Duration, Optional, Timestamp, Uint, Value, type_of
from tests.cel.case import Case

_OPAQUE = {Quantity: "quantity", Semver: "semver", IP: "ip", CIDR: "cidr", Format: "format"}
_ESCAPES = {"\a": "a", "\b": "b", "\f": "f", "\n": "n", "\r": "r", "\t": "t", "\v": "v", "\\": "\\", '"': '"'}


def evaluate(case: Case) -> dict[str, Any]:
    """Return our outcome of a case."""
    try:
        program = compile_selector(case.expression)
    except CelSyntaxError as error:
        return {"compileError": str(error)}
    return _run(program, device(case.device))


def _run(program: Program, selected: SelectorDevice) -> dict[str, Any]:
    matches = program.evaluate(selected)
    value, cost = program.run(selected)
    result: dict[str, Any] = {"cost": cost}
    result |= {"matchError": matches.message} if isinstance(matches, CelError) else {"matches": matches}
    return result | ({"error": value.message} if isinstance(value, CelError) else {"value": text(value)})


def device(described: dict[str, Any]) -> SelectorDevice:
    """Return the device of a case."""
    capacity = {name: parse_quantity(entry["value"]) for name, entry in described.get("capacity", {}).items()}
    attributes = {name: _attribute(entry) for name, entry in described.get("attributes", {}).items()}
    return SelectorDevice(described["driver"], attributes, capacity, bool(described.get("allowMultipleAllocations")))


def _attribute(described: dict[str, Any]) -> Value:
    ((kind, value),) = described.items()
    return parse_semver(value) if kind == "version" else value


def text(value: Value) -> str:
    """Return a value with its type, as the oracle prints it."""
    if value is None:
        return "null"
    if isinstance(value, bool):
        return f"bool {str(value).lower()}"
    if isinstance(value, float):
        return f"double {_double(value)}"
    if isinstance(value, str):
        return f"string {_quote(value)}"
    if isinstance(value, bytes):
        return f"bytes {value.hex()}"
    if isinstance(value, tuple):
        return f"[{', '.join(map(text, value))}]"
    if isinstance(value, CelMap):
        return f"{{{', '.join(sorted(f'{text(key)}: {text(entry)}' for key, entry in value.items()))}}}"
    return _other(value)


def _other(value: Value) -> str:
    if isinstance(value, int):
        return f"{'uint' if isinstance(value, Uint) else 'int'} {int(value)}"
    if isinstance(value, Optional):
        return "optional none" if value is NONE else f"optional {text(value.value)}"
    if isinstance(value, Duration):
        return f"duration {value.nanoseconds}"
    if isinstance(value, Timestamp):
        seconds, rest = divmod(value.nanoseconds, NANOSECONDS)
        return f"timestamp {seconds}.{rest:09d}"
    if isinstance(value, URL):
        return f"url {_quote(str(value))}"
    if isinstance(value, CelType):
        return f"type {value.name}"
    return f"{_OPAQUE.get(type(value), type_of(value).name)} {value}"


def _double(value: float) -> str:
    if math.isnan(value):
        return "NaN"
    (bits,) = struct.unpack(">Q", struct.pack(">d", value))
    return f"{bits:x}"


def _quote(value: str) -> str:
    """Return the text of Go's `strconv.QuoteToASCII`."""
    return f'"{"".join(map(_quoted, value))}"'


def _quoted(character: str) -> str:
    code = ord(character)
    if character in _ESCAPES:
        return f"\\{_ESCAPES[character]}"
    if " " <= character <= "~":
        return character
    if code < ord(" ") or code == 0x7F:
        return f"\\x{code:02x}"
    if 0xDC80 <= code <= 0xDCFF:
        return f"\\x{code - 0xDC00:02x}"
    return f"\\u{code:04x}" if code <= 0xFFFF else f"\\U{code:08x}"
