"""Type checks of request bodies, so that all later code can rely on the types of an object's fields."""

from __future__ import annotations

import re
from functools import cache
from typing import Any

import msgspec

from pyscheduler.embedded.objects import Json
from pyscheduler.embedded.resources import Resource
from pyscheduler.embedded.schema.models import tree, typed
from pyscheduler.embedded.schema.nodes import Node
from pyscheduler.embedded.schema.published import OBJECT_META, definition_name
from pyscheduler.embedded.status import ApiStatusError, bad_request

_WHERE = re.compile(r"(?P<what>.*?) - at `\$(?P<path>.*)`\Z", re.DOTALL)


def schema_of(resource: Resource) -> Node:
    """Return the schema tree of a resource: its own, or the published one of its kind."""
    if resource.schema is not None:
        return resource.schema
    return tree(definition_name(resource.group, resource.version, resource.kind))


@cache
def _metadata_only() -> Any:
    return msgspec.defstruct("MetadataOnly", [("metadata", typed(OBJECT_META) | None, None)])


def check_types(resource: Resource, obj: Json) -> None:
    """Raise ApiStatusError 400 with the path if `obj` has a value of the wrong type."""
    wanted = Any if resource.custom else typed(definition_name(resource.group, resource.version, resource.kind))
    try:
        msgspec.convert(obj, type=_metadata_only() if wanted is Any else wanted)
    except msgspec.ValidationError as error:
        raise _type_error(resource, str(error)) from None


def _type_error(resource: Resource, text: str) -> ApiStatusError:
    found = _WHERE.match(text)
    path, what = (found["path"].lstrip("."), found["what"]) if found else ("", text)
    what = what.replace(" | null", "").replace("`", "").lower()
    where = f"{path}: {what}" if path else what
    return bad_request(
        f'{resource.kind} in version "{resource.version}" cannot be handled as a {resource.kind}: {where}'
    )
