"""ReplicaSet and ReplicationController controller: spec.replicas active pods, and their counts in the status.

Not implemented: adoption and release of pods by label (it manages only pods that it created), slow-start
batches.
"""

from __future__ import annotations

import math

from pyscheduler.embedded.client import REPLICASETS
from pyscheduler.embedded.client.kinds import REPLICATION_CONTROLLERS
from pyscheduler.embedded.objects import Json, condition, seconds
from pyscheduler.embedded.workloads.actions import Action, Create, Delete, Plan, status_patch
from pyscheduler.embedded.workloads.objects import (
    available_at,
    is_active,
    is_deleting,
    is_ready,
    key_of,
    owned_by,
    phase,
    pod_from_template,
    replicas_of,
    uid_of,
    with_condition,
)
from pyscheduler.kube.paths import PODS

REPLICA_FAILURE = "ReplicaFailure"
DELETION_COST = "controller.kubernetes.io/pod-deletion-cost"
MAX_POD_CHANGES_PER_SYNC = 500
"""Pods created or deleted in one sync; their events lead to the next one."""
_PHASES = {"Pending": 0, "": 0, "Unknown": 1, "Running": 2}

_RESOURCES = {each.kind: each for each in (REPLICASETS, REPLICATION_CONTROLLERS)}

Rank = tuple[bool, int, bool, int, int, float, float]


def reconcile(replica_set: Json, pods: list[Json], now: float, failure: str = "") -> Plan:
    """Return the actions for a ReplicaSet or ReplicationController that owns `pods`.

    `failure` is the error of a pod that could not be created.
    """
    active = [pod for pod in pods if is_active(pod)]
    actions: list[Action] = []
    if not is_deleting(replica_set):
        actions += _scale(replica_set, active)
    min_ready = int(replica_set["spec"].get("minReadySeconds") or 0)
    since = [at for at in (available_at(pod, min_ready) for pod in active) if at is not None]
    resource = _RESOURCES[replica_set["kind"]]
    status = _status(replica_set, active, sum(at <= now for at in since))
    actions += status_patch(resource, replica_set, status | {"conditions": _conditions(replica_set, failure, now)})
    return Plan(actions, min((at for at in since if at > now), default=math.inf))


def _scale(replica_set: Json, active: list[Json]) -> list[Action]:
    missing = replicas_of(replica_set) - len(active)
    if missing >= 0:
        return [
            Create(PODS, _pod(replica_set), failure_object=replica_set)
            for _ in range(min(missing, MAX_POD_CHANGES_PER_SYNC))
        ]
    surplus = deletion_order(active)[: min(-missing, MAX_POD_CHANGES_PER_SYNC)]
    return [Delete(PODS, key_of(pod), uid_of(pod)) for pod in surplus]


def deletion_order(pods: list[Json]) -> list[Json]:
    """Sort pods in the order in which scaling down deletes them (kube-controller-manager's ActivePodsWithRanks).

    Unassigned before assigned, pending before running, not ready before ready, low before high deletion cost, then pods
    with more replicas on their node, recently ready before long ready, young before old.
    """
    pods_on_node: dict[str, int] = {}
    for pod in pods:
        node = pod["spec"].get("nodeName", "")
        pods_on_node[node] = pods_on_node.get(node, 0) + 1
    return sorted(pods, key=lambda pod: _rank(pod, pods_on_node))


def _rank(pod: Json, pods_on_node: dict[str, int]) -> Rank:
    node = pod["spec"].get("nodeName", "")
    ready = is_ready(pod)
    ready_since = seconds(condition(pod, "Ready").get("lastTransitionTime")) if ready else None
    return (
        bool(node),
        _PHASES.get(phase(pod), 0),
        ready,
        _deletion_cost(pod),
        -pods_on_node[node],
        -(ready_since or 0.0),
        -(seconds(pod["metadata"].get("creationTimestamp")) or 0.0),
    )


def _deletion_cost(pod: Json) -> int:
    text = (pod["metadata"].get("annotations") or {}).get(DELETION_COST, "0")
    try:
        return int(text)
    except ValueError:
        return 0


def _pod(replica_set: Json) -> Json:
    kind = replica_set["kind"]
    owner = owned_by(replica_set, kind, "apps/v1" if kind == REPLICASETS.kind else "v1")
    return pod_from_template(replica_set, owner, replica_set["spec"]["template"])


def _status(replica_set: Json, active: list[Json], available: int) -> Json:
    wanted = (replica_set["spec"]["template"].get("metadata") or {}).get("labels") or {}
    labelled = [pod for pod in active if wanted.items() <= (pod["metadata"].get("labels") or {}).items()]
    # The API omits counts of zero; null removes them and equals a missing field.
    return {
        "replicas": len(active),
        "fullyLabeledReplicas": len(labelled) or None,
        "readyReplicas": sum(is_ready(pod) for pod in active) or None,
        "availableReplicas": available or None,
        "observedGeneration": replica_set["metadata"].get("generation", 0),
    }


def _conditions(replica_set: Json, failure: str, now: float) -> list[Json] | None:
    """Return the conditions. ReplicaFailure has the first error until all pods can be created."""
    present = (replica_set.get("status") or {}).get("conditions") or []
    if not failure:
        return [each for each in present if each["type"] != REPLICA_FAILURE] or None
    if any(each["type"] == REPLICA_FAILURE for each in present):
        return list(present)
    return with_condition(present, REPLICA_FAILURE, True, now, reason="FailedCreate", message=failure)
