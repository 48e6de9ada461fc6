"""Scale subresource: spec.replicas of a workload under one API for all kinds that have it."""

from __future__ import annotations

from typing import Any

from pyscheduler.embedded.history import Version
from pyscheduler.embedded.objects import Json, dig
from pyscheduler.embedded.resources import Resource
from pyscheduler.embedded.server_state import ServerState, WriteOptions
from pyscheduler.embedded.status import bad_request, conflict, invalid, invalid_value
from pyscheduler.embedded.verbs.patch import fresh
from pyscheduler.embedded.verbs.update import find, replace


def scale_of(resource: Resource, version: Version) -> Json:
    """Return the autoscaling/v1 Scale of a workload."""
    obj = version.object
    meta = {
        name: obj["metadata"][name] for name in ("name", "namespace", "uid", "resourceVersion", "creationTimestamp")
    }
    paths = resource.scale
    status = {"replicas": _at(obj, paths.status_replicas) or 0}
    if resource.custom:
        status |= {"selector": _at(obj, paths.selector)} if paths.selector and _at(obj, paths.selector) else {}
    else:
        status["selector"] = selector_text(dig(obj, "spec", "selector"))
    replicas = _at(obj, paths.replicas) or 0
    return {
        "kind": "Scale",
        "apiVersion": "autoscaling/v1",
        "metadata": meta,
        "spec": {"replicas": replicas} if replicas else {},  # omitempty
        "status": status,
    }


def _at(obj: Json, path: str) -> Any:
    return dig(obj, *path.split("."))


def selector_text(selector: Json | None) -> str:
    """Format a label selector as kubectl and Scale objects do."""
    if not selector:
        return ""
    named = selector.get("matchLabels") or ({} if "matchExpressions" in selector else selector)
    terms = [f"{key}={value}" for key, value in sorted(named.items())]
    for item in selector.get("matchExpressions") or ():
        key, operator, values = item["key"], item["operator"], ",".join(sorted(item.get("values") or ()))
        forms = {"Exists": key, "DoesNotExist": f"!{key}"}
        terms.append(forms.get(operator) or f"{key} {operator.lower()} ({values})")
    return ",".join(terms)


def update_scale(
    state: ServerState, resource: Resource, where: tuple[str, str], scale: Any, options: WriteOptions
) -> Version:
    """Set the replicas of the workload at `where` (namespace, name). ApiError if `scale` is invalid."""
    old = find(state, resource, *where)
    replicas = dig(scale, "spec", "replicas")
    if replicas is None:
        replicas = 0
    if isinstance(replicas, bool) or not isinstance(replicas, int):
        raise bad_request(f"spec.replicas {replicas!r} is not a number")
    if replicas < 0:
        cause = invalid_value("spec.replicas", replicas, "must be greater than or equal to 0")
        raise invalid("Scale", "autoscaling", where[1], [cause])
    revision = dig(scale, "metadata", "resourceVersion")
    if revision and revision != old.object["metadata"]["resourceVersion"]:
        why = "the object has been modified; please apply your changes to the latest version and try again"
        raise conflict(resource.plural, resource.group, where[1], why)
    changed = fresh(old.object)
    *parents, last = resource.scale.replicas.split(".")
    owner = changed
    for name in parents:
        owner = owner.setdefault(name, {})
    owner[last] = replicas
    return replace(state, resource, old, changed, ("", options))
