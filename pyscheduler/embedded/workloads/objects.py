"""Properties of objects as plain JSON: owner, phase, activity, readiness, availability, conditions."""

from __future__ import annotations

from collections.abc import Iterable

from pyscheduler.embedded.objects import Json, Key, condition, owners_of, seconds, timestamp
from pyscheduler.kube.conditions import merge_condition


def key_of(obj: Json) -> Key:
    """Return namespace and name."""
    meta = obj["metadata"]
    return meta.get("namespace", ""), meta["name"]


def uid_of(obj: Json) -> str:
    """Return metadata.uid."""
    return str(obj["metadata"]["uid"])


def controller_uid(obj: Json) -> str:
    """Return the uid of the controller that owns the object, "" if there is none."""
    return next((str(owner["uid"]) for owner in owners_of(obj) if owner.get("controller")), "")


def owned_by(owner: Json, kind: str, api_version: str) -> Json:
    """Return the ownerReference for objects that `owner` creates."""
    return {
        "apiVersion": api_version,
        "kind": kind,
        "name": owner["metadata"]["name"],
        "uid": uid_of(owner),
        "controller": True,
        "blockOwnerDeletion": True,
    }


def is_deleting(obj: Json) -> bool:
    """Return True if a deletionTimestamp is set."""
    return bool(obj["metadata"].get("deletionTimestamp"))


def phase(pod: Json) -> str:
    """Return status.phase, "" if there is none yet."""
    return str((pod.get("status") or {}).get("phase", ""))


def is_active(pod: Json) -> bool:
    """Return True if the pod is neither finished nor being deleted."""
    return phase(pod) not in ("Succeeded", "Failed") and not is_deleting(pod)


def is_ready(pod: Json) -> bool:
    """Return True if the Ready condition is True."""
    return condition(pod, "Ready").get("status") == "True"


def available_at(pod: Json, min_ready_seconds: int) -> float | None:
    """Return when the pod becomes available (possibly in the past); None if it is not ready."""
    if not is_ready(pod):
        return None
    return (seconds(condition(pod, "Ready").get("lastTransitionTime")) or 0.0) + min_ready_seconds


def replicas_of(obj: Json) -> int:
    """Return spec.replicas, 1 if it is not set."""
    wanted = obj["spec"].get("replicas")
    return 1 if wanted is None else int(wanted)


def status_number(obj: Json, name: str) -> int:
    """Return a count in the status, 0 if it is not set."""
    return int((obj.get("status") or {}).get(name) or 0)


def with_condition(conditions: Iterable[Json], kind: str, status: bool, now: float, **text: str) -> list[Json]:
    """Return the conditions with one set. lastTransitionTime changes only if the status changes."""
    return merge_condition(conditions, {"type": kind, "status": str(status), **text}, timestamp(now))


def pod_from_template(owner: Json, owner_reference: Json, template: Json) -> Json:
    """Return a pod of a controller's template; the server completes its name."""
    meta = template.get("metadata") or {}
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {
            "generateName": f"{owner['metadata']['name']}-",
            "namespace": owner["metadata"]["namespace"],
            "labels": dict(meta.get("labels") or {}),
            "annotations": dict(meta.get("annotations") or {}),
            "ownerReferences": [owner_reference],
        },
        "spec": template["spec"],
    }
