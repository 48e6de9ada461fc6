"""Update of a ResourceClaim with opaque parameters that JSON would reformat.

The API server stores parameters of drivers as the bytes that it received, sends them compact and escaped in JSON, and
compares bytes to find out if an immutable field changes. So an update in JSON is rejected if they were created with
spaces, as Python's clients do. In protobuf the bytes are preserved: new list entries are appended to the stored message
(a repeated field is concatenated), and everything else stays.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from pyscheduler.kube.protobuf import fields, head, part, raw, text
from pyscheduler.kube.protobuf_fields import (
    ObjectMetaFields,
    ResourceClaimConsumerReferenceFields,
    ResourceClaimFields,
    ResourceClaimStatusFields,
    UnknownFields,
)

KIND: Final = "ResourceClaim"
Object = Mapping[str, Any]
_Reference = ResourceClaimConsumerReferenceFields
_HEAD = head("resource.k8s.io/v1", KIND)


def extends(current: Object, body: Object) -> bool:
    """Return True if `body` is the current claim with further finalizers or consumers, and nothing else changes."""
    meta, status = _sections(current)
    new_meta, new_status = _sections(body)
    lists = ((meta, new_meta, "finalizers"), (status, new_status, "reservedFor"))
    if any(new.get(name, [])[: len(old.get(name, []))] != old.get(name, []) for old, new, name in lists):
        return False
    return _rest(current) == _rest(body)


def extended(message: bytes, body: Object) -> bytes:
    """Return the stored message with the finalizers and consumers of `body`. ValueError if it cannot be read.

    The resourceVersion is that of `body`, so that the API server rejects it if the claim has changed since.
    """
    try:
        stored = raw(message)
        known = _known(stored)
    except (IndexError, KeyError, TypeError) as problem:
        raise ValueError(f"not a ResourceClaim: {problem!r}") from None
    meta, status = _sections(body)
    finalizers = [each.encode() for each in meta.get("finalizers", []) if each.encode() not in known]
    consumers = [each for each in status.get("reservedFor", []) if each["uid"].encode() not in known]
    new_meta = text(ObjectMetaFields.RESOURCE_VERSION, meta.get("resourceVersion", "")) + b"".join(
        part(ObjectMetaFields.FINALIZERS, each) for each in finalizers
    )
    new_status = b"".join(part(ResourceClaimStatusFields.RESERVED_FOR, _reference(each)) for each in consumers)
    changed = stored + part(ResourceClaimFields.METADATA, new_meta)
    if new_status:
        changed += part(ResourceClaimFields.STATUS, new_status)
    return _HEAD + part(UnknownFields.RAW, changed)


def _known(stored: bytes) -> set[bytes]:
    """Return the finalizers and the UIDs of the consumers in a stored claim."""
    known = set()
    for section, content in fields(stored):
        if section == ResourceClaimFields.METADATA:
            known |= {value for field, value in fields(content) if field == ObjectMetaFields.FINALIZERS}
        elif section == ResourceClaimFields.STATUS:
            consumers = [value for field, value in fields(content) if field == ResourceClaimStatusFields.RESERVED_FOR]
            known |= {dict(fields(consumer)).get(_Reference.UID, b"") for consumer in consumers}
    return known


def _reference(consumer: Object) -> bytes:
    return (
        text(_Reference.API_GROUP, consumer.get("apiGroup", ""))
        + text(_Reference.RESOURCE, consumer["resource"])
        + text(_Reference.NAME, consumer["name"])
        + text(_Reference.UID, consumer["uid"])
    )


def _sections(claim: Object) -> tuple[Object, Object]:
    return claim.get("metadata") or {}, claim.get("status") or {}


def _rest(claim: Object) -> Object:
    """Return what an extension preserves."""
    meta, status = _sections(claim)
    return {
        "metadata": {key: value for key, value in meta.items() if key not in ("finalizers", "managedFields")},
        "status": {key: value for key, value in status.items() if key != "reservedFor"},
        "spec": claim.get("spec"),
    }
