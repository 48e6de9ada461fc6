"""Admission of workloads: Deployment, ReplicaSet, StatefulSet, DaemonSet and ReplicationController."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from pyscheduler.embedded.admission.podspec import check_pod_spec, default_pod_spec
from pyscheduler.embedded.objects import Json, dig
from pyscheduler.embedded.resources import Lookup, Rules
from pyscheduler.embedded.selectors import selector_test
from pyscheduler.embedded.status import Cause, forbidden_value, invalid_value, required, unsupported

_MAX_SURGE = {"maxUnavailable": "25%", "maxSurge": "25%"}


def default_template(spec: Json) -> Json:
    """Return the pod template of a workload's spec, with defaults set."""
    template: Json = spec.setdefault("template", {})
    template.setdefault("metadata", {})
    default_pod_spec(template.setdefault("spec", {}))
    return template


def _replicated(obj: Json) -> Json:
    spec: Json = obj.setdefault("spec", {})
    spec.setdefault("replicas", 1)
    default_template(spec)
    return spec


def default_deployment(obj: Json, _lookup: Lookup) -> None:
    """Set the defaults of a Deployment."""
    spec = _replicated(obj)
    strategy = spec.setdefault("strategy", {})
    if strategy.setdefault("type", "RollingUpdate") == "RollingUpdate":
        strategy["rollingUpdate"] = {**_MAX_SURGE, **(strategy.get("rollingUpdate") or {})}
    spec.setdefault("revisionHistoryLimit", 10)
    spec.setdefault("progressDeadlineSeconds", 600)


def default_replicaset(obj: Json, _lookup: Lookup) -> None:
    """Set the defaults of a ReplicaSet."""
    _replicated(obj)


def default_controller(obj: Json, _lookup: Lookup) -> None:
    """Set the defaults of a ReplicationController; the selector defaults to the template's labels."""
    spec = _replicated(obj)
    labels = dig(spec, "template", "metadata", "labels")
    if labels and not spec.get("selector"):
        spec["selector"] = labels


def default_statefulset(obj: Json, _lookup: Lookup) -> None:
    """Set the defaults of a StatefulSet."""
    spec = _replicated(obj)
    spec.setdefault("podManagementPolicy", "OrderedReady")
    strategy = spec.setdefault("updateStrategy", {})
    if strategy.setdefault("type", "RollingUpdate") == "RollingUpdate":
        strategy.setdefault("rollingUpdate", {}).setdefault("partition", 0)
    spec.setdefault("revisionHistoryLimit", 10)
    retention = spec.setdefault("persistentVolumeClaimRetentionPolicy", {})
    retention.setdefault("whenDeleted", "Retain")
    retention.setdefault("whenScaled", "Retain")


def default_daemonset(obj: Json, _lookup: Lookup) -> None:
    """Set the defaults of a DaemonSet."""
    spec = obj.setdefault("spec", {})
    default_template(spec)
    strategy = spec.setdefault("updateStrategy", {})
    if strategy.setdefault("type", "RollingUpdate") == "RollingUpdate":
        strategy["rollingUpdate"] = {"maxSurge": 0, "maxUnavailable": 1, **(strategy.get("rollingUpdate") or {})}
    spec.setdefault("revisionHistoryLimit", 10)


def check_template(spec: Mapping[str, Any], path: str, policies: tuple[str, ...]) -> list[Cause]:
    """Return the causes that make the pod template at `path` invalid; `policies` are the allowed restart policies."""
    pod_spec = spec["template"]["spec"]
    causes = check_pod_spec(pod_spec, f"{path}.template.spec")
    if pod_spec["restartPolicy"] not in policies and not causes:
        causes.append(unsupported(f"{path}.template.spec.restartPolicy", pod_spec["restartPolicy"], policies))
    return causes


def _check_selector(spec: Mapping[str, Any]) -> list[Cause]:
    selector = spec.get("selector")
    labels = spec["template"]["metadata"].get("labels") or {}
    if selector is None:
        return [required("spec.selector")]
    if not selector.get("matchLabels") and not selector.get("matchExpressions"):
        return [invalid_value("spec.selector", selector, "empty selector is invalid for this kind")]
    if not selector_test(selector)(labels):
        why = "`selector` does not match template `labels`"
        return [invalid_value("spec.template.metadata.labels", dict(labels), why)]
    return []


def negative(spec: Mapping[str, Any], *fields: str, path: str = "spec") -> list[Cause]:
    """Return a cause for each negative field of the spec at `path`."""
    return [
        invalid_value(f"{path}.{field}", spec[field], "must be greater than or equal to 0")
        for field in fields
        if spec.get(field, 0) < 0
    ]


def check_workload(obj: Json) -> list[Cause]:
    """Return the causes that make a Deployment, ReplicaSet, StatefulSet or DaemonSet invalid."""
    spec = obj["spec"]
    causes = negative(spec, "replicas", "minReadySeconds", "revisionHistoryLimit")
    return causes + _check_selector(spec) + check_template(spec, "spec", ("Always",))


def check_deployment(obj: Json) -> list[Cause]:
    """Return the causes that make a Deployment invalid."""
    strategy = obj["spec"]["strategy"]
    if strategy["type"] not in ("Recreate", "RollingUpdate"):
        return [unsupported("spec.strategy.type", strategy["type"], ("Recreate", "RollingUpdate"))]
    if strategy["type"] == "Recreate" and strategy.get("rollingUpdate"):
        why = "may not be specified when strategy `type` is 'Recreate'"
        return [forbidden_value("spec.strategy.rollingUpdate", why)]
    return check_workload(obj)


def check_controller(obj: Json) -> list[Cause]:
    """Return the causes that make a ReplicationController invalid."""
    spec = obj["spec"]
    causes = [] if spec.get("selector") else [required("spec.selector")]
    return causes + negative(spec, "replicas") + check_template(spec, "spec", ("Always",))


def check_selector_unchanged(new: Json, old: Json) -> list[Cause]:
    """Return a cause if the selector of a workload has changed."""
    selector = new["spec"].get("selector")
    if selector == old["spec"].get("selector"):
        return []
    return [invalid_value("spec.selector", selector, "field is immutable")]


_STATEFUL_FREE = {
    "replicas",
    "ordinals",
    "template",
    "updateStrategy",
    "revisionHistoryLimit",
    "persistentVolumeClaimRetentionPolicy",
    "minReadySeconds",
}


def check_statefulset_change(new: Json, old: Json) -> list[Cause]:
    """Return a cause if immutable fields of a StatefulSet have changed."""
    after, before = new["spec"], old["spec"]
    changed = {name for name in after.keys() | before.keys() if after.get(name) != before.get(name)}
    if not changed - _STATEFUL_FREE:
        return []
    free = ", ".join(f"'{name}'" for name in sorted(_STATEFUL_FREE))
    return [forbidden_value("spec", f"updates to statefulset spec for fields other than {free} are forbidden")]


DEPLOYMENT = Rules(default_deployment, check=check_deployment, check_change=check_selector_unchanged)
REPLICASET = Rules(default_replicaset, check=check_workload, check_change=check_selector_unchanged)
STATEFULSET = Rules(default_statefulset, check=check_workload, check_change=check_statefulset_change)
DAEMONSET = Rules(default_daemonset, check=check_workload, check_change=check_selector_unchanged)
CONTROLLER = Rules(default_controller, check=check_controller)
