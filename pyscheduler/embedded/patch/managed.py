"""metadata.managedFields: the last writer of each field.

Tracking costs time on every write, so an object is tracked from the first write with a `fieldManager` (kubectl sets it)
or the first apply; on an untracked object the first apply assigns all fields to `before-first-apply`, as in Kubernetes.
The status is tracked on its own, from the first write of it with a `fieldManager`.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from typing import Any

from pyscheduler.embedded.objects import Json
from pyscheduler.embedded.patch.fieldset import Path, decode, encode, leaves, owned_leaves
from pyscheduler.embedded.schema.nodes import Node

APPLY, UPDATE = "Apply", "Update"
BEFORE_FIRST_APPLY = "before-first-apply"

FieldManager = tuple[str, str]
"""Manager and operation."""


class FieldManagers:
    """Managers of one object, or of its status, and their sets of paths; other entries are preserved."""

    def __init__(self, entries: list[Json], subresource: str = "") -> None:
        self.sets: dict[FieldManager, set[Path]] = {}
        self._times: dict[FieldManager, Any] = {}
        self._subresource = {"subresource": subresource} if subresource else {}
        self._others = [entry for entry in entries if entry.get("subresource", "") != subresource]
        for entry in entries:
            if entry.get("subresource", "") == subresource:
                owner = (entry.get("manager", ""), entry.get("operation", UPDATE))
                self.sets.setdefault(owner, set()).update(decode(entry.get("fieldsV1") or {}))
                self._times[owner] = entry.get("time")

    def take(self, owner: FieldManager, paths: set[Path], now: str) -> None:
        """Set the paths owned by `owner` to exactly `paths`."""
        if paths != self.sets.get(owner):
            self._times[owner] = now
        self.sets[owner] = paths

    def assign(self, updater: FieldManager, changed: set[Path], present: Collection[Path], now: str) -> None:
        """Assign the paths that an update has changed to its manager, with its time; absent ones have no owner."""
        for owner, paths in list(self.sets.items()):
            self.take(owner, {path for path in paths - changed if path in present}, now)
        if changed:
            self.sets[updater] = self.sets.get(updater, set()) | changed
            self._times[updater] = now

    def entries(self, api_version: str) -> list[Json]:
        """Return the managedFields list."""
        tracked = [
            {
                "manager": owner[0],
                "operation": owner[1],
                "apiVersion": api_version,
                "time": self._times.get(owner),
                "fieldsType": "FieldsV1",
                "fieldsV1": encode(paths),
                **self._subresource,
            }
            for owner, paths in self.sets.items()
            if paths
        ]
        return tracked + self._others


def set_initial_managers(obj: Json, schema: Node | None, manager: str, now: str) -> None:
    """Assign all fields of a new object to its creator, in place. No-op without a schema."""
    if schema is not None:
        owners = FieldManagers([])
        owners.take((manager, UPDATE), set(owned_leaves(obj, schema)), now)
        obj["metadata"]["managedFields"] = owners.entries(obj["apiVersion"])


def record_update(new: Json, old: Mapping[str, Any], schema: Node, manager: str, now: str) -> None:
    """Assign the fields that an update changed to `manager`, in place; removed fields have no owner."""
    if new["metadata"].get("managedFields") != old["metadata"].get("managedFields"):
        return  # the client edits managedFields itself, as kubectl does when it migrates to server-side apply
    after, before = owned_leaves(new, schema), owned_leaves(old, schema)
    changed = {path for path, value in after.items() if path not in before or before[path] != value}
    if not changed and after.keys() == before.keys():
        return
    owners = owners_of_live(old, before, now)
    owners.assign((manager, UPDATE), changed, after, now)
    new["metadata"]["managedFields"] = owners.entries(new["apiVersion"])


def record_status_update(new: Json, old: Mapping[str, Any], schema: Node, manager: str, now: str) -> None:
    """Assign the fields of the status that a write of the subresource changed to `manager`, in `new`."""
    after, before = ({p: v for p, v in leaves(each, schema) if p[0] == "f:status"} for each in (new, old))
    if after == before:
        return
    owners = FieldManagers(old["metadata"].get("managedFields") or [], "status")
    changed = {path for path, value in after.items() if path not in before or before[path] != value}
    owners.assign((manager, UPDATE), changed, after, now)
    new["metadata"] = {**new["metadata"], "managedFields": owners.entries(new["apiVersion"])}


def is_tracked(meta: Mapping[str, Any], subresource: str = "") -> bool:
    """Return True if the managers of an object, or of its status, are known."""
    return any(entry.get("subresource", "") == subresource for entry in meta.get("managedFields") or ())


def owners_of_live(live: Mapping[str, Any], paths: Mapping[Path, Any], now: str) -> FieldManagers:
    """Return the owners of a stored object; an untracked one belongs to `before-first-apply`."""
    owners = FieldManagers(live["metadata"].get("managedFields") or [])
    if not is_tracked(live["metadata"]) and paths:
        owners.take((BEFORE_FIRST_APPLY, UPDATE), set(paths), now)
    return owners
