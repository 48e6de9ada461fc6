"""Assignability and substitution of types (cel-go's `checker/types.go`)."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from pyscheduler.cel.types import DYN, CelType

MAX_TYPE_SIZE: Final = 2_000
"""Parts of the largest type: `{a: a}` doubles the type of `a`, so nested variables would grow without bound."""
_SHORT_NAMES: Final = {"any": "any", "duration": "duration", "error": "!error!", "null": "null", "timestamp": "timestamp"}
_NULLABLE: Final = frozenset(("opaque", "struct", "any", "duration", "timestamp", "null"))
_PARAMETERIZED: Final = frozenset(("opaque", "list", "map"))


class TypeTooLargeError(Exception):
    """A type with more than `MAX_TYPE_SIZE` parts."""


def format_type(kind: CelType) -> str:
    """Return the name of a type in errors of the checker."""
    short = _SHORT_NAMES.get(kind.kind)
    if short is not None:
        return short
    if not kind.parameters:
        return kind.name
    return f"{kind.name}({', '.join(map(format_type, kind.parameters))})"


def is_dyn(kind: CelType) -> bool:
    """Return True if the type is known at run time only."""
    return kind.kind in ("dyn", "any")


def is_optional(kind: CelType) -> bool:
    """Return True for the type of an optional value."""
    return kind.kind == "opaque" and kind.name == "optional_type"


def is_equivalent(a: CelType, b: CelType) -> bool:
    """Return True if two types are equal apart from the names of type parameters."""
    if a.kind != b.kind or len(a.parameters) != len(b.parameters):
        return False
    if a.kind != "type_param" and a.name != b.name:
        return False
    return all(map(is_equivalent, a.parameters, b.parameters))


class Inference:
    """Types that stand for type parameters so far. A failed test of assignability leaves no trace."""

    def __init__(self) -> None:
        self._bound: dict[str, CelType] = {}
        self._trail: list[tuple[str, CelType | None]] = []
        self._count = 0

    def new_parameter(self) -> CelType:
        """Return a type parameter that nothing is known of."""
        self._count += 1
        return CelType("type_param", f"_var{self._count - 1}")

    def instantiate(self, kinds: Sequence[CelType]) -> list[CelType]:
        """Return types of one signature with new type parameters in place of the declared ones."""
        names: dict[str, CelType] = {}
        return [self._rename(kind, names) for kind in kinds]

    def _rename(self, kind: CelType, names: dict[str, CelType]) -> CelType:
        if kind.kind == "type_param":
            if kind.name not in names:
                names[kind.name] = self.new_parameter()
            return names[kind.name]
        if not kind.parameters:
            return kind
        return CelType(kind.kind, kind.name, tuple(self._rename(part, names) for part in kind.parameters))

    def substitute(self, kind: CelType, unbound_to_dyn: bool = False) -> CelType:
        """Return a type with the bound type parameters replaced, and the others by `dyn` on request."""
        while kind.kind == "type_param":
            bound = self._bound.get(kind.name)
            if bound is None:
                return DYN if unbound_to_dyn else kind
            kind = bound
        if not kind.parameters:
            return kind
        parts = tuple(self.substitute(part, unbound_to_dyn) for part in kind.parameters)
        return check_size(CelType(kind.kind, kind.name, parts))

    def is_assignable(self, a: CelType, b: CelType) -> bool:
        """Return True if `b` can be used as `a`, and bind the type parameters so."""
        return self.all_assignable((a,), (b,))

    def all_assignable(self, a: Sequence[CelType], b: Sequence[CelType]) -> bool:
        """Return True if each type of `b` can be used as the one of `a`, and bind the type parameters so."""
        mark = len(self._trail)
        if self._all(a, b):
            return True
        while len(self._trail) > mark:
            name, before = self._trail.pop()
            if before is None:
                del self._bound[name]
            else:
                self._bound[name] = before
        return False

    def _bind(self, parameter: CelType, to: CelType) -> None:
        self._trail.append((parameter.name, self._bound.get(parameter.name)))
        self._bound[parameter.name] = to

    def _all(self, a: Sequence[CelType], b: Sequence[CelType]) -> bool:
        return len(a) == len(b) and all(map(self._assignable, a, b))

    def _assignable(self, a: CelType, b: CelType) -> bool:
        if b.kind == "type_param":
            valid, was_bound = self._substitutes(a, b)
            if valid or was_bound:
                return valid
        if a.kind == "type_param":
            return self._substitutes(b, a)[0]
        if is_dyn(a) or is_dyn(b) or "error" in (a.kind, b.kind):
            return True
        if a.kind == "null":
            return b.kind in _NULLABLE
        if b.kind == "null":
            return a.kind in _NULLABLE
        if a.kind == "type":
            return b.kind == "type"
        if a.kind != b.kind or a.name != b.name:
            return False
        return a.kind not in _PARAMETERIZED or self._all(a.parameters, b.parameters)

    def _substitutes(self, a: CelType, parameter: CelType) -> tuple[bool, bool]:
        """Return whether `a` can stand for a type parameter, and whether the parameter was bound before."""
        if a == parameter:
            return True, True
        bound = self._bound.get(parameter.name)
        if bound is not None:
            if a == bound:
                return True, True
            if self._assignable(a, bound):
                general = a if _is_less_specific(a, bound) else bound
                if self._is_free_of(parameter, general):
                    self._bind(parameter, general)
                return True, True
            return False, True
        if self._is_free_of(parameter, a):
            self._bind(parameter, a)
            return True, False
        return False, False

    def _is_free_of(self, parameter: CelType, within: CelType) -> bool:
        if parameter == within:
            return False
        if within.kind == "type_param":
            bound = self._bound.get(within.name)
            return bound is None or self._is_free_of(parameter, bound)
        return all(self._is_free_of(parameter, part) for part in within.parameters)


def most_general(a: CelType, b: CelType) -> CelType:
    """Return the less specific one of two types."""
    return a if _is_less_specific(a, b) else b


def _is_less_specific(a: CelType, b: CelType) -> bool:
    """Return True if `a` is equal to `b` or less specific."""
    if is_dyn(a) or a.kind == "type_param":
        return True
    if is_dyn(b) or b.kind == "type_param" or a.kind != b.kind:
        return False
    if a.kind in _PARAMETERIZED:
        return a.name == b.name and all(map(_is_less_specific, a.parameters, b.parameters))
    return a.kind == "type" or a == b


def check_size(kind: CelType) -> CelType:
    """Return the type, or raise TypeTooLargeError."""
    count = 0
    pending = [kind]
    while pending:
        count += 1
        if count > MAX_TYPE_SIZE:
            raise TypeTooLargeError
        pending += pending.pop().parameters
    return kind
