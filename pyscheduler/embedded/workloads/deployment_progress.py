"""Condition Progressing of a Deployment, and its progressDeadlineSeconds, as in kube-controller-manager."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Final

from pyscheduler.embedded.objects import Json, condition, seconds, timestamp
from pyscheduler.embedded.workloads.objects import status_number
from pyscheduler.kube.conditions import merge_condition

PROGRESSING: Final = "Progressing"
_NO_DEADLINE: Final = 2**31 - 1
"""Value of progressDeadlineSeconds that stands for none, as in the API's documentation."""
_AVAILABLE, _TIMED_OUT, _PAUSED = "NewReplicaSetAvailable", "ProgressDeadlineExceeded", "DeploymentPaused"
_SKEW: Final = 1.0
"""Seconds after the deadline until it is checked: the time of the last progress has whole seconds."""


@dataclass(frozen=True)
class Rollout:
    """State of a rollout, of which the numbers are those of the status that is about to be written."""

    replica_set: str
    """Name of the ReplicaSet of the current template."""
    is_created: bool
    """False if it does not exist yet."""
    replicas: int
    updated: int
    ready: int
    available: int
    wanted: int

    @property
    def is_complete(self) -> bool:
        """True if all pods are of the current template and available."""
        return self.updated == self.replicas == self.wanted and self.available >= self.wanted


def with_progress(deployment: Json, conditions: list[Json], rollout: Rollout, now: float) -> list[Json]:
    """Return the conditions with the one of type Progressing."""
    if _deadline(deployment) is None:
        return [each for each in conditions if each["type"] != PROGRESSING]
    before = condition({"status": {"conditions": conditions}}, PROGRESSING)
    reason = before.get("reason")
    if deployment["spec"].get("paused"):
        return conditions if reason == _PAUSED else _set(conditions, "Unknown", _PAUSED, "Deployment is paused", now)
    if reason == _PAUSED:
        return _set(conditions, "Unknown", "DeploymentResumed", "Deployment is resumed", now)
    name = f'"{rollout.replica_set}"'
    if not rollout.is_created:
        return _set(conditions, "True", "NewReplicaSetCreated", f"Created new replica set {name}", now)
    if reason == _AVAILABLE and rollout.replicas == rollout.updated:
        return conditions  # pods that fail later, or are added, do not restart the deadline
    if rollout.is_complete:
        return _set(conditions, "True", _AVAILABLE, f"ReplicaSet {name} has successfully progressed.", now)
    if not before or _has_advanced(deployment, rollout):
        return _set(conditions, "True", "ReplicaSetUpdated", f"ReplicaSet {name} is progressing.", now)
    if reason != _TIMED_OUT and ends_at(deployment, conditions) < now - _SKEW:
        return _set(conditions, "False", _TIMED_OUT, f"ReplicaSet {name} has timed out progressing.", now)
    return conditions


def check_at(deployment: Json, conditions: list[Json]) -> float:
    """Return the time at which the deadline has to be checked, math.inf for never."""
    reason = condition({"status": {"conditions": conditions}}, PROGRESSING).get("reason")
    waits = reason not in (None, _AVAILABLE, _TIMED_OUT, _PAUSED)
    return ends_at(deployment, conditions) + 2 * _SKEW if waits else math.inf


def ends_at(deployment: Json, conditions: list[Json]) -> float:
    """Return the time at which the rollout times out, math.inf for never: the deadline after the last progress."""
    deadline, last = _deadline(deployment), condition({"status": {"conditions": conditions}}, PROGRESSING)
    since = seconds(last.get("lastUpdateTime"))
    if deadline is None or since is None or last.get("reason") == _AVAILABLE:
        return math.inf
    return since + deadline


def _has_advanced(deployment: Json, rollout: Rollout) -> bool:
    """Return True if the rollout has come further than the stored status shows."""
    replicas, updated = status_number(deployment, "replicas"), status_number(deployment, "updatedReplicas")
    return (
        rollout.updated > updated
        or rollout.replicas - rollout.updated < replicas - updated
        or rollout.ready > status_number(deployment, "readyReplicas")
        or rollout.available > status_number(deployment, "availableReplicas")
    )


def _set(conditions: list[Json], status: str, reason: str, message: str, now: float) -> list[Json]:
    found = {"type": PROGRESSING, "status": status, "reason": reason, "message": message}
    return merge_condition(conditions, {**found, "lastUpdateTime": timestamp(now)}, timestamp(now))


def _deadline(deployment: Json) -> int | None:
    found = deployment["spec"].get("progressDeadlineSeconds")
    return None if found in (None, _NO_DEADLINE) else int(found)
