"""additionalPrinterColumns of custom resources, read by JSONPath.

Supported: `.a.b`, `.a['b']`, `.a[0]`, `.a[*]`, `.a[?(@.type=="Ready")].b`; anything else shows an empty cell.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping
from typing import Any

from pyscheduler.embedded.columns.column import AGE, NAME, Column, Obj, joined, since

_STEP = re.compile(
    r"""\.(?P<name>[A-Za-z0-9_-]+)
      | \[(?P<index>\d+|\*)\]
      | \['(?P<quoted>[^']+)'\]
      | \[\?\(@\.(?P<path>[A-Za-z0-9_.-]+)\s*==\s*["'](?P<value>[^"']*)["']\)\]""",
    re.VERBOSE,
)


def find(obj: Any, path: str) -> list[Any]:
    """Return all values at a JSONPath; none if the path is not supported."""
    path = path.strip().strip("{}").removeprefix("$").replace("\\.", "\0")
    values, position = [obj], 0
    while position < len(path):
        step = _STEP.match(path, position)
        if step is None:
            return []
        values = [found for value in values for found in _take(value, step.groupdict())]
        position = step.end()
    return values


def _take(value: Any, step: Mapping[str, str | None]) -> Iterator[Any]:
    name = step["name"] or step["quoted"]
    if name is not None:
        if isinstance(value, dict) and name in value:
            yield value[name]
    elif isinstance(value, list):
        if step["index"] == "*":
            yield from value
        elif step["index"] is not None:
            yield from value[int(step["index"]) : int(step["index"]) + 1]
        else:
            yield from (item for item in value if _equals(item, f".{step['path']}", step["value"] or ""))


def _equals(item: Any, path: str, value: str) -> bool:
    return any(str(found) == value for found in find(item, path))


def _cell(spec: Mapping[str, Any]) -> Callable[[Obj, float], Any]:
    path, kind = spec.get("jsonPath", ""), spec.get("type", "string")

    def cell(obj: Obj, now: float) -> Any:
        found = find(obj, path)
        if not found:
            return "<unknown>" if kind == "date" else ""
        if kind == "date":
            return since(found[0], now)
        if kind == "string":
            return joined("true" if v is True else "false" if v is False else v for v in found)
        return found[0]

    return cell


def custom_columns(specs: tuple[Mapping[str, Any], ...]) -> tuple[Column, ...]:
    """Return the columns of a custom resource: NAME and its own, or NAME and AGE if it has none."""
    if not specs:
        return (NAME, AGE)
    own = (Column(s.get("name", ""), _cell(s), s.get("type", "string"), s.get("priority", 0)) for s in specs)
    return (NAME, *own)
