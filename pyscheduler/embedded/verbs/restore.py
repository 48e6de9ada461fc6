"""Restore: store objects of another cluster or an earlier one as they are, with uid, times and status.

Admission is left out, because the objects have passed it; types and the checks of each kind are applied.
"""

from __future__ import annotations

from typing import Final

from pyscheduler.embedded.admission.meta import check_meta
from pyscheduler.embedded.history import Version
from pyscheduler.embedded.objects import Json, key_of
from pyscheduler.embedded.resources import Resource
from pyscheduler.embedded.server_state import ServerState, WriteOptions
from pyscheduler.embedded.status import bad_request, invalid
from pyscheduler.embedded.verbs.request_body import decode_body

_AS_STORED: Final = WriteOptions(validation="Ignore")


def decode(resource: Resource, body: Json) -> Json:
    """Return an object of a file after the checks of types. ApiError 400 if one is wrong."""
    return decode_body(resource, body, _AS_STORED)


def restore(state: ServerState, resource: Resource, obj: Json) -> Version:
    """Store a decoded object, in place of an object of its name. ApiError if it is invalid."""
    if resource.to_stored:
        obj = resource.to_stored(obj)
    meta = obj["metadata"]
    if not resource.namespaced:
        meta.pop("namespace", None)
    elif not meta.get("namespace"):
        raise bad_request(f"{resource.kind} {meta.get('name', '')} has no metadata.namespace")
    meta["uid"] = meta.get("uid") or state.new_uid()
    meta["creationTimestamp"] = meta.get("creationTimestamp") or state.timestamp()
    if resource.generation:
        meta["generation"] = meta.get("generation") or 1
    if resource.has_status and not resource.custom:
        obj["status"] = obj.get("status") or {}
    stored = state.registry.stored_in(resource.bucket)
    stored.rules.default(obj, state.store)
    causes = check_meta(resource, obj) or stored.rules.check(obj)
    if causes:
        raise invalid(resource.kind, resource.group, meta.get("name") or "", causes)
    return state.store.put(resource.bucket, key_of(obj), obj)
