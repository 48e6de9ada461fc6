"""Strict decoding of plain YAML values into frozen records. All errors are reported, each with its path.

As in kube-scheduler, unknown keys are errors and numbers are not accepted as text. null means "not set", as in Go.
"""

from __future__ import annotations

import enum
import math
import re
import types
from collections.abc import Callable, Mapping, Sequence
from typing import Annotated, Any, Literal, NoReturn, TypeVar, Union, get_args, get_origin

from pyscheduler.config.durations import parse_duration
from pyscheduler.config.fields import DURATION, INT32, MISSING, RecordField, UnknownType, fields_of, is_record
from pyscheduler.config.problems import Report, did_you_mean, shown, under
from pyscheduler.core.framework.plugin_failure import is_external
from pyscheduler.texts import text_of

T = TypeVar("T")


class _Failed(Exception):
    """Decoding of a value failed; the problem is in the report."""


def decode(cls: type[T], value: Any, path: str, report: Report) -> T | None:
    """Return a record of type `cls` decoded from a YAML value, or None with problems in `report`.

    An invalid field is reported and gets its default, so that validation continues.
    """
    try:
        record: T = _Decoder(report).value(cls, {} if value is None else value, path)
    except _Failed:
        return None
    return record


class _Decoder:
    def __init__(self, report: Report) -> None:
        self._report = report

    def value(self, kind: Any, value: Any, path: str) -> Any:
        kind = getattr(kind, "__supertype__", kind)
        if kind is Any or kind is object:
            return value
        if is_record(kind):
            return self._record(kind, value, path)
        if isinstance(kind, type) and issubclass(kind, enum.Enum):
            return self._enum(kind, value, path)
        if kind in _SCALARS:
            return self._scalar(kind, value, path)
        return self._generic(kind, value, path)

    def _generic(self, kind: Any, value: Any, path: str) -> Any:
        origin, args = get_origin(kind) or kind, get_args(kind)
        if origin is Annotated:
            return self._annotated(args[0], args[1:], value, path)
        if origin is Union or origin is types.UnionType:
            return self._union(args, value, path)
        if origin is Literal:
            return self._one_of(args, value, path)
        if isinstance(origin, type) and issubclass(origin, Mapping):
            return self._mapping(args, value, path)
        if isinstance(origin, type) and issubclass(origin, Sequence | frozenset | set):
            return self._list(origin, args, value, path)
        self._fail(path, f"the type {kind} of this setting cannot be read from YAML")

    def _annotated(self, kind: Any, marks: tuple[Any, ...], value: Any, path: str) -> Any:
        if DURATION in marks:
            return self._duration(value, path)
        decoded = self.value(kind, value, path)
        return self._in_bits(decoded, 32, path) if INT32 in marks else decoded

    def _record(self, cls: type, value: Any, path: str) -> Any:
        value = {} if value is None else value
        if not isinstance(value, Mapping):
            self._fail(path, f"must be a mapping, not {shown(value)}")
        try:
            fields = fields_of(cls)
        except UnknownType as e:
            self._fail(path, str(e))
        before = len(self._report.problems)
        self._report_unknown(value, [f.key for f in fields], path)
        values = {f.name: self._field(f, value.get(f.key), under(path, f.key)) for f in fields}
        failed = len(self._report.problems) > before
        if any(v is MISSING for v in values.values()):
            raise _Failed
        try:
            return cls(**values)
        except BaseException as e:  # any exception of the plugin's own validation concerns these values
            if is_external(e):
                raise
            self._report_invalid(e, [f.key for f in fields], path, failed)
            raise _Failed from None

    def _report_invalid(self, error: BaseException, keys: list[str], path: str, failed: bool) -> None:
        """Report the errors of `__post_init__`: `key: text`, or `[key: text, key: text]`, each at its key."""
        text = text_of(error) if isinstance(error, ValueError) else f"{text_of(error)} ({type(error).__name__})"
        place = rf"(?:{'|'.join(map(re.escape, keys))})(?:[.\[][^\s:]*)?"
        listed = re.fullmatch(rf"\[({place}: .*)\]", text, re.DOTALL)
        for one in re.split(rf", (?={place}: )", listed[1]) if listed else [text]:
            placed = re.fullmatch(rf"({place}): (.*)", one, re.DOTALL)
            where, what = (under(path, placed[1]), placed[2]) if placed else (path, one)
            # Fields that failed have their defaults, so errors about them or about the whole record may be wrong.
            if not failed or (placed and not self._report.has_related_problem(where)):
                self._report.add(where, what)

    def _report_unknown(self, value: Mapping[Any, Any], keys: list[str], path: str) -> None:
        for key in value:
            if key not in keys:
                self._report.add(under(path, str(key)), f'unknown field "{key}"{did_you_mean(str(key), keys)}')

    def _field(self, field: RecordField, value: Any, path: str) -> Any:
        """Return the field's value, its default if it is not set or invalid, or MISSING without a default."""
        if value is None:
            if field.required:
                self._report.add(path, "is required")
            return field.or_default(MISSING)
        try:
            decoded = self.value(field.type, value, path)
        except _Failed:
            return field.or_default(MISSING)
        return field.or_default(decoded) if field.zero_is_default and not decoded else decoded

    def _union(self, kinds: tuple[Any, ...], value: Any, path: str) -> Any:
        kinds = tuple(k for k in kinds if k is not types.NoneType)
        if len(kinds) == 1:
            return self.value(kinds[0], value, path)
        for kind in kinds:
            try:
                return _Decoder(Report()).value(kind, value, path)
            except _Failed:
                continue
        wanted = ", ".join(_SCALARS.get(k, getattr(k, "__name__", str(k))) for k in kinds)
        self._fail(path, f"{shown(value)} is none of: {wanted}")

    def _list(self, origin: type, args: tuple[Any, ...], value: Any, path: str) -> Any:
        if not isinstance(value, list | tuple):
            self._fail(path, f"must be a list, not {shown(value)}")
        kind = args[0] if args else Any
        items = self._all((lambda v=v, i=i: self.value(kind, v, f"{path}[{i}]")) for i, v in enumerate(value))
        build = origin if origin in (list, set, frozenset) else tuple
        return build(items)

    def _mapping(self, args: tuple[Any, ...], value: Any, path: str) -> dict[str, Any]:
        if not isinstance(value, Mapping):
            self._fail(path, f"must be a mapping, not {shown(value)}")
        kind = args[1] if len(args) == 2 else Any
        values = self._all((lambda k=k, v=v: self.value(kind, v, under(path, k))) for k, v in value.items())
        return dict(zip(value, values, strict=True))

    def _all(self, calls: Any) -> list[Any]:
        """Return all results. If a call fails, the others still run before _Failed is raised."""
        results, failed = [], False
        for call in calls:
            try:
                results.append(call())
            except _Failed:
                failed = True
        if failed:
            raise _Failed
        return results

    def _scalar(self, kind: Any, value: Any, path: str) -> Any:
        fits: Callable[[Any], bool] = _FITS[kind]
        if not fits(value):
            hint = f'; write it in quotes: "{shown(value)}"' if kind is str and isinstance(value, int | float) else ""
            self._fail(path, f"must be {_SCALARS[kind]}, not {shown(value)}{hint}")
        if kind is int:
            return self._in_bits(int(value), 64, path)
        return float(value) if kind is float else value

    def _in_bits(self, value: int, bits: int, path: str) -> int:
        least, most = -(2 ** (bits - 1)), 2 ** (bits - 1) - 1
        if not least <= value <= most:
            self._fail(path, f"must be a whole number from {least} to {most}, not {shown(value)}")
        return value

    def _duration(self, value: Any, path: str) -> float:
        if isinstance(value, int | float) and not isinstance(value, bool):
            self._fail(path, f'must be a duration; write "{value}s" for {value} seconds')
        if not isinstance(value, str):
            self._fail(path, f"must be a duration such as 15s, not {shown(value)}")
        try:
            return parse_duration(value)
        except ValueError as e:
            self._fail(path, str(e))

    def _enum(self, kind: type[enum.Enum], value: Any, path: str) -> enum.Enum:
        return kind(self._one_of(tuple(m.value for m in kind), value, path))

    def _one_of(self, allowed: tuple[Any, ...], value: Any, path: str) -> Any:
        for choice in allowed:
            if type(choice) is type(value) and choice == value:
                return choice
        names = ", ".join(str(a) for a in allowed)
        self._fail(path, f"{shown(value)} is not one of {names}")

    def _fail(self, path: str, message: str) -> NoReturn:
        self._report.add(path, message)
        raise _Failed


_SCALARS: dict[Any, str] = {str: "text", int: "a whole number", float: "a number", bool: "true or false"}
_FITS: dict[Any, Callable[[Any], bool]] = {
    str: lambda v: isinstance(v, str),
    int: lambda v: isinstance(v, int | float) and not isinstance(v, bool) and v % 1 == 0,
    float: lambda v: isinstance(v, int | float) and not isinstance(v, bool) and abs(v) < math.inf,
    bool: lambda v: isinstance(v, bool),
}
