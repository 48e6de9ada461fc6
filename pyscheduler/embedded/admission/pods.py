"""Admission of pods: defaults, priority, tolerations, scheduling gates, QoS class, and immutable fields."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from pyscheduler.embedded.admission.limit_ranges import check_pod_limits, set_pod_limits
from pyscheduler.embedded.admission.pod_resources import default_pod_requests, qos_class
from pyscheduler.embedded.admission.podspec import check_pod_spec, default_pod_spec
from pyscheduler.embedded.admission.priority import set_priority
from pyscheduler.embedded.objects import Json
from pyscheduler.embedded.resources import Lookup, Rules
from pyscheduler.embedded.status import Cause, forbidden_value

_MISMATCH = (
    "the integer value of priority ({given}) must not be provided in pod spec; priority admission computed {computed}"
)
_NODE_PROBLEMS = ("node.kubernetes.io/not-ready", "node.kubernetes.io/unreachable")
_EVICT_AFTER_SECONDS = 300
_GATED = {
    "type": "PodScheduled",
    "status": "False",
    "reason": "SchedulingGated",
    "message": "Scheduling is blocked due to non-empty scheduling gates",
    "lastProbeTime": None,
}


def default_pod(pod: Json, _lookup: Lookup) -> None:
    """Set the defaults for every write of a pod."""
    spec = pod.setdefault("spec", {})
    default_pod_spec(spec)
    spec.setdefault("enableServiceLinks", True)


def admit_pod(pod: Json, lookup: Lookup) -> None:
    """Admit a new pod: admission plugins of a real server and the pod strategy's PrepareForCreate."""
    set_pod_limits(pod, lookup)
    spec = pod["spec"]
    default_pod_requests(spec)
    check_pod_limits(pod, lookup)
    spec["serviceAccountName"] = spec["serviceAccount"] = spec.get("serviceAccountName") or "default"
    _resolve_priority(pod, lookup)
    _add_tolerations(spec)
    _merge_match_label_keys(spec, pod["metadata"].get("labels") or {})
    status: Json = {"phase": "Pending", "qosClass": qos_class(spec)}
    if spec.get("schedulingGates"):
        status["conditions"] = [{**_GATED, "lastTransitionTime": pod["metadata"]["creationTimestamp"]}]
    pod["status"] = status


def _resolve_priority(pod: Json, lookup: Lookup) -> None:
    chosen = set_priority(pod, lookup, "pods", "", _MISMATCH)
    pod["spec"].setdefault("preemptionPolicy", chosen.get("preemptionPolicy") or "PreemptLowerPriority")


def _add_tolerations(spec: Json) -> None:
    present = spec.get("tolerations") or []
    missing = [key for key in _NODE_PROBLEMS if not any(_tolerates_eviction(t, key) for t in present)]
    added = [
        {"key": key, "operator": "Exists", "effect": "NoExecute", "tolerationSeconds": _EVICT_AFTER_SECONDS}
        for key in missing
    ]
    if added:
        spec["tolerations"] = [*present, *added]


def _tolerates_eviction(toleration: Mapping[str, Any], key: str) -> bool:
    return toleration.get("key", "") in ("", key) and toleration.get("effect", "") in ("", "NoExecute")


def _merge_match_label_keys(spec: Json, labels: Mapping[str, str]) -> None:
    """Merge matchLabelKeys into the selectors (KEP-3633, KEP-3243), so that readers see one selector."""
    for constraint in spec.get("topologySpreadConstraints") or ():
        _merge_keys(constraint, constraint.get("matchLabelKeys"), "In", labels)
    for term in _affinity_terms(spec.get("affinity") or {}):
        _merge_keys(term, term.get("matchLabelKeys"), "In", labels)
        _merge_keys(term, term.get("mismatchLabelKeys"), "NotIn", labels)


def _merge_keys(owner: Json, keys: list[str] | None, operator: str, labels: Mapping[str, str]) -> None:
    selector = owner.get("labelSelector")
    if not keys or selector is None:
        return
    added = [{"key": key, "operator": operator, "values": [labels[key]]} for key in keys if key in labels]
    if added:
        selector["matchExpressions"] = [*(selector.get("matchExpressions") or ()), *added]


def _affinity_terms(affinity: Mapping[str, Any]) -> Iterator[Json]:
    for side in ("podAffinity", "podAntiAffinity"):
        rules = affinity.get(side) or {}
        yield from rules.get("requiredDuringSchedulingIgnoredDuringExecution") or ()
        for weighted in rules.get("preferredDuringSchedulingIgnoredDuringExecution") or ():
            yield weighted.get("podAffinityTerm") or {}


def check_pod(pod: Json) -> list[Cause]:
    """Return the causes that make a pod invalid."""
    causes = check_pod_spec(pod["spec"], "spec")
    if pod["spec"].get("nodeName") and pod["spec"].get("schedulingGates"):
        causes.append(forbidden_value("spec.nodeName", "cannot be set until all schedulingGates have been cleared"))
    return causes


_MUTABLE = "`spec.containers[*].image`,`spec.initContainers[*].image`,`spec.activeDeadlineSeconds`"
_FIXED_RULE = (
    f"pod updates may not change fields other than {_MUTABLE},"
    "`spec.tolerations` (only additions to existing tolerations),"
    "`spec.terminationGracePeriodSeconds` (allow it to be set to 1 if it was previously negative)"
)
_FREE_FIELDS = {"activeDeadlineSeconds", "tolerations", "schedulingGates", "containers", "initContainers"}
_FREE_WHILE_GATED = {"nodeSelector", "affinity"}


def check_pod_change(new: Json, old: Json) -> list[Cause]:
    """Return causes for changes of immutable fields of the pod spec (validation.ValidatePodUpdate)."""
    after, before = new["spec"], old["spec"]
    if after == before:
        return []
    free = _FREE_FIELDS | (_FREE_WHILE_GATED if before.get("schedulingGates") else set())
    changed = {name for name in after.keys() | before.keys() if after.get(name) != before.get(name)}
    causes = []
    if changed - free or not _only_images_differ(after, before):
        names = ", ".join(sorted(changed - free)) or "containers"
        causes.append(forbidden_value("spec", f"{_FIXED_RULE}; changed: {names}"))
    remaining = [_without_seconds(t) for t in after.get("tolerations") or ()]
    if any(_without_seconds(t) not in remaining for t in before.get("tolerations") or ()):
        why = "existing toleration can not be modified except its tolerationSeconds"
        causes.append(forbidden_value("spec.tolerations", why))
    added = _names(after.get("schedulingGates")) - _names(before.get("schedulingGates"))
    if added:
        why = f"only deletion is allowed, but found new scheduling gate '{min(added)}'"
        causes.append(forbidden_value("spec.schedulingGates", why))
    return causes


def check_pod_status_change(new: Json, old: Json) -> list[Cause]:
    """Return a cause if a bound pod is nominated (validation.ValidatePodStatusUpdate)."""
    after, before = new["status"].get("nominatedNodeName"), (old.get("status") or {}).get("nominatedNodeName")
    if after and after != before and old["spec"].get("nodeName"):
        why = "may not be set on pods that are already bound to a node"
        return [forbidden_value("status.nominatedNodeName", why)]
    return []


def _only_images_differ(after: Mapping[str, Any], before: Mapping[str, Any]) -> bool:
    return all(
        [{**c, "image": ""} for c in after.get(field) or ()] == [{**c, "image": ""} for c in before.get(field) or ()]
        for field in ("containers", "initContainers")
    )


def _without_seconds(toleration: Mapping[str, Any]) -> Json:
    return {name: value for name, value in toleration.items() if name != "tolerationSeconds"}


def _names(items: list[Json] | None) -> set[str]:
    return {item["name"] for item in items or ()}


POD_RULES = Rules(
    default_pod,
    admit_pod,
    check=check_pod,
    check_change=check_pod_change,
    check_status_change=check_pod_status_change,
)
