"""What a controller wants done: values, carried out by the driver."""

from __future__ import annotations

import math
from dataclasses import dataclass, field

from pyscheduler.embedded.client import Json, Key, Resource
from pyscheduler.embedded.client.protocol import PatchKind


@dataclass(frozen=True)
class Create:
    resource: Resource
    obj: Json
    event_object: Json | None = None
    """Whose Event is to tell of it; None for nobody's."""
    ignore_already_exists: bool = False
    """An object of that name is as good."""


@dataclass(frozen=True)
class Patch:
    resource: Resource
    key: Key
    patch: Json
    subresource: str = ""
    kind: PatchKind = "merge"


@dataclass(frozen=True)
class Delete:
    resource: Resource
    key: Key
    uid: str
    grace_seconds: int | None = None
    pre_patch: Patch | None = None
    """What the object has to say before it goes."""
    event_object: Json | None = None


@dataclass(frozen=True)
class Record:
    """An Event about `regarding`."""

    regarding: Json
    reason: str
    message: str
    kind: str = "Normal"


Action = Create | Delete | Patch | Record


@dataclass(frozen=True)
class Plan:
    """The answer of a reconcile function: what to do now, and when to look again (math.inf: when something changes)."""

    actions: list[Action] = field(default_factory=list)
    requeue_at: float = math.inf


def status_patch(resource: Resource, obj: Json, wanted: Json) -> list[Action]:
    """The patch that makes the status of `obj` say `wanted`; nothing where it says so already.

    A None in `wanted` takes the field away. Fields that `wanted` does not name are left alone.
    """
    present = obj.get("status") or {}
    changed = {name: value for name, value in wanted.items() if present.get(name) != value}
    if not changed:
        return []
    meta = obj["metadata"]
    return [Patch(resource, (meta["namespace"], meta["name"]), {"status": changed}, "status")]
