"""Actions of a controller, as values; the driver performs them."""

from __future__ import annotations

import math
from dataclasses import dataclass, field

from pyscheduler.api import ResourceKind
from pyscheduler.embedded.objects import Json, Key
from pyscheduler.kube.object_client import PatchType


@dataclass(frozen=True)
class Create:
    resource: ResourceKind
    obj: Json
    event_object: Json | None = None
    """Object of the SuccessfulCreate Event; None for no Event."""
    ignore_already_exists: bool = False
    """True if an existing object of that name is not an error."""
    failure_object: Json | None = None
    """Object of the FailedCreate Event if the API server rejects it; then the plan is performed to its end, and only
    further creations are omitted. None: a rejection aborts the plan."""
    before: tuple[Create, ...] = ()
    """Objects that are created first, one after another; if one is rejected, the rest and this one are omitted."""


@dataclass(frozen=True)
class Patch:
    resource: ResourceKind
    key: Key
    patch: Json
    subresource: str = ""
    type: PatchType = "merge"


@dataclass(frozen=True)
class Delete:
    resource: ResourceKind
    key: Key
    uid: str
    grace_seconds: int | None = None
    pre_patch: Patch | None = None
    """Patch of the object before it is deleted."""
    event_object: Json | None = None


@dataclass(frozen=True)
class RecordAction:
    """An Event about `regarding`."""

    regarding: Json
    reason: str
    message: str
    kind: str = "Normal"


Action = Create | Delete | Patch | RecordAction


@dataclass(frozen=True)
class Plan:
    """Result of a reconcile function: actions, and the time of the next reconcile (math.inf: on the next change)."""

    actions: list[Action] = field(default_factory=list)
    requeue_at: float = math.inf


def status_patch(resource: ResourceKind, obj: Json, desired: Json) -> list[Action]:
    """Return a patch that sets the fields of `desired` in the status of `obj`; empty if they are set already.

    A None in `desired` removes the field. Fields that are not in `desired` are preserved.
    """
    present = obj.get("status") or {}
    changed = {name: value for name, value in desired.items() if present.get(name) != value}
    if not changed:
        return []
    meta = obj["metadata"]
    return [Patch(resource, (meta["namespace"], meta["name"]), {"status": changed}, "status")]
