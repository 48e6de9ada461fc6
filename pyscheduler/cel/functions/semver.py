"""Semantic versions (Kubernetes' semver library with the flag `normalize`, on github.com/blang/semver)."""

from __future__ import annotations

import re
from typing import ClassVar, Final, TypeAlias

from pyscheduler.cel.functions.costs import fixed, traverse_first
from pyscheduler.cel.functions.registry import Overload
from pyscheduler.cel.go_text import quote, utf8
from pyscheduler.cel.types import BOOL, INT, STRING, CelType, opaque
from pyscheduler.cel.values import NO_SUCH_OVERLOAD, CelError, Opaque, Value

SEMVER: Final = opaque("kubernetes.Semver")
_UINT_MAX: Final = 2**64 - 1
_DIGITS: Final = re.compile(r"[0-9]*\Z")
_IDENTIFIER: Final = re.compile(r"[0-9A-Za-z-]*\Z")
_PARTS: Final = 3
_Key: TypeAlias = tuple[object, ...]


class Semver(Opaque):
    """A version; build metadata is kept, and does not count in comparisons."""

    __slots__ = ("build", "core", "key", "prerelease")
    TYPE: ClassVar[CelType] = SEMVER

    def __init__(self, core: tuple[int, int, int], prerelease: tuple[str, ...], build: tuple[str, ...]) -> None:
        self.core = core
        self.prerelease = prerelease
        self.build = build
        # A release comes after its prereleases; numbers come before text.
        identifiers = tuple((0, int(p), "") if p.isdigit() else (1, 0, p) for p in prerelease)
        self.key: _Key = (core, not prerelease, identifiers)

    def equal(self, other: Value) -> bool | CelError:
        """Return True for a version of equal precedence; an error for a value of another type."""
        return other.key == self.key if isinstance(other, Semver) else NO_SUCH_OVERLOAD

    def compare(self, other: Semver) -> int:
        """Return -1, 0 or 1."""
        return (self.key > other.key) - (self.key < other.key)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Semver) and other.key == self.key

    def __hash__(self) -> int:
        return hash(self.key)

    def __repr__(self) -> str:
        text = ".".join(map(str, self.core))
        if self.prerelease:
            text += f"-{'.'.join(self.prerelease)}"
        return text + (f"+{'.'.join(self.build)}" if self.build else "")


def parse_semver(text: str) -> Semver | CelError:
    """Return the version that a text states."""
    if not text:
        return CelError("Version string empty")
    parts = text.split(".", 2)
    if len(parts) != _PARTS:
        return CelError("No Major.Minor.Patch elements found")
    major = _number(parts[0], "major", "Major")
    if isinstance(major, CelError):
        return major
    minor = _number(parts[1], "minor", "Minor")
    if isinstance(minor, CelError):
        return minor
    rest, has_build, build = parts[2].partition("+")
    rest, has_prerelease, prerelease = rest.partition("-")
    patch = _number(rest, "patch", "Patch")
    if isinstance(patch, CelError):
        return patch
    identifiers = prerelease.split(".") if has_prerelease else []
    metadata = build.split(".") if has_build else []
    for problem in (*map(_prerelease_problem, identifiers), *map(_build_problem, metadata)):
        if problem:
            return CelError(problem)
    return Semver((major, minor, patch), tuple(identifiers), tuple(metadata))


def parse_normalized(text: str) -> Semver | CelError:
    """Return the version of a text that may begin with `v`, have leading zeros, and lack minor and patch numbers."""
    parts = text.removeprefix("v").split(".", 2)
    parts = [_without_zeros(part) for part in parts]
    if len(parts) < _PARTS:
        if "+" in parts[-1] or "-" in parts[-1]:
            return CelError("short version cannot contain PreRelease/Build meta data")
        parts += ["0"] * (_PARTS - len(parts))
    return parse_semver(".".join(parts))


def _without_zeros(part: str) -> str:
    if len(utf8(part)) < 2:
        return part
    rest = part.lstrip("0")
    return rest if rest and rest[0] in "0123456789" else f"0{rest}"


def _number(text: str, name: str, title: str) -> int | CelError:
    if not _DIGITS.match(text):
        return CelError(f"Invalid character(s) found in {name} number {quote(text)}")
    if len(text) > 1 and text[0] == "0":
        return CelError(f"{title} number must not contain leading zeroes {quote(text)}")
    return _parse_uint(text)


def _parse_uint(text: str) -> int | CelError:
    if not text:
        return CelError('strconv.ParseUint: parsing "": invalid syntax')
    # Python refuses to convert thousands of digits.
    number = int(text[:21])
    if number > _UINT_MAX:
        return CelError(f"strconv.ParseUint: parsing {quote(text)}: value out of range")
    return number


def _prerelease_problem(text: str) -> str | None:
    if not text:
        return "Prerelease is empty"
    if _DIGITS.match(text):
        if len(text) > 1 and text[0] == "0":
            return f"Numeric PreRelease version must not contain leading zeroes {quote(text)}"
        number = _parse_uint(text)
        return number.message if isinstance(number, CelError) else None
    return None if _IDENTIFIER.match(text) else f"Invalid character(s) found in prerelease {quote(text)}"


def _build_problem(text: str) -> str | None:
    if not text:
        return "Build meta data is empty"
    return None if _IDENTIFIER.match(text) else f"Invalid character(s) found in build meta data {quote(text)}"


def _parse(text: str, normalize: bool = False) -> Semver | CelError:
    return parse_normalized(text) if normalize else parse_semver(text)


def _is_semver(text: str, normalize: bool = False) -> bool:
    return isinstance(_parse(text, normalize), Semver)


def _signed(number: int) -> int:
    """Convert as Go converts uint64 to int64."""
    return number if number < 2**63 else number - 2**64


_ONE: Final = fixed(1)
SEMVER_LIBRARY: Final = {
    "semver": (
        Overload("string_to_semver", (STRING,), SEMVER, _parse, cost=traverse_first),
        Overload("string_bool_to_semver", (STRING, BOOL), SEMVER, _parse, cost=traverse_first),
    ),
    "isSemver": (
        Overload("is_semver_string", (STRING,), BOOL, _is_semver, cost=traverse_first),
        Overload("is_semver_string_bool", (STRING, BOOL), BOOL, _is_semver, cost=traverse_first),
    ),
    "isGreaterThan": (
        Overload("semver_is_greater_than", (SEMVER, SEMVER), BOOL, lambda a, b: a.compare(b) == 1, True, _ONE),
    ),
    "isLessThan": (
        Overload("semver_is_less_than", (SEMVER, SEMVER), BOOL, lambda a, b: a.compare(b) == -1, True, _ONE),
    ),
    "compareTo": (Overload("semver_compare_to", (SEMVER, SEMVER), INT, Semver.compare, True, _ONE),),
    "major": (Overload("semver_major", (SEMVER,), INT, lambda v: _signed(v.core[0]), True, _ONE),),
    "minor": (Overload("semver_minor", (SEMVER,), INT, lambda v: _signed(v.core[1]), True, _ONE),),
    "patch": (Overload("semver_patch", (SEMVER,), INT, lambda v: _signed(v.core[2]), True, _ONE),),
}
