"""Workloads and their pods as plain objects with the fields that matter to a test."""

from __future__ import annotations

from typing import Any

from pyscheduler.embedded.objects import timestamp
from pyscheduler.embedded.workloads.actions import Create, Delete, Patch, Plan
from pyscheduler.kube.paths import PODS

Json = dict[str, Any]


def workload(kind: str, name: str = "w", *, status: Json | None = None, **spec: Any) -> Json:
    """Return a Deployment, ReplicaSet or Job with a template that has the label app=name."""
    meta = {"name": name, "namespace": "default", "uid": name, "generation": 1, "resourceVersion": "1"}
    template = {"metadata": {"labels": {"app": name}}, "spec": {"containers": [{"name": "c", "image": "i:1"}]}}
    selector = {} if kind == "Job" else {"selector": {"matchLabels": {"app": name}}}
    return {"kind": kind, "metadata": meta, "spec": {"template": template, **selector, **spec}, "status": status or {}}


def a_pod(
    name: str = "p", phase: str = "Running", *, ready: bool | None = None, since: float = 0.0, **meta: Any
) -> Json:
    """Return a pod; a running one is ready since `since` by default, a finished one finished then."""
    ready = phase == "Running" if ready is None else ready
    status: Json = {"phase": phase}
    status["conditions"] = [{"type": "Ready", "status": str(ready), "lastTransitionTime": timestamp(since)}]
    if phase in ("Succeeded", "Failed"):
        status["containerStatuses"] = [{"state": {"terminated": {"finishedAt": timestamp(since)}}}]
    node = {"nodeName": "n"} if phase != "Pending" else {}
    return {
        "metadata": {"name": name, "namespace": "default", "uid": name, **meta},
        "spec": {"containers": [], **node},
        "status": status,
    }


def terminating(pod: Json) -> Json:
    """Return the pod with a deletionTimestamp."""
    return {**pod, "metadata": {**pod["metadata"], "deletionTimestamp": "2026-01-01T00:00:00Z"}}


def created(plan: Plan) -> list[Json]:
    """Return the objects that the plan creates."""
    creations = (action for action in plan.actions if isinstance(action, Create))
    return [each.obj for action in creations for each in (*action.before, action)]


def deleted(plan: Plan) -> list[str]:
    """Return the names of the pods that the plan deletes."""
    return [a.key[1] for a in plan.actions if isinstance(a, Delete) and a.resource == PODS]


def status_of(plan: Plan, before: Json | None = None) -> Json:
    """Return the status after the plan."""
    status = dict(before or {})
    for action in plan.actions:
        if isinstance(action, Patch) and action.subresource == "status":
            status |= action.patch["status"]
    return {name: value for name, value in status.items() if value is not None}


def resized(plan: Plan) -> dict[str, int]:
    """Return the new sizes of the ReplicaSets that the plan resizes."""
    return {a.key[1]: a.patch["spec"]["replicas"] for a in plan.actions if isinstance(a, Patch) and "spec" in a.patch}


def conditions(status: Json) -> dict[str, str]:
    """Return the status of each condition by type."""
    return {c["type"]: c["status"] for c in status.get("conditions", [])}
