"""Admission of the workload kinds: Deployment, ReplicaSet, StatefulSet, DaemonSet, Job, CronJob and their like."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from pyscheduler.embedded.admission.podspec import check_pod_spec, default_pod_spec
from pyscheduler.embedded.objects import Json, dig
from pyscheduler.embedded.resources import Lookup, Rules
from pyscheduler.embedded.selectors import selector_test
from pyscheduler.embedded.status import Cause, forbidden_value, invalid_value, required, unsupported

_MAX_SURGE = {"maxUnavailable": "25%", "maxSurge": "25%"}
_UID_LABELS = ("batch.kubernetes.io/controller-uid", "controller-uid")
_NAME_LABELS = ("batch.kubernetes.io/job-name", "job-name")


def _template(spec: Json) -> Json:
    template: Json = spec.setdefault("template", {})
    template.setdefault("metadata", {})
    default_pod_spec(template.setdefault("spec", {}))
    return template


def _replicated(obj: Json) -> Json:
    spec: Json = obj.setdefault("spec", {})
    spec.setdefault("replicas", 1)
    _template(spec)
    return spec


def default_deployment(obj: Json, _lookup: Lookup) -> None:
    """Defaults of a Deployment."""
    spec = _replicated(obj)
    strategy = spec.setdefault("strategy", {})
    if strategy.setdefault("type", "RollingUpdate") == "RollingUpdate":
        strategy["rollingUpdate"] = {**_MAX_SURGE, **(strategy.get("rollingUpdate") or {})}
    spec.setdefault("revisionHistoryLimit", 10)
    spec.setdefault("progressDeadlineSeconds", 600)


def default_replicaset(obj: Json, _lookup: Lookup) -> None:
    """Defaults of a ReplicaSet."""
    _replicated(obj)


def default_controller(obj: Json, _lookup: Lookup) -> None:
    """Defaults of a ReplicationController: its selector is the template's labels."""
    spec = _replicated(obj)
    labels = dig(spec, "template", "metadata", "labels")
    if labels and not spec.get("selector"):
        spec["selector"] = labels


def default_statefulset(obj: Json, _lookup: Lookup) -> None:
    """Defaults of a StatefulSet."""
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
    """Defaults of a DaemonSet."""
    spec = obj.setdefault("spec", {})
    _template(spec)
    strategy = spec.setdefault("updateStrategy", {})
    if strategy.setdefault("type", "RollingUpdate") == "RollingUpdate":
        strategy["rollingUpdate"] = {"maxSurge": 0, "maxUnavailable": 1, **(strategy.get("rollingUpdate") or {})}
    spec.setdefault("revisionHistoryLimit", 10)


def _default_job_spec(spec: Json) -> None:
    _template(spec)
    if "completions" not in spec and "parallelism" not in spec:
        spec["completions"] = 1
    spec.setdefault("parallelism", 1)
    spec.setdefault("backoffLimit", 6)
    spec.setdefault("completionMode", "NonIndexed")
    spec.setdefault("suspend", False)
    spec.setdefault("podReplacementPolicy", "Failed" if spec.get("podFailurePolicy") else "TerminatingOrFailed")


def default_job(obj: Json, _lookup: Lookup) -> None:
    """Defaults of a Job."""
    _default_job_spec(obj.setdefault("spec", {}))


def admit_job(obj: Json, _lookup: Lookup) -> None:
    """A new Job gets a selector and template labels of its own, made from its uid, unless manualSelector is set."""
    spec, meta = obj["spec"], obj["metadata"]
    obj.setdefault("status", {})
    if spec.get("manualSelector"):
        return
    labels = spec["template"]["metadata"].setdefault("labels", {})
    labels |= dict.fromkeys(_UID_LABELS, meta["uid"]) | dict.fromkeys(_NAME_LABELS, meta["name"])
    spec["selector"] = {"matchLabels": {_UID_LABELS[0]: meta["uid"]}}


def default_cronjob(obj: Json, _lookup: Lookup) -> None:
    """Defaults of a CronJob."""
    spec = obj.setdefault("spec", {})
    spec.setdefault("concurrencyPolicy", "Allow")
    spec.setdefault("suspend", False)
    spec.setdefault("successfulJobsHistoryLimit", 3)
    spec.setdefault("failedJobsHistoryLimit", 1)
    template = spec.setdefault("jobTemplate", {})
    _template(template.setdefault("spec", {}))


def _check_template(spec: Mapping[str, Any], path: str, policies: tuple[str, ...]) -> list[Cause]:
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


def _negative(spec: Mapping[str, Any], *fields: str) -> list[Cause]:
    return [
        invalid_value(f"spec.{field}", spec[field], "must be greater than or equal to 0")
        for field in fields
        if spec.get(field, 0) < 0
    ]


def check_workload(obj: Json) -> list[Cause]:
    """What is wrong with a Deployment, ReplicaSet, StatefulSet or DaemonSet."""
    spec = obj["spec"]
    causes = _negative(spec, "replicas", "minReadySeconds", "revisionHistoryLimit")
    return causes + _check_selector(spec) + _check_template(spec, "spec", ("Always",))


def check_deployment(obj: Json) -> list[Cause]:
    """What is wrong with a Deployment."""
    strategy = obj["spec"]["strategy"]
    if strategy["type"] not in ("Recreate", "RollingUpdate"):
        return [unsupported("spec.strategy.type", strategy["type"], ("Recreate", "RollingUpdate"))]
    if strategy["type"] == "Recreate" and strategy.get("rollingUpdate"):
        why = "may not be specified when strategy `type` is 'Recreate'"
        return [forbidden_value("spec.strategy.rollingUpdate", why)]
    return check_workload(obj)


def check_controller(obj: Json) -> list[Cause]:
    """What is wrong with a ReplicationController."""
    spec = obj["spec"]
    causes = [] if spec.get("selector") else [required("spec.selector")]
    return causes + _negative(spec, "replicas") + _check_template(spec, "spec", ("Always",))


def check_job(obj: Json) -> list[Cause]:
    """What is wrong with a Job."""
    spec = obj["spec"]
    causes = _negative(spec, "completions", "parallelism", "backoffLimit", "activeDeadlineSeconds")
    if spec["completionMode"] == "Indexed" and spec.get("completions") is None:
        causes.append(required("spec.completions", "when completion mode is Indexed"))
    if spec["completionMode"] not in ("Indexed", "NonIndexed"):
        causes.append(unsupported("spec.completionMode", spec["completionMode"], ("Indexed", "NonIndexed")))
    return causes + _check_template(spec, "spec", ("OnFailure", "Never"))


def check_cronjob(obj: Json) -> list[Cause]:
    """What is wrong with a CronJob; the schedule's own grammar is not checked."""
    spec = obj["spec"]
    causes = [] if spec.get("schedule") else [required("spec.schedule")]
    if spec["concurrencyPolicy"] not in ("Allow", "Forbid", "Replace"):
        allowed = ("Allow", "Forbid", "Replace")
        causes.append(unsupported("spec.concurrencyPolicy", spec["concurrencyPolicy"], allowed))
    template = spec["jobTemplate"]["spec"]
    return causes + _check_template(template, "spec.jobTemplate.spec", ("OnFailure", "Never"))


def check_selector_kept(new: Json, old: Json) -> list[Cause]:
    """The selector of a workload never changes."""
    selector = new["spec"].get("selector")
    if selector == old["spec"].get("selector"):
        return []
    return [invalid_value("spec.selector", selector, "field is immutable")]


def check_job_change(new: Json, old: Json) -> list[Cause]:
    """What of a Job is fixed: completions (unless Indexed), selector, and the template once it is not suspended."""
    after, before = new["spec"], old["spec"]
    fixed = ["selector", "completionMode"]
    if before.get("completionMode") != "Indexed":
        fixed.append("completions")
    if not before.get("suspend") or dig(old, "status", "startTime"):
        fixed.append("template")
    return [
        invalid_value(f"spec.{field}", after.get(field), "field is immutable")
        for field in fixed
        if after.get(field) != before.get(field)
    ]


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
    """What of a StatefulSet is fixed."""
    after, before = new["spec"], old["spec"]
    changed = {name for name in after.keys() | before.keys() if after.get(name) != before.get(name)}
    if not changed - _STATEFUL_FREE:
        return []
    free = ", ".join(f"'{name}'" for name in sorted(_STATEFUL_FREE))
    return [forbidden_value("spec", f"updates to statefulset spec for fields other than {free} are forbidden")]


DEPLOYMENT = Rules(default_deployment, check=check_deployment, check_change=check_selector_kept)
REPLICASET = Rules(default_replicaset, check=check_workload, check_change=check_selector_kept)
STATEFULSET = Rules(default_statefulset, check=check_workload, check_change=check_statefulset_change)
DAEMONSET = Rules(default_daemonset, check=check_workload, check_change=check_selector_kept)
CONTROLLER = Rules(default_controller, check=check_controller)
JOB = Rules(default_job, admit_job, check=check_job, check_change=check_job_change)
CRONJOB = Rules(default_cronjob, check=check_cronjob)
