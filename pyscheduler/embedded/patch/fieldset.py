"""Sets of field paths: what server-side apply compares, and the `fieldsV1` form in managedFields.

A path is a tuple of fieldsV1 path elements: `f:name` for a field, `k:{"name":"x"}` for an item of a list with keys,
`v:"x"` for a member of a set. (Kubernetes: sigs.k8s.io/structured-merge-diff.)
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Mapping
from typing import Any

from pyscheduler.embedded.objects import Json
from pyscheduler.embedded.schema.nodes import ListOf, Node, child, is_granular

Path = tuple[str, ...]
PRESENT = object()
"""Value of a path that only marks the presence of a list item."""

_UNOWNED = {("f:apiVersion",), ("f:kind",)} | {
    ("f:metadata", f"f:{name}")
    for name in (
        "name",
        "namespace",
        "generateName",
        "uid",
        "resourceVersion",
        "generation",
        "selfLink",
        "creationTimestamp",
        "deletionTimestamp",
        "deletionGracePeriodSeconds",
        "managedFields",
    )
}


def owned_leaves(obj: Mapping[str, Any], node: Node, *, status: bool = False) -> dict[Path, Any]:
    """Return the ownable paths of `obj` with their values. Status is owned through its subresource only."""
    return {
        path: value
        for path, value in leaves(obj, node)
        if path[:2] not in _UNOWNED and path[:1] not in _UNOWNED and (status or path[0] != "f:status")
    }


def leaves(value: Any, node: Node, path: Path = ()) -> Iterator[tuple[Path, Any]]:
    """Yield the path and value of every leaf: scalars, atomic parts, list items, empty objects."""
    if is_granular(node) and isinstance(value, Mapping) and (value or not path):
        for name, item in value.items():
            yield from leaves(item, child(node, name), (*path, f"f:{name}"))
    elif isinstance(node, ListOf) and isinstance(value, list) and value and (node.keys or node.is_set):
        for item in value:
            here = (*path, element(item, node))
            yield here, PRESENT
            if node.keys:
                yield from leaves(item, node.item, here)
    elif path:
        yield path, value


def element(item: Any, node: ListOf) -> str:
    """Return the path element of an item of an associative list."""
    if not node.keys:
        return "v:" + json.dumps(item, separators=(",", ":"))
    return "k:" + json.dumps(item_key(item, node), separators=(",", ":"), sort_keys=True)


def item_key(item: Any, node: ListOf) -> dict[str, Any]:
    """Return the values of the merge keys of an item."""
    if not isinstance(item, Mapping):
        return {}
    defaults = node.key_defaults or {}
    return {key: item.get(key, defaults.get(key)) for key in node.keys if key in item or key in defaults}


def encode(paths: Iterable[Path]) -> Json:
    """Return a set of paths as fieldsV1."""
    root: Json = {}
    for path in sorted(paths):
        here = root
        for part in path:
            here = here.setdefault(part, {})
        if path[-1].startswith("k:"):
            here.setdefault(".", {})
    return root


def decode(fields: Mapping[str, Any], path: Path = ()) -> set[Path]:
    """Return fieldsV1 as a set of paths."""
    found: set[Path] = set()
    for part, below in fields.items():
        if part == ".":
            found.add(path)
        elif below:
            found |= decode(below, (*path, part))
        else:
            found.add((*path, part))
    return found


def shown(path: Path) -> str:
    """Format a path as in conflict messages: `.spec.containers[name="x"].image`."""
    text = ""
    for part in path:
        form, body = part[:2], part[2:]
        if form == "k:":
            keys = ",".join(f"{name}={json.dumps(value)}" for name, value in json.loads(body).items())
            text += f"[{keys}]"
        else:
            text += f"[={body}]" if form == "v:" else f".{body}"
    return text
