"""Server-side apply: merge applied fields, reject conflicts with other managers, remove fields no longer applied."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

from pyscheduler.embedded.objects import Json, dig
from pyscheduler.embedded.patch.fieldset import Path, element, owned_leaves, shown
from pyscheduler.embedded.patch.managed import APPLY, FieldManagers, owners_of_live
from pyscheduler.embedded.schema.nodes import ListOf, Node, child, is_granular
from pyscheduler.embedded.status import ApiStatusError

_LAST_APPLIED = "kubectl.kubernetes.io/last-applied-configuration"
_KUBECTL = "kubectl"


def server_side_apply(live: Json, config: Json, schema: Node, manager: str, how: tuple[bool, str]) -> Json:
    """Return `live` with `config` applied by `manager`; `how` is (force, timestamp). ApiStatusError 409 on conflict."""
    force, now = how
    before, applied = owned_leaves(live, schema), owned_leaves(config, schema)
    owners = owners_of_live(live, before, now)
    applier = (manager, APPLY)
    changed = {path for path, value in applied.items() if path not in before or before[path] != value}
    conflicts = [
        (owner, path)
        for owner, paths in owners.sets.items()
        for path in sorted(paths & changed)
        if owner != applier and not _was_client_side(live, manager, path, schema)
    ]
    if conflicts and not force:
        raise _conflict(conflicts)
    merged: Json = _merged(live, config, schema)
    released = owners.sets.get(applier, set()) - applied.keys()
    _release(owners, applier, set(applied), (changed, now))
    still_owned = set[Path]().union(*owners.sets.values())
    for path in sorted(released - still_owned, key=len):
        if not any(owned[: len(path)] == path for owned in still_owned):
            merged = _removed(merged, path, schema)
    meta = {**merged["metadata"], "managedFields": owners.entries(config["apiVersion"])}
    return {**merged, "metadata": _with_last_applied(meta, live, config, manager)}


def _release(
    owners: FieldManagers, applier: tuple[str, str], applied: set[Path], context: tuple[set[Path], str]
) -> None:
    changed, now = context
    for owner, paths in list(owners.sets.items()):
        if owner != applier:
            owners.take(owner, paths - changed, now)
    owners.take(applier, applied, now)


def _last_applied(live: Json) -> Any:
    text = dig(live, "metadata", "annotations", _LAST_APPLIED)
    try:
        return json.loads(text) if text else None
    except ValueError:
        return None


def _was_client_side(live: Json, manager: str, path: Path, schema: Node) -> bool:
    """Return True for fields that kubectl's client-side apply set: they are no conflict for server-side kubectl."""
    config = _last_applied(live) if manager == _KUBECTL else None
    return isinstance(config, dict) and path in owned_leaves(config, schema)


def _with_last_applied(meta: Json, live: Json, config: Json, manager: str) -> Json:
    """Update the annotation of client-side apply, so that clients can switch back."""
    if manager != _KUBECTL or _last_applied(live) is None:
        return meta
    text = json.dumps(config, separators=(",", ":")) + "\n"
    return {**meta, "annotations": {**(meta.get("annotations") or {}), _LAST_APPLIED: text}}


def _conflict(conflicts: list[tuple[tuple[str, str], Path]]) -> ApiStatusError:
    causes = [
        {"reason": "FieldManagerConflict", "message": f'conflict with "{owner[0]}"', "field": shown(path)}
        for owner, path in conflicts
    ]
    count = f"{len(causes)} conflict" + ("s" if len(causes) > 1 else "")
    listed = ", ".join(f"{cause['message']}: {cause['field']}" for cause in causes)
    return ApiStatusError(409, "Conflict", f"Apply failed with {count}: {listed}", {"causes": causes})


def _merged(live: Any, config: Any, node: Node) -> Any:
    if is_granular(node) and isinstance(live, Mapping) and isinstance(config, Mapping):
        result = dict(live)
        for name, value in config.items():
            result[name] = _merged(live[name], value, child(node, name)) if name in live else value
        return result
    if isinstance(node, ListOf) and (node.keys or node.is_set) and isinstance(live, list):
        return _merged_items(live, config, node)
    return config


def _merged_items(live: list[Any], config: list[Any], node: ListOf) -> list[Any]:
    items = {element(item, node): item for item in live}
    for item in config:
        name = element(item, node)
        items[name] = _merged(items[name], item, node.item) if name in items else item
    return list(items.values())


def _removed(value: Any, path: Path, node: Node) -> Any:
    """Return `value` without the value at `path`; objects and lists that become empty are removed too."""
    part, rest = path[0], path[1:]
    if isinstance(value, list) and isinstance(node, ListOf):
        remaining = []
        for item in value:
            if element(item, node) != part:
                remaining.append(item)
            elif rest and rest[0][2:] not in node.keys:
                remaining.append(_removed(item, rest, node.item))
            elif rest:
                remaining.append(item)  # merge keys stay as long as the item exists
        return remaining
    name = part[2:]
    if not isinstance(value, Mapping) or name not in value:
        return value
    below = _removed(value[name], rest, child(node, name)) if rest else None
    if below or below is False or below == 0:
        return {**value, name: below}
    return {key: item for key, item in value.items() if key != name}
