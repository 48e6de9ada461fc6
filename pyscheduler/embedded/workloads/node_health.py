"""Node health as pure functions: conditions, taints and evictions of nodes without heartbeat.

As in kube-controller-manager, a node without heartbeat gets Ready=Unknown and the unreachable taints, and its pods are
marked not ready; NoExecute taints evict pods that do not tolerate them (any more). The API server gives pods a
toleration of 300 seconds for lost nodes, which is how long they stay by default. Not implemented: rate limits on
eviction when a whole zone is lost.
"""

from __future__ import annotations

import math
from typing import Any

from pyscheduler.embedded.objects import Json, condition, seconds, timestamp
from pyscheduler.embedded.workloads.actions import Action, Delete, Patch
from pyscheduler.embedded.workloads.objects import is_deleting, is_ready, key_of, phase, uid_of
from pyscheduler.kube.paths import NODES, PODS

UNREACHABLE, NOT_READY = "node.kubernetes.io/unreachable", "node.kubernetes.io/not-ready"
UNSCHEDULABLE = "node.kubernetes.io/unschedulable"
_BY_TAINT = ("DeletionByTaintManager", "Taint manager: deleting due to NoExecute taint")
_BY_GC = ("DeletionByPodGC", "PodGC: node no longer exists")
_MANAGED = (UNREACHABLE, NOT_READY, UNSCHEDULABLE)
_CONDITIONS = ("Ready", "MemoryPressure", "DiskPressure", "PIDPressure")


def mark_node_unknown(node: Json, now: float) -> list[Action]:
    """Set the conditions of a node to Unknown; no action if they are already."""
    if condition(node, "Ready").get("status") == "Unknown":
        return []
    words = {
        "status": "Unknown",
        "reason": "NodeStatusUnknown",
        "message": "Kubelet stopped posting node status.",
        "lastTransitionTime": timestamp(now),
    }
    conditions = [{"type": kind, **words} for kind in _CONDITIONS]
    return [Patch(NODES, key_of(node), {"status": {"conditions": conditions}}, "status", "strategic-merge")]


def set_taints(node: Json, now: float) -> list[Action]:
    """Set the node's taints by its Ready condition and spec.unschedulable; other taints are preserved."""
    present = node["spec"].get("taints") or []
    wanted = _wanted_taints(node)
    remaining = [t for t in present if t["key"] not in _MANAGED or (t["key"], t["effect"]) in wanted]
    existing = {(t["key"], t["effect"]) for t in remaining}
    added = [_taint(key, effect, now) for key, effect in wanted if (key, effect) not in existing]
    if not added and len(remaining) == len(present):
        return []
    version = node["metadata"].get("resourceVersion", "")
    # resourceVersion is a precondition: another client may be adding a taint at the same time.
    patch = {"metadata": {"resourceVersion": version}, "spec": {"taints": remaining + added or None}}
    return [Patch(NODES, key_of(node), patch)]


def evict(node: Json, pods: list[Json], now: float) -> tuple[list[Action], float]:
    """Evict pods that do not tolerate the node's NoExecute taints; return the time of the next eviction too."""
    actions: list[Action] = []
    next_eviction = math.inf
    for pod in pods:
        if is_deleting(pod):
            continue
        at = evicted_at(node, pod)
        if at <= now:
            actions.append(Delete(PODS, key_of(pod), uid_of(pod), pre_patch=_disrupted(pod, *_BY_TAINT, now)))
        else:
            next_eviction = min(next_eviction, at)
    return actions, next_eviction


def force_delete_pod(pod: Json, now: float) -> Delete:
    """Return the force deletion of a pod on a deleted node, marked as Failed before (as podgc does)."""
    marked = None if phase(pod) in ("Succeeded", "Failed") else _disrupted(pod, *_BY_GC, now, phase="Failed")
    return Delete(PODS, key_of(pod), uid_of(pod), grace_seconds=0, pre_patch=marked)


def _disrupted(pod: Json, reason: str, message: str, now: float, **status: str) -> Patch:
    """Return a DisruptionTarget condition for the pod, which podFailurePolicy may ignore."""
    condition = {"type": "DisruptionTarget", "status": "True", "reason": reason, "message": message}
    stamped = condition | {"lastTransitionTime": timestamp(now)}
    patch = {"metadata": {"uid": uid_of(pod)}, "status": {**status, "conditions": [stamped]}}
    return Patch(PODS, key_of(pod), patch, "status", "strategic-merge")


def evicted_at(node: Json, pod: Json) -> float:
    """Return when the pod must be evicted: -math.inf for at once, math.inf for never.

    Of several tolerations of one taint the shortest counts; one taint without toleration is enough.
    """
    earliest = math.inf
    for taint in node["spec"].get("taints") or ():
        if taint["effect"] != "NoExecute":
            continue
        matching = [t for t in pod["spec"].get("tolerations") or () if _tolerates(t, taint)]
        if not matching:
            return -math.inf
        limits = [t["tolerationSeconds"] for t in matching if t.get("tolerationSeconds") is not None]
        if limits:
            earliest = min(earliest, (seconds(taint.get("timeAdded")) or 0.0) + max(0, min(limits)))
    return earliest


def mark_not_ready(node: Json, pods: list[Json], now: float) -> list[Action]:
    """Set running pods on a node that is not ready to not ready: their kubelet no longer reports."""
    if condition(node, "Ready").get("status") == "True":
        return []
    lost = [pod for pod in pods if is_ready(pod) and phase(pod) == "Running"]
    conditions = [{"type": "Ready", "status": "False", "lastTransitionTime": timestamp(now)}]
    patch: dict[str, Any] = {"status": {"conditions": conditions}}
    return [
        Patch(PODS, key_of(pod), {"metadata": {"uid": uid_of(pod)}, **patch}, "status", "strategic-merge")
        for pod in lost
    ]


def _wanted_taints(node: Json) -> list[tuple[str, str]]:
    wanted = [(UNSCHEDULABLE, "NoSchedule")] if node["spec"].get("unschedulable") else []
    ready = condition(node, "Ready").get("status")
    if ready == "True":
        return wanted
    key = NOT_READY if ready == "False" else UNREACHABLE
    return [*wanted, (key, "NoSchedule"), (key, "NoExecute")]


def _taint(key: str, effect: str, now: float) -> Json:
    return {"key": key, "effect": effect, "timeAdded": timestamp(now)}


def _tolerates(toleration: Json, taint: Json) -> bool:
    if toleration.get("effect") not in (None, "", taint["effect"]):
        return False
    if toleration.get("key") not in (None, "", taint["key"]):
        return False
    exists = toleration.get("operator") == "Exists"
    return exists or (bool(toleration.get("key")) and toleration.get("value", "") == taint.get("value", ""))
