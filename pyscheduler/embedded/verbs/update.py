"""Update: replace an object under optimistic concurrency, or its status through the subresource."""

from __future__ import annotations

from typing import Any

from pyscheduler.embedded.admission.meta import check_meta, check_meta_change
from pyscheduler.embedded.history import Version
from pyscheduler.embedded.objects import Json
from pyscheduler.embedded.patch.managed import is_tracked, record_status_update, record_update
from pyscheduler.embedded.resources import Resource
from pyscheduler.embedded.schema.typecheck import schema_of
from pyscheduler.embedded.server_state import ServerState, WriteOptions
from pyscheduler.embedded.status import (
    Cause,
    bad_request,
    conflict,
    invalid,
    invalid_value,
    not_found,
)
from pyscheduler.embedded.verbs.create import create
from pyscheduler.embedded.verbs.request_body import decode_body

_SYSTEM_FIELDS = ("uid", "creationTimestamp", "deletionTimestamp", "deletionGracePeriodSeconds", "generation")
_STALE = "the object has been modified; please apply your changes to the latest version and try again"


def find(state: ServerState, resource: Resource, namespace: str, name: str) -> Version:
    """Return the current version of an object. ApiError 404 if it does not exist."""
    version = state.store.get(resource.bucket, (namespace if resource.namespaced else "", name))
    if version is None:
        raise not_found(resource.plural, resource.group, name)
    return version


def update(
    state: ServerState,
    resource: Resource,
    where: tuple[str, str, str],
    body: Any,
    options: WriteOptions,
) -> tuple[Version, bool]:
    """Replace the object at `where` (namespace, name, subresource "" or "status"); True if it was created."""
    namespace, name, subresource = where
    key = (namespace if resource.namespaced else "", name)
    old = state.store.get(resource.bucket, key)
    if old is None and resource.create_on_update and not subresource:
        if isinstance(body, dict) and isinstance(body.get("metadata"), dict):
            body["metadata"].setdefault("name", name)
        return create(state, resource, namespace, body, options), True
    if old is None:
        raise not_found(resource.plural, resource.group, name)
    obj = decode_body(resource, body, options)
    if resource.to_stored:
        obj = resource.to_stored(obj)
    _check_identity(resource, obj, old.object, key)
    return replace(state, resource, old, obj, (subresource, options)), False


def _check_identity(resource: Resource, obj: Json, old: Json, key: tuple[str, str]) -> None:
    meta, before = obj["metadata"], old["metadata"]
    if meta.setdefault("name", key[1]) != key[1]:
        raise bad_request(f"the name of the object ({meta['name']}) does not match the name on the URL ({key[1]})")
    if key[0] and meta.setdefault("namespace", key[0]) != key[0]:
        raise bad_request("the namespace of the provided object does not match the namespace sent on the request")
    revision = meta.get("resourceVersion") or ""
    if not revision and not resource.unconditional_update:
        cause = invalid_value("metadata.resourceVersion", 0, "must be specified for an update")
        raise invalid(resource.kind, resource.group, key[1], [cause])
    if meta.get("uid", before["uid"]) != before["uid"]:
        why = f"Precondition failed: UID in precondition: {meta['uid']}, UID in object meta: {before['uid']}"
        raise conflict(resource.plural, resource.group, key[1], why)
    if revision and revision != before["resourceVersion"]:
        raise conflict(resource.plural, resource.group, key[1], _STALE)


def replace(state: ServerState, resource: Resource, old: Version, obj: Json, how: tuple[str, WriteOptions]) -> Version:
    """Store `obj` (stored form, modified in place) instead of `old`; `how` is (subresource, options)."""
    subresource, options = how
    obj["metadata"] = meta = dict(obj["metadata"])
    for field in _SYSTEM_FIELDS:
        if field in old.object["metadata"]:
            meta[field] = old.object["metadata"][field]
        else:
            meta.pop(field, None)
    if "managedFields" not in meta and "managedFields" in old.object["metadata"]:
        meta["managedFields"] = old.object["metadata"]["managedFields"]
    merged = (
        _status_part(resource, obj, old.object) if subresource == "status" else _main_part(resource, obj, old.object)
    )
    causes = _admit(state, resource, merged, old.object, subresource)
    if causes:
        raise invalid(resource.kind, resource.group, meta["name"], causes)
    if _changes_generation(resource, merged, old.object):
        merged["metadata"]["generation"] = old.object["metadata"].get("generation", 0) + 1
    if subresource in ("", "status") and (options.manager or is_tracked(meta, subresource)):
        record = record_status_update if subresource else record_update
        record(merged, old.object, schema_of(resource), options.manager or "unknown", state.timestamp())
    return store(state, resource, old, merged, options)


def _main_part(resource: Resource, obj: Json, old: Json) -> Json:
    if not resource.has_status:
        return obj
    status = {"status": old["status"]} if "status" in old else {}
    return {**{name: part for name, part in obj.items() if name != "status"}, **status}


def _status_part(resource: Resource, obj: Json, old: Json) -> Json:
    """Return `old` with the new status and, for a built-in kind, the new metadata (labels, annotations, finalizers)."""
    meta = dict(old["metadata"]) if resource.custom else obj["metadata"]
    return {**old, "metadata": meta, "status": obj.get("status") or {}}


def _admit(state: ServerState, resource: Resource, obj: Json, old: Json, subresource: str) -> list[Cause]:
    rules = state.registry.stored_in(resource.bucket).rules
    if subresource == "status":
        rules.on_status(obj, state.store)
        return (rules.check(obj) if resource.custom else []) or rules.check_status_change(obj, old)
    rules.on_update(obj, old, state.store)
    rules.default(obj, state.store)
    causes = check_meta(resource, obj) + check_meta_change(obj, old)
    return causes or rules.check(obj) or rules.check_change(obj, old)


def _changes_generation(resource: Resource, new: Json, old: Json) -> bool:
    if not resource.generation:
        return False
    if resource.spec_parts:
        return any(new.get(part) != old.get(part) for part in resource.spec_parts)
    ignored = {"metadata", "apiVersion", "kind"} | ({"status"} if resource.has_status else set())
    return any(new.get(part) != old.get(part) for part in (new.keys() | old.keys()) - ignored)


def store(state: ServerState, resource: Resource, old: Version, obj: Json, options: WriteOptions) -> Version:
    """Store a new state; an object in deletion is removed with its last finalizer."""
    meta = obj["metadata"]
    if options.dry_run:
        return Version(old.key, obj, old.revision)
    version = state.store.put(resource.bucket, old.key, obj)
    waiting = "deletionTimestamp" in meta and not meta.get("finalizers") and not meta.get("deletionGracePeriodSeconds")
    if waiting and resource.bucket != "namespaces":
        return state.store.remove(resource.bucket, old.key)
    return version
