"""Unknown fields of an object: the `fieldValidation` parameter of a write.

With `Strict` (kubectl's default) unknown fields reject the write, with `Warn` they are returned as warnings, otherwise
they are ignored. Duplicate fields are not reported: the JSON decoder keeps the last one silently.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from pyscheduler.embedded.schema.nodes import ListOf, MapOf, Node, Struct


def unknown_fields(value: Any, node: Node, path: str = "") -> Iterator[str]:
    """Yield the paths of all members of `value` that are not in `node`."""
    if isinstance(node, Struct) and isinstance(value, dict):
        for name, item in value.items():
            here = f"{path}.{name}" if path else name
            if name in node.fields:
                yield from unknown_fields(item, node.fields[name], here)
            elif not node.open_ended:
                yield here
    elif isinstance(node, MapOf) and isinstance(value, dict):
        for name, item in value.items():
            yield from unknown_fields(item, node.value, f"{path}.{name}")
    elif isinstance(node, ListOf) and isinstance(value, list):
        for index, item in enumerate(value):
            yield from unknown_fields(item, node.item, f"{path}[{index}]")
