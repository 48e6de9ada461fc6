"""Rules of custom resources in CEL: `x-kubernetes-validations`.

Transition rules (with `oldSelf`) are evaluated on updates, where the old value can be found: in fields, maps, and
lists with keys. `optionalOldSelf` and the cost budget of a whole object are not implemented; each rule has its limit.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import Any, Final

import msgspec

from pyscheduler.cel import CelError, CelSyntaxError
from pyscheduler.cel.rules import Rule, compile_rule
from pyscheduler.cel.types import BOOL, STRING
from pyscheduler.embedded.objects import Json
from pyscheduler.embedded.schema.cel_values import as_cel
from pyscheduler.embedded.schema.structural import ROOT_FIELDS, RULES, Schema, rules_of
from pyscheduler.embedded.status import Cause, duplicate, forbidden_value, invalid_value, required

_ABSENT: Final = object()
_encode = msgspec.json.Encoder(order="deterministic").encode


@lru_cache(maxsize=1024)
def _compiled(expression: str, is_message: bool = False) -> Rule:
    return compile_rule(expression, STRING if is_message else BOOL)


@dataclass(frozen=True)
class _Place:
    """A value with its schema, and the old value (`_ABSENT` if there is none)."""

    path: str
    value: Any
    old: Any
    schema: Schema


def compile_errors(schema: Schema, path: str) -> Iterator[Cause]:
    """Yield a cause for each rule that does not compile, in a valid schema and those below it."""
    for index, rule in enumerate(rules_of(schema)):
        for field, is_message in (("rule", False), ("messageExpression", True)):
            expression = rule.get(field)
            if expression is None and is_message:
                continue
            try:
                _compiled(str(expression or ""), is_message)
            except CelSyntaxError as error:
                yield invalid_value(f"{path}.{RULES}[{index}].{field}", expression or "", str(error))
    for name, below in (schema.get("properties") or {}).items():
        yield from compile_errors(below, f"{path}.properties[{name}]")
    for name in ("items", "additionalProperties"):
        if isinstance(schema.get(name), Mapping):
            yield from compile_errors(schema[name], f"{path}.{name}")


def violations(schema: Schema, obj: Json, old: Json | None = None) -> Iterator[Cause]:
    """Yield the causes of all violated rules: without `old` of the rules of a state, with it of the transitions."""
    for place in _places(_Place("", _root(obj), _ABSENT if old is None else _root(old), schema)):
        for rule in rules_of(place.schema):
            compiled = _compiled(str(rule["rule"]))
            if compiled.uses_old_self is (old is not None) and not (compiled.uses_old_self and place.old is _ABSENT):
                yield from _evaluate(rule, compiled, place)


def _root(obj: Json) -> Json:
    """Return an object with the part of its metadata that rules may read."""
    meta = {name: text for name, text in obj["metadata"].items() if name in ("name", "generateName")}
    return {**obj, "metadata": meta}


def _places(place: _Place) -> Iterator[_Place]:
    """Yield the place and all below it that have a schema."""
    yield place
    value, old, schema = place.value, place.old, place.schema
    if isinstance(value, dict):
        known, extra = schema.get("properties") or {}, schema.get("additionalProperties")
        for name, part in value.items():
            below = known.get(name) or (extra if isinstance(extra, Mapping) else None)
            if below is not None and not (not place.path and name in ROOT_FIELDS):
                before = old.get(name, _ABSENT) if isinstance(old, dict) else _ABSENT
                path = f"{place.path}.{name}" if name in known else f"{place.path}[{name}]"
                yield from _places(_Place(path.lstrip("."), part, before, below))
    elif isinstance(value, list):
        items, keys = schema.get("items") or {}, schema.get("x-kubernetes-list-map-keys") or ()
        by_keys = _by_keys(old, keys)
        for index, part in enumerate(value):
            before = by_keys.get(_keys_of(part, keys), _ABSENT) if by_keys else _ABSENT
            yield from _places(_Place(f"{place.path}[{index}]", part, before, items))


def _by_keys(items: Any, keys: Sequence[str]) -> dict[bytes, Any]:
    """Return the items of an old list by the values of their keys; empty for a list without keys."""
    if not keys or not isinstance(items, list):
        return {}
    return {_keys_of(item, keys): item for item in reversed(items) if isinstance(item, dict)}


def _keys_of(item: Any, keys: Sequence[str]) -> bytes:
    return _encode([item.get(key) for key in keys]) if isinstance(item, dict) else b""


def _evaluate(rule: Mapping[str, Any], compiled: Rule, place: _Place) -> Iterator[Cause]:
    value = as_cel(place.value, place.schema)
    old = None if place.old is _ABSENT else as_cel(place.old, place.schema)
    result = compiled.evaluate(value, old)
    if result is True:
        return
    path = (place.path + str(rule.get("fieldPath") or "")).lstrip(".") or "<nil>"
    if isinstance(result, CelError):
        kind, text = place.schema.get("type", "object"), rule.get("message") or rule["rule"]
        yield invalid_value(path, kind, f"{result.message} evaluating rule: {text}")
        return
    detail = _message(rule, value, old)
    match rule.get("reason"):
        case "FieldValueForbidden":
            yield forbidden_value(path, detail)
        case "FieldValueRequired":
            yield required(path, detail)
        case "FieldValueDuplicate":
            yield duplicate(path, place.value)
        case _ if isinstance(place.value, dict | list):
            yield Cause(path, "FieldValueInvalid", f"Invalid value: {detail}")
        case _:
            yield invalid_value(path, place.value, detail)


def _message(rule: Mapping[str, Any], value: Any, old: Any) -> str:
    if rule.get("messageExpression"):
        text = _compiled(str(rule["messageExpression"]), True).evaluate(value, old)
        if isinstance(text, str) and text.strip() and "\n" not in text:
            return text
    return str(rule.get("message") or f"failed rule: {rule['rule']}")
