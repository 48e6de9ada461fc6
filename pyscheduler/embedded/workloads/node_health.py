"""What becomes of a node that falls silent, and of the pods on it: pure functions.

As in kube-controller-manager: silent for too long means Ready=Unknown, the unreachable taints, and pods marked not
ready; NoExecute taints evict pods that do not tolerate them (any more). The API server gives pods a toleration of 300
seconds for lost nodes, so that is how long they stay unless they say otherwise. Left out: the pace limits on eviction
when a whole zone is lost.
"""

from __future__ import annotations

import math
from typing import Any

from pyscheduler.embedded.client import NODES, PODS, Json
from pyscheduler.embedded.objects import condition, seconds, timestamp
from pyscheduler.embedded.workloads.actions import Action, Delete, Patch
from pyscheduler.embedded.workloads.objects import is_deleting, is_ready, key_of, phase, uid_of

UNREACHABLE, NOT_READY = "node.kubernetes.io/unreachable", "node.kubernetes.io/not-ready"
UNSCHEDULABLE = "node.kubernetes.io/unschedulable"
_BY_TAINT = ("DeletionByTaintManager", "Taint manager: deleting due to NoExecute taint")
_BY_GC = ("DeletionByPodGC", "PodGC: node no longer exists")
_MANAGED = (UNREACHABLE, NOT_READY, UNSCHEDULABLE)
_CONDITIONS = ("Ready", "MemoryPressure", "DiskPressure", "PIDPressure")


def mark_node_unknown(node: Json, now: float) -> list[Action]:
    """Say that nobody knows how the node is; nothing where that is said already."""
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
    """Make the node's taints follow its Ready condition and spec.unschedulable; other taints are left alone."""
    present = node["spec"].get("taints") or []
    wanted = _wanted_taints(node)
    kept = [t for t in present if t["key"] not in _MANAGED or (t["key"], t["effect"]) in wanted]
    known = {(t["key"], t["effect"]) for t in kept}
    added = [_taint(key, effect, now) for key, effect in wanted if (key, effect) not in known]
    if not added and len(kept) == len(present):
        return []
    version = node["metadata"].get("resourceVersion", "")
    # The version guards the list: somebody may be adding a taint right now.
    patch = {"metadata": {"resourceVersion": version}, "spec": {"taints": kept + added or None}}
    return [Patch(NODES, key_of(node), patch)]


def evict(node: Json, pods: list[Json], now: float) -> tuple[list[Action], float]:
    """The pods that the node's NoExecute taints drive away now, and when the next one's time is up."""
    actions: list[Action] = []
    again = math.inf
    for pod in pods:
        if is_deleting(pod):
            continue
        at = evicted_at(node, pod)
        if at <= now:
            actions.append(Delete(PODS, key_of(pod), uid_of(pod), pre_patch=_disrupted(pod, *_BY_TAINT, now)))
        else:
            again = min(again, at)
    return actions, again


def force_delete_pod(pod: Json, now: float) -> Delete:
    """Take away a pod whose node is no more: it has failed, whatever it was doing (as podgc does)."""
    marked = None if phase(pod) in ("Succeeded", "Failed") else _disrupted(pod, *_BY_GC, now, phase="Failed")
    return Delete(PODS, key_of(pod), uid_of(pod), grace_seconds=0, pre_patch=marked)


def _disrupted(pod: Json, reason: str, message: str, now: float, **status: str) -> Patch:
    """Say on the pod that it is no fault of its own: podFailurePolicy may ignore that."""
    condition = {"type": "DisruptionTarget", "status": "True", "reason": reason, "message": message}
    stamped = condition | {"lastTransitionTime": timestamp(now)}
    patch = {"metadata": {"uid": uid_of(pod)}, "status": {**status, "conditions": [stamped]}}
    return Patch(PODS, key_of(pod), patch, "status", "strategic-merge")


def evicted_at(node: Json, pod: Json) -> float:
    """When the pod must leave: -math.inf for at once, math.inf for never.

    Of several tolerations of one taint the shortest counts; one taint that is not tolerated is enough.
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
    """Pods on a node that is not ready are not ready either, whatever their silent kubelet said last."""
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
