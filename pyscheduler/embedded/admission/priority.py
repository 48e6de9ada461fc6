"""The admission plugin Priority: the PriorityClass of pods and PodGroups gives their priority."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from pyscheduler.embedded.objects import Json
from pyscheduler.embedded.resources import Lookup
from pyscheduler.embedded.status import forbidden

PRIORITY_CLASSES = "priorityclasses.scheduling.k8s.io"


def set_priority(obj: Json, lookup: Lookup, plural: str, group: str, mismatch: str) -> Mapping[str, Any]:
    """Set class name and priority in the spec; return the PriorityClass, empty if there is none.

    `mismatch` is the message for another priority in the spec, with `{given}` and `{computed}`. ApiError 403 for it,
    and for a class that does not exist.
    """
    spec, own_name = obj["spec"], obj["metadata"].get("name", "")
    name = spec.get("priorityClassName", "")
    found = lookup.get(PRIORITY_CLASSES, ("", name)) if name else None
    if name and found is None:
        raise forbidden(plural, group, own_name, f"no PriorityClass with name {name} was found")
    chosen = found.object if found else _global_default(lookup)
    computed = chosen.get("value", 0)
    if spec.get("priority", computed) != computed:
        raise forbidden(plural, group, own_name, mismatch.format(given=spec["priority"], computed=computed))
    if chosen and not name:
        spec["priorityClassName"] = chosen["metadata"]["name"]
    spec["priority"] = computed
    return chosen


def _global_default(lookup: Lookup) -> Mapping[str, Any]:
    """Return the global default with the smallest value."""
    defaults = [v.object for v in lookup.scan(PRIORITY_CLASSES) if v.object.get("globalDefault")]
    return min(defaults, key=lambda item: item.get("value", 0), default={})
