"""Strategic merge patch: JSON merge patch with lists that merge by key.

Directives: `$patch` (replace, delete, merge), `$retainKeys`, `$setElementOrder/<list>` and
`$deleteFromPrimitiveList/<list>`, as in k8s.io/apimachinery/pkg/util/strategicpatch.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from pyscheduler.embedded.objects import Json
from pyscheduler.embedded.schema.nodes import ListOf, Node, Struct, child
from pyscheduler.embedded.status import bad_request

_DIRECTIVE = "$patch"
_RETAIN = "$retainKeys"
_ORDER = "$setElementOrder/"
_DELETE_VALUES = "$deleteFromPrimitiveList/"


def strategic_patch(target: Mapping[str, Any], patch: Any, node: Node) -> Json:
    """Return `target` (of schema `node`) with `patch` applied. ApiError 400 for a malformed patch."""
    if not isinstance(patch, Mapping):
        raise bad_request("a strategic merge patch must be an object")
    directive = patch.get(_DIRECTIVE)
    if directive == "replace":
        return {name: value for name, value in patch.items() if name != _DIRECTIVE}
    if directive == "delete":
        return {}
    if directive not in {None, "merge"}:
        raise bad_request(f"unknown $patch directive {directive!r}; use replace, delete or merge")
    result = dict(target)
    for name, value in patch.items():
        if name.startswith(_DELETE_VALUES):
            _delete_values(result, name.removeprefix(_DELETE_VALUES), value)
        elif not name.startswith("$"):
            _merge_member(result, name, value, child(node, name))
    for name, order in patch.items():
        if name.startswith(_ORDER):
            _reorder(result, target, name.removeprefix(_ORDER), (order, node))
    if _RETAIN in patch:
        retained = set(patch[_RETAIN])
        result = {name: value for name, value in result.items() if name in retained}
    return result


def _merge_member(result: Json, name: str, value: Any, below: Node) -> None:
    present = result.get(name)
    if value is None:
        result.pop(name, None)
    elif isinstance(value, Mapping):
        replaced = isinstance(below, Struct) and below.patch_replaces
        if value.get(_DIRECTIVE) == "delete":
            result.pop(name, None)
        else:
            base = present if isinstance(present, Mapping) and not replaced else {}
            result[name] = strategic_patch(base, value, below)
    elif isinstance(value, list) and isinstance(below, ListOf) and below.patch_key:
        result[name] = _merge_items(present or [], value, below)
    elif isinstance(value, list) and isinstance(below, ListOf) and below.patch_set:
        result[name] = [*(present or []), *(item for item in value if item not in (present or []))]
    else:
        result[name] = value


def _merge_items(present: list[Any], patch: list[Any], node: ListOf) -> list[Any]:
    if any(isinstance(item, Mapping) and item.get(_DIRECTIVE) == "replace" for item in patch):
        return [item for item in patch if item.get(_DIRECTIVE) != "replace"]
    items = list(present)
    for change in patch:
        key = change.get(node.patch_key) if isinstance(change, Mapping) else None
        if key is None:
            raise bad_request(f"map: {change} does not contain declared merge key: {node.patch_key}")
        at = next((i for i, item in enumerate(items) if item.get(node.patch_key) == key), None)
        if change.get(_DIRECTIVE) == "delete":
            items = [item for item in items if item.get(node.patch_key) != key]
        elif at is None:
            items.append(strategic_patch({}, change, node.item))
        else:
            items[at] = strategic_patch(items[at], change, node.item)
    return items


def _delete_values(result: Json, name: str, values: Any) -> None:
    if name in result and isinstance(values, list):
        result[name] = [item for item in result[name] if item not in values]


def _reorder(result: Json, target: Mapping[str, Any], name: str, context: tuple[Any, Node]) -> None:
    """Sort items as in the patch; items that are not in it stay after their former predecessor."""
    order, node = context
    items, below = result.get(name), child(node, name)
    if not isinstance(items, list) or not isinstance(order, list):
        return
    key = below.patch_key if isinstance(below, ListOf) else ""

    def identity(item: Any) -> Any:
        return item.get(key) if key and isinstance(item, Mapping) else item

    wanted = [identity(item) for item in order]
    by_identity = {identity(item): item for item in items}
    placed = [by_identity[one] for one in wanted if one in by_identity]
    former = [identity(item) for item in target.get(name) or ()]
    for item in items:
        if identity(item) not in wanted:
            placed.insert(_place_after(identity(item), former, [identity(p) for p in placed]), item)
    result[name] = placed


def _place_after(one: Any, former: list[Any], placed: list[Any]) -> int:
    if one not in former:
        return len(placed)
    before = former[: former.index(one)]
    return next((placed.index(other) + 1 for other in reversed(before) if other in placed), 0)
