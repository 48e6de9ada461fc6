"""Decoding of the body of a write: checks of kind, types, unknown fields and namespace."""

from __future__ import annotations

from typing import Any

from pyscheduler.embedded.objects import Json
from pyscheduler.embedded.resources import Resource
from pyscheduler.embedded.schema.strict import unknown_fields
from pyscheduler.embedded.schema.typecheck import check_types, schema_of
from pyscheduler.embedded.server_state import ServerState, WriteOptions
from pyscheduler.embedded.status import bad_request, forbidden, not_found


def decode_body(resource: Resource, body: Any, options: WriteOptions) -> Json:
    """Return `body` as an object of `resource`, in the form of its API version. ApiError 400 if it is invalid."""
    if not isinstance(body, dict):
        raise bad_request(f"the body of the request is not an object but {type(body).__name__}")
    for field, expected, words in (
        ("apiVersion", resource.api_version, "API version"),
        ("kind", resource.kind, "kind"),
    ):
        given = body.setdefault(field, expected)
        if given != expected:
            raise bad_request(f"the {words} in the data ({given}) does not match the expected {words} ({expected})")
    if not isinstance(body.setdefault("metadata", {}), dict):
        raise bad_request("metadata is not an object")
    check_types(resource, body)
    if options.validation != "Ignore":
        _check_fields(resource, body, options)
    return body


def _check_fields(resource: Resource, body: Json, options: WriteOptions) -> None:
    unknown = [f'unknown field "{path}"' for path in unknown_fields(body, schema_of(resource))]
    if unknown and options.validation == "Strict":
        raise bad_request(
            f'{resource.kind} in version "{resource.version}" cannot be handled as a {resource.kind}: '
            f"strict decoding error: {', '.join(unknown)}"
        )
    for text in unknown:
        options.warn(text)


def place(state: ServerState, resource: Resource, namespace: str, obj: Json) -> None:
    """Set the request's namespace. ApiError if `obj` has another one or the namespace is missing or terminating."""
    meta = obj["metadata"]
    if not resource.namespaced:
        meta.pop("namespace", None)
        return
    if (meta.get("namespace") or namespace) != namespace:
        raise bad_request(
            f"the namespace of the provided object does not match the namespace sent on the request "
            f"({meta['namespace']} != {namespace})"
        )
    meta["namespace"] = namespace
    existing = state.store.get("namespaces", ("", namespace))
    if existing is None:
        raise not_found("namespaces", "", namespace)
    if "deletionTimestamp" in existing.object["metadata"]:
        why = f"unable to create new content in namespace {namespace} because it is being terminated"
        raise forbidden(resource.plural, resource.group, meta.get("name", ""), why)
