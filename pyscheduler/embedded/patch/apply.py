"""Server-side apply: merge what an applier wants, refuse what others own, remove what it no longer wants."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

from pyscheduler.embedded.objects import Json, dig
from pyscheduler.embedded.patch.fieldset import Path, element, owned_leaves, shown
from pyscheduler.embedded.patch.managed import APPLY, FieldManagers, owners_of_live
from pyscheduler.embedded.schema.nodes import ListOf, MapOf, Node, Struct, child
from pyscheduler.embedded.status import ApiError

_LAST_APPLIED = "kubectl.kubernetes.io/last-applied-configuration"
_KUBECTL = "kubectl"


def server_side_apply(live: Json, config: Json, schema: Node, manager: str, how: tuple[bool, str]) -> Json:
    """`live` with `config` applied by `manager`; `how` is (force, now as a timestamp). ApiError 409 for conflicts."""
    force, now = how
    before, wanted = owned_leaves(live, schema), owned_leaves(config, schema)
    owners = owners_of_live(live, before, now)
    me = (manager, APPLY)
    changed = {path for path, value in wanted.items() if path not in before or before[path] != value}
    conflicts = [
        (owner, path)
        for owner, paths in owners.sets.items()
        for path in sorted(paths & changed)
        if owner != me and not _was_client_side(live, manager, path, schema)
    ]
    if conflicts and not force:
        raise _conflict(conflicts)
    merged: Json = _merged(live, config, schema)
    given_up = owners.sets.get(me, set()) - wanted.keys()
    _release(owners, me, set(wanted), (changed, now))
    still_owned = set[Path]().union(*owners.sets.values())
    for path in sorted(given_up - still_owned, key=len):
        if not any(owned[: len(path)] == path for owned in still_owned):
            merged = _removed(merged, path, schema)
    meta = {**merged["metadata"], "managedFields": owners.entries(config["apiVersion"])}
    return {**merged, "metadata": _with_last_applied(meta, live, config, manager)}


def _release(owners: FieldManagers, me: tuple[str, str], wanted: set[Path], context: tuple[set[Path], str]) -> None:
    changed, now = context
    for owner, paths in list(owners.sets.items()):
        if owner != me:
            owners.take(owner, paths - changed, now)
    owners.take(me, wanted, now)


def _last_applied(live: Json) -> Any:
    text = dig(live, "metadata", "annotations", _LAST_APPLIED)
    try:
        return json.loads(text) if text else None
    except ValueError:
        return None


def _was_client_side(live: Json, manager: str, path: Path, schema: Node) -> bool:
    """Fields that `kubectl apply` set before its user moved to `--server-side` are no conflict for kubectl."""
    config = _last_applied(live) if manager == _KUBECTL else None
    return isinstance(config, dict) and path in owned_leaves(config, schema)


def _with_last_applied(meta: Json, live: Json, config: Json, manager: str) -> Json:
    """Keeps the annotation of client-side apply in step, so that its user can go back."""
    if manager != _KUBECTL or _last_applied(live) is None:
        return meta
    text = json.dumps(config, separators=(",", ":")) + "\n"
    return {**meta, "annotations": {**(meta.get("annotations") or {}), _LAST_APPLIED: text}}


def _conflict(conflicts: list[tuple[tuple[str, str], Path]]) -> ApiError:
    causes = [
        {"reason": "FieldManagerConflict", "message": f'conflict with "{owner[0]}"', "field": shown(path)}
        for owner, path in conflicts
    ]
    count = f"{len(causes)} conflict" + ("s" if len(causes) > 1 else "")
    listed = ", ".join(f"{cause['message']}: {cause['field']}" for cause in causes)
    return ApiError(409, "Conflict", f"Apply failed with {count}: {listed}", {"causes": causes})


def _merged(live: Any, config: Any, node: Node) -> Any:
    if isinstance(node, Struct | MapOf) and isinstance(live, Mapping) and isinstance(config, Mapping):
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
    """`value` without what is at `path`; an object or list that this empties goes too."""
    part, rest = path[0], path[1:]
    if isinstance(value, list) and isinstance(node, ListOf):
        kept = []
        for item in value:
            if element(item, node) != part:
                kept.append(item)
            elif rest and rest[0][2:] not in node.keys:
                kept.append(_removed(item, rest, node.item))
            elif rest:
                kept.append(item)  # an item keeps its keys as long as it is there
        return kept
    name = part[2:]
    if not isinstance(value, Mapping) or name not in value:
        return value
    below = _removed(value[name], rest, child(node, name)) if rest else None
    if below or below is False or below == 0:
        return {**value, name: below}
    return {key: item for key, item in value.items() if key != name}
