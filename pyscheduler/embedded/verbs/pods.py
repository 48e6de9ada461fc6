"""Verbs of pods: binding to a node, and eviction within disruption budgets."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from pyscheduler.embedded.disruption import BUDGETS
from pyscheduler.embedded.history import Version
from pyscheduler.embedded.objects import Json, condition, labels_of
from pyscheduler.embedded.resources import Resource
from pyscheduler.embedded.selectors import selector_test
from pyscheduler.embedded.server_state import DeleteOptions, ServerState
from pyscheduler.embedded.status import (
    ApiStatusError,
    bad_request,
    conflict,
    forbidden,
    invalid,
    required,
    too_many_requests,
    unsupported,
)
from pyscheduler.embedded.verbs.delete import delete, delete_options
from pyscheduler.embedded.verbs.update import find

_VIOLATION = "Cannot evict pod as it would violate the pod's disruption budget."
_RETRY_SECONDS = 10


def bind(state: ServerState, pods: Resource, namespace: str, name: str, binding: Any, *, dry_run: bool = False) -> None:
    """Assign a pod to a node (the registry's BindingREST). ApiStatusError 409 if the pod cannot be bound."""
    meta, node = _read_binding(namespace, name, binding)
    old = find(state, pods, namespace, name)
    pod, stored = old.object, old.object["metadata"]
    for field, word in (("uid", "UID"), ("resourceVersion", "ResourceVersion")):
        if meta.get(field, stored[field]) != stored[field]:
            why = f"Precondition failed: {word} in precondition: {meta[field]}, {word} in object meta: {stored[field]}"
            raise conflict("pods", "", name, why)
    if problem := _unbindable(pod):
        raise conflict("pods/binding", "", name, problem)
    if not dry_run:
        state.store.put(pods.bucket, old.key, _bound(pod, meta, node, state.timestamp()))


def _read_binding(namespace: str, name: str, binding: Any) -> tuple[Mapping[str, Any], str]:
    meta = binding.get("metadata") if isinstance(binding, dict) else None
    target = binding.get("target") if isinstance(binding, dict) else None
    if not isinstance(meta, dict) or not isinstance(target, dict):
        raise bad_request("the body is not a Binding with metadata and target")
    if meta.get("name", name) != name:
        raise bad_request("name in URL does not match name in Binding object")
    if meta.get("namespace", namespace) != namespace:
        raise bad_request("the namespace of the provided object does not match the namespace sent on the request")
    if target.get("kind") not in (None, "", "Node"):
        raise invalid("Binding", "", name, [unsupported("target.kind", target["kind"], ("Node", "<empty>"))])
    if not isinstance(target.get("name"), str) or not target["name"]:
        raise invalid("Binding", "", name, [required("target.name")])
    return meta, target["name"]


def _unbindable(pod: Json) -> str:
    name, spec = pod["metadata"]["name"], pod["spec"]
    if "deletionTimestamp" in pod["metadata"]:
        return f"pod {name} is being deleted, cannot be assigned to a host"
    if spec.get("nodeName"):
        return f'pod {name} is already assigned to node "{spec["nodeName"]}"'
    return f"pod {name} has non-empty .spec.schedulingGates" if spec.get("schedulingGates") else ""


def _bound(pod: Json, binding: Mapping[str, Any], node: str, now: str) -> Json:
    meta = dict(pod["metadata"])
    for field in ("annotations", "labels"):
        if binding.get(field):
            meta[field] = {**(meta.get(field) or {}), **binding[field]}
    status = {name: part for name, part in (pod.get("status") or {}).items() if name != "nominatedNodeName"}
    scheduled = {"type": "PodScheduled", "status": "True", "lastProbeTime": None, "lastTransitionTime": now}
    others = [c for c in status.get("conditions") or () if c.get("type") != "PodScheduled"]
    status["conditions"] = [*others, scheduled]
    return {**pod, "metadata": meta, "spec": {**pod["spec"], "nodeName": node}, "status": status}


def evict(state: ServerState, pods: Resource, namespace: str, name: str, eviction: Any) -> None:
    """Delete a pod if its disruption budget allows it (upstream's EvictionREST). ApiStatusError 429 if not."""
    if not isinstance(eviction, dict):
        raise bad_request("the body is not an Eviction")
    options = delete_options(eviction.get("deleteOptions"), {})
    old = find(state, pods, namespace, name)
    if not _can_ignore_budgets(old.object):
        _decrement_budget(state, old.object, options)
    if not options.dry_run:
        _mark_disruption(state, pods, find(state, pods, namespace, name))
    delete(state, pods, namespace, name, options)


def _can_ignore_budgets(pod: Json) -> bool:
    finished = (pod.get("status") or {}).get("phase") in {"Succeeded", "Failed", "Pending"}
    return finished or "deletionTimestamp" in pod["metadata"]


def budgets_of(state: ServerState, pod: Json) -> list[Version]:
    """Return the disruption budgets that select `pod`."""
    return [
        budget
        for budget in state.store.scan(BUDGETS, pod["metadata"]["namespace"])
        if selector_test((budget.object.get("spec") or {}).get("selector"))(labels_of(pod))
    ]


def _decrement_budget(state: ServerState, pod: Json, options: DeleteOptions) -> None:
    budgets = budgets_of(state, pod)
    if len(budgets) > 1:
        why = "This pod has more than one PodDisruptionBudget, which the eviction subresource does not support."
        raise ApiStatusError(500, "InternalError", why)
    if not budgets:
        return
    budget, name = budgets[0].object, budgets[0].key[1]
    status = budget.get("status") or {}
    may_evict_unhealthy = (budget["spec"].get("unhealthyPodEvictionPolicy") == "AlwaysAllow") or status.get(
        "currentHealthy", 0
    ) >= max(status.get("desiredHealthy", 0), 1)
    if may_evict_unhealthy and condition(pod, "Ready").get("status") != "True":
        return
    if status.get("observedGeneration", 0) < budget["metadata"].get("generation", 0):
        cause = f"The disruption budget {name} is still being processed by the server."
        raise too_many_requests(_VIOLATION, cause, _RETRY_SECONDS)
    allowed = status.get("disruptionsAllowed", 0)
    if allowed < 0:
        raise forbidden("poddisruptionbudget", "policy", name, "pdb disruptions allowed is negative")
    if allowed == 0:
        needs, has = status.get("desiredHealthy", 0), status.get("currentHealthy", 0)
        raise too_many_requests(
            _VIOLATION, f"The disruption budget {name} needs {needs} healthy pods and has {has} currently", 0
        )
    if not options.dry_run:
        disrupted = {**(status.get("disruptedPods") or {}), pod["metadata"]["name"]: state.timestamp()}
        decremented = {**status, "disruptionsAllowed": allowed - 1, "disruptedPods": disrupted}
        state.store.put(
            BUDGETS, budgets[0].key, {**budget, "metadata": dict(budget["metadata"]), "status": decremented}
        )


def _mark_disruption(state: ServerState, pods: Resource, old: Version) -> None:
    status = old.object.get("status") or {}
    disrupted = {
        "type": "DisruptionTarget",
        "status": "True",
        "reason": "EvictionByEvictionAPI",
        "message": "Eviction API: evicting",
        "lastProbeTime": None,
        "lastTransitionTime": state.timestamp(),
    }
    others = [c for c in status.get("conditions") or () if c.get("type") != "DisruptionTarget"]
    marked = {**status, "conditions": [*others, disrupted]}
    state.store.put(pods.bucket, old.key, {**old.object, "metadata": dict(old.object["metadata"]), "status": marked})
