"""Delete: at once, after a grace period, or when finalizers are removed; with preconditions and propagation."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from pyscheduler.embedded.gc import FOREGROUND
from pyscheduler.embedded.history import Version
from pyscheduler.embedded.objects import Json, owners_of, timestamp
from pyscheduler.embedded.resources import Resource
from pyscheduler.embedded.server_state import DeleteOptions, ServerState
from pyscheduler.embedded.status import bad_request, conflict, forbidden
from pyscheduler.embedded.verbs.update import find

_IMMORTAL = ("default", "kube-system", "kube-public")
_PROPAGATIONS = ("Background", "Foreground", "Orphan")


def delete_options(body: Any, query: Mapping[str, str], *, dry_run: bool = False) -> DeleteOptions:
    """Return the options in the body of a DELETE request or else in its query. ApiError 400 if they are invalid."""
    given: Mapping[str, Any] = body if isinstance(body, dict) else {}
    grace = given.get("gracePeriodSeconds", query.get("gracePeriodSeconds"))
    propagation = given.get("propagationPolicy") or query.get("propagationPolicy") or ""
    if not propagation and given.get("orphanDependents") is not None:
        propagation = "Orphan" if given["orphanDependents"] else "Background"
    if propagation and propagation not in _PROPAGATIONS:
        raise bad_request(f"propagationPolicy {propagation!r} is not one of {', '.join(_PROPAGATIONS)}")
    conditions = given.get("preconditions") or {}
    if not isinstance(conditions, dict):
        raise bad_request("preconditions is not an object")
    try:
        seconds = None if grace is None else int(grace)
    except (TypeError, ValueError):
        raise bad_request(f"gracePeriodSeconds {grace!r} is not a number of seconds") from None
    return DeleteOptions(
        dry_run=dry_run or bool(given.get("dryRun")),
        grace_seconds=seconds,
        propagation=propagation or "Background",
        uid=conditions.get("uid") or "",
        resource_version=conditions.get("resourceVersion") or "",
    )


def delete(
    state: ServerState, resource: Resource, namespace: str, name: str, options: DeleteOptions
) -> tuple[Version, bool]:
    """Delete an object; return its remaining or last version, and True if the object is gone."""
    old = find(state, resource, namespace, name)
    _check_preconditions(resource, old, options)
    if resource.bucket == "namespaces" and name in _IMMORTAL:
        raise forbidden("namespaces", "", name, "this namespace may not be deleted")
    grace = _grace_seconds(resource, old.object, options)
    meta = old.object["metadata"]
    finalizers = _finalizers(state, meta, options)
    if options.dry_run:
        return old, True
    if options.propagation == "Orphan":
        _orphan(state, meta["uid"])
    if not grace and not finalizers and resource.bucket != "namespaces":
        return state.store.remove(resource.bucket, old.key), True
    return state.store.put(resource.bucket, old.key, _terminating(state, old.object, grace, finalizers)), False


def _check_preconditions(resource: Resource, old: Version, options: DeleteOptions) -> None:
    meta = old.object["metadata"]
    for field, wanted in (("uid", options.uid), ("resourceVersion", options.resource_version)):
        if wanted and wanted != meta[field]:
            word = "UID" if field == "uid" else "ResourceVersion"
            why = f"the {word} in the precondition ({wanted}) does not match the {word} in record ({meta[field]})"
            raise conflict(resource.plural, resource.group, meta["name"], why)


def _grace_seconds(resource: Resource, obj: Json, options: DeleteOptions) -> int:
    """Return the grace period: 0 except for pods that a kubelet has to stop."""
    if resource.group_resource != "pods" or "nodeName" not in obj["spec"]:
        return 0
    if (obj.get("status") or {}).get("phase") in {"Succeeded", "Failed"}:
        return 0
    wanted = options.grace_seconds
    if wanted is None:
        wanted = obj["spec"].get("terminationGracePeriodSeconds", 30)
    wanted = 1 if wanted < 0 else int(wanted)
    under_way = obj["metadata"].get("deletionGracePeriodSeconds")
    return wanted if under_way is None else min(wanted, under_way)


def _finalizers(state: ServerState, meta: Json, options: DeleteOptions) -> list[str]:
    finalizers = [f for f in meta.get("finalizers") or () if f != FOREGROUND]
    if options.propagation == "Foreground" and state.garbage.dependents(meta["uid"]):
        return [*finalizers, FOREGROUND]
    return finalizers


def _terminating(state: ServerState, obj: Json, grace: int, finalizers: list[str]) -> Json:
    """Return `obj` with deletionTimestamp, grace period and finalizers set."""
    meta = dict(obj["metadata"])
    due = timestamp(state.now() + grace)
    meta["deletionTimestamp"] = min(due, meta.get("deletionTimestamp", due))
    if "deletionTimestamp" not in obj["metadata"] and "generation" in meta:
        meta["generation"] += 1
    meta["deletionGracePeriodSeconds"] = grace
    if finalizers:
        meta["finalizers"] = finalizers
    else:
        meta.pop("finalizers", None)
    terminating = {**obj, "metadata": meta}
    if obj["kind"] == "Namespace":
        terminating["status"] = {**(obj.get("status") or {}), "phase": "Terminating"}
    return terminating


def _orphan(state: ServerState, uid: str) -> None:
    """Remove the owner reference from dependents, so that they are not garbage-collected."""
    for bucket, key in state.garbage.dependents(uid):
        version = state.store.get(bucket, key)
        if version is not None:
            left = [owner for owner in owners_of(version.object) if owner.get("uid") != uid]
            meta = {name: part for name, part in version.object["metadata"].items() if name != "ownerReferences"}
            state.store.put(
                bucket, key, {**version.object, "metadata": meta | ({"ownerReferences": left} if left else {})}
            )


def remove_finalizer(state: ServerState, bucket: str, key: tuple[str, str], finalizer: str) -> None:
    """Remove one finalizer from an object; an object that is being deleted is removed with its last finalizer."""
    version = state.store.get(bucket, key)
    if version is None:
        return
    meta = dict(version.object["metadata"])
    left = [name for name in meta.pop("finalizers", None) or () if name != finalizer]
    if left:
        meta["finalizers"] = left
    state.store.put(bucket, key, {**version.object, "metadata": meta})
    if not left and "deletionTimestamp" in meta and not meta.get("deletionGracePeriodSeconds"):
        state.store.remove(bucket, key)
