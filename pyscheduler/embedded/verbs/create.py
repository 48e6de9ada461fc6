"""Create: set name, uid and defaults of a new object, validate it, and store it."""

from __future__ import annotations

from typing import Any

from pyscheduler.embedded.admission.meta import check_meta
from pyscheduler.embedded.history import Version
from pyscheduler.embedded.objects import Json, key_of
from pyscheduler.embedded.patch.managed import set_initial_managers
from pyscheduler.embedded.resources import Resource
from pyscheduler.embedded.schema.typecheck import schema_of
from pyscheduler.embedded.server_state import ServerState, WriteOptions
from pyscheduler.embedded.status import already_exists, bad_request, invalid
from pyscheduler.embedded.verbs.request_body import decode_body, place

_NOT_FOR_CLIENTS = ("resourceVersion", "uid", "deletionTimestamp", "deletionGracePeriodSeconds", "selfLink")
_NAME_TRIES = 8


def create(state: ServerState, resource: Resource, namespace: str, body: Any, options: WriteOptions) -> Version:
    """Store a new object. ApiError if it is invalid or its name is in use."""
    obj = decode_body(resource, body, options)
    if resource.to_stored:
        obj = resource.to_stored(obj)
    if obj["metadata"].get("resourceVersion"):
        raise bad_request("resourceVersion should not be set on objects to be created")
    place(state, resource, namespace, obj)
    if options.manager and "managedFields" not in obj["metadata"]:
        schema = schema_of(resource) if resource.to_stored is None else None
        set_initial_managers(obj, schema, options.manager, state.timestamp())
    prepare(state, resource, obj)
    if state.store.get(resource.bucket, key_of(obj)) is not None:
        raise already_exists(resource.plural, resource.group, obj["metadata"]["name"])
    state.quotas.admit(resource, obj)
    if options.dry_run:
        return Version(key_of(obj), obj, 0)
    return state.store.put(resource.bucket, key_of(obj), obj)


def prepare(state: ServerState, resource: Resource, obj: Json) -> None:
    """Set all fields that the server sets on a new object, in place, and validate it."""
    meta = obj["metadata"]
    for field in _NOT_FOR_CLIENTS:
        meta.pop(field, None)
    if not meta.get("name") and meta.get("generateName"):
        meta["name"] = _generated(state, resource, meta)
    meta["uid"] = state.new_uid()
    meta["creationTimestamp"] = state.timestamp()
    if resource.generation:
        meta["generation"] = 1
    else:
        meta.pop("generation", None)
    if resource.has_status and not resource.starts_with_status:
        obj.pop("status", None)
        if not resource.custom:
            obj["status"] = {}
    stored = state.registry.stored_in(resource.bucket)
    stored.rules.default(obj, state.store)
    causes = check_meta(resource, obj)
    if not causes:
        stored.rules.on_create(obj, state.store)
        causes = stored.rules.check(obj)
    if causes:
        raise invalid(resource.kind, resource.group, meta.get("name") or meta.get("generateName") or "", causes)


def _generated(state: ServerState, resource: Resource, meta: Json) -> str:
    """Return an unused name; as in Kubernetes the prefix is truncated to leave room for the suffix."""
    prefix = meta["generateName"][:58] if resource.rules.name_form == "label" else meta["generateName"][:248]
    for _ in range(_NAME_TRIES):
        name = prefix + state.new_suffix()
        if state.store.get(resource.bucket, (meta.get("namespace") or "", name)) is None:
            break
    return str(name)
