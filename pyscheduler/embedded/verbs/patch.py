"""Patch: apply the client's change to the current state and store the result like an update."""

from __future__ import annotations

from typing import Any

import msgspec

from pyscheduler.embedded.history import Version
from pyscheduler.embedded.objects import Json, without_nulls
from pyscheduler.embedded.patch.apply import server_side_apply
from pyscheduler.embedded.patch.fieldset import owned_leaves
from pyscheduler.embedded.patch.jsonpatch import json_patch
from pyscheduler.embedded.patch.managed import APPLY, FieldManagers
from pyscheduler.embedded.patch.merge import merge_patch
from pyscheduler.embedded.patch.strategic import strategic_patch
from pyscheduler.embedded.resources import Resource
from pyscheduler.embedded.schema.typecheck import schema_of
from pyscheduler.embedded.server_state import ServerState, WriteOptions
from pyscheduler.embedded.status import bad_request, unsupported_media_type
from pyscheduler.embedded.verbs.create import create
from pyscheduler.embedded.verbs.request_body import decode_body
from pyscheduler.embedded.verbs.update import find, update

MERGE = "application/merge-patch+json"
JSON_PATCH = "application/json-patch+json"
STRATEGIC = "application/strategic-merge-patch+json"
APPLY_YAML = "application/apply-patch+yaml"
PATCH_TYPES = (JSON_PATCH, MERGE, STRATEGIC, APPLY_YAML)


def patch(
    state: ServerState,
    resource: Resource,
    where: tuple[str, str, str],
    change: tuple[str, Any],
    options: WriteOptions,
) -> tuple[Version, bool]:
    """Patch the object at `where` (namespace, name, subresource) with `change` (media type, body)."""
    media_type, body = change
    if media_type == APPLY_YAML:
        return apply(state, resource, where, body, options)
    old = find(state, resource, where[0], where[1])
    present = resource.from_stored(old.object) if resource.from_stored else old.object
    patched = _patched(resource, present, media_type, body)
    if media_type == JSON_PATCH or not where[2]:
        patched = without_nulls(fresh(patched))
    return update(state, resource, where, patched, options)


def _patched(resource: Resource, present: Json, media_type: str, body: Any) -> Any:
    if media_type == MERGE:
        if not isinstance(body, dict):
            raise bad_request("a merge patch must be an object")
        return merge_patch(present, body)
    if media_type == JSON_PATCH:
        return json_patch(present, body)
    if media_type == STRATEGIC and not resource.custom:
        return strategic_patch(present, body, schema_of(resource))
    supported = [one for one in PATCH_TYPES if not (resource.custom and one == STRATEGIC)]
    raise unsupported_media_type(supported)


def fresh(obj: Any) -> Any:
    """Return a deep copy, which defaulting may modify."""
    return msgspec.json.decode(msgspec.json.encode(obj))


def apply(
    state: ServerState, resource: Resource, where: tuple[str, str, str], config: Any, options: WriteOptions
) -> tuple[Version, bool]:
    """Apply `config` server-side; create the object if it does not exist."""
    namespace, name, subresource = where
    if not options.manager:
        raise bad_request("fieldManager is required for apply patch")
    config = decode_body(resource, without_nulls(config), options)
    meta = config["metadata"]
    if meta.get("managedFields"):
        raise bad_request("metadata.managedFields must be nil")
    meta.setdefault("name", name)
    old = state.store.get(resource.bucket, (namespace if resource.namespaced else "", name))
    schema = schema_of(resource)
    if old is None:
        owners = FieldManagers([])
        owners.take((options.manager, APPLY), set(owned_leaves(config, schema)), state.timestamp())
        meta["managedFields"] = owners.entries(resource.api_version)
        return create(state, resource, namespace, config, options), True
    present = resource.from_stored(old.object) if resource.from_stored else old.object
    if subresource == "status":
        merged = merge_patch(present, {"status": config.get("status") or {}})
    else:
        applied = {part: value for part, value in config.items() if part != "status" or not resource.has_status}
        merged = server_side_apply(present, applied, schema, options.manager, (options.force, state.timestamp()))
    return update(state, resource, where, without_nulls(fresh(merged)), options)
