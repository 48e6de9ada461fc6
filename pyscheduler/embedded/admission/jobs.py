"""Admission of Jobs and CronJobs: defaults, generated labels and selectors, validation (pkg/apis/batch, 1.36.3)."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from pyscheduler.embedded.admission.workloads import check_template, default_template, negative
from pyscheduler.embedded.objects import Json, dig
from pyscheduler.embedded.resources import Lookup, Rules
from pyscheduler.embedded.status import Cause, invalid_value, required, unsupported
from pyscheduler.embedded.workloads.cron.schedule import ScheduleError, parse, time_zone

NO_LIMIT = 2**31 - 1
MAX_CRONJOB_NAME_LENGTH = 52
"""A CronJob's Jobs append eleven characters to its name."""

_UID_LABELS = ("batch.kubernetes.io/controller-uid", "controller-uid")
_NAME_LABELS = ("batch.kubernetes.io/job-name", "job-name")
_INDEXED_ONLY = ("backoffLimitPerIndex", "maxFailedIndexes", "successPolicy")


def _default_job_spec(spec: Json) -> None:
    default_template(spec)
    if "completions" not in spec and "parallelism" not in spec:
        spec["completions"] = 1
    spec.setdefault("parallelism", 1)
    spec.setdefault("backoffLimit", 6 if spec.get("backoffLimitPerIndex") is None else NO_LIMIT)
    spec.setdefault("completionMode", "NonIndexed")
    spec.setdefault("suspend", False)
    spec.setdefault("podReplacementPolicy", "Failed" if spec.get("podFailurePolicy") else "TerminatingOrFailed")
    for rule in dig(spec, "podFailurePolicy", "rules") or ():
        for pattern in rule.get("onPodConditions") or ():
            pattern.setdefault("status", "True")


def default_job(obj: Json, _lookup: Lookup) -> None:
    """Set the defaults of a Job; labels default to those of its template."""
    spec = obj.setdefault("spec", {})
    _default_job_spec(spec)
    labels = spec["template"]["metadata"].get("labels")
    if labels and not obj["metadata"].get("labels"):
        obj["metadata"]["labels"] = dict(labels)


def admit_job(obj: Json, _lookup: Lookup) -> None:
    """Set selector and template labels generated from the uid, unless manualSelector is set."""
    spec, meta = obj["spec"], obj["metadata"]
    obj.setdefault("status", {})
    if spec.get("manualSelector"):
        return
    labels = spec["template"]["metadata"].setdefault("labels", {})
    labels |= dict.fromkeys(_UID_LABELS, meta["uid"]) | dict.fromkeys(_NAME_LABELS, meta["name"])
    spec["selector"] = {"matchLabels": {_UID_LABELS[0]: meta["uid"]}}


def default_cronjob(obj: Json, _lookup: Lookup) -> None:
    """Set the defaults of a CronJob."""
    spec = obj.setdefault("spec", {})
    spec.setdefault("concurrencyPolicy", "Allow")
    spec.setdefault("suspend", False)
    spec.setdefault("successfulJobsHistoryLimit", 3)
    spec.setdefault("failedJobsHistoryLimit", 1)
    template = spec.setdefault("jobTemplate", {})
    default_template(template.setdefault("spec", {}))


def check_job(obj: Json) -> list[Cause]:
    """Return the causes that make a Job invalid."""
    return _check_job_spec(obj["spec"], "spec")


def _check_job_spec(spec: Json, path: str) -> list[Cause]:
    limits = ("completions", "parallelism", "backoffLimit", "activeDeadlineSeconds", "ttlSecondsAfterFinished")
    causes = negative(spec, *limits, "backoffLimitPerIndex", "maxFailedIndexes", path=path)
    mode = spec.get("completionMode", "NonIndexed")
    if mode == "Indexed" and spec.get("completions") is None:
        causes.append(required(f"{path}.completions", "when completion mode is Indexed"))
    if mode not in ("Indexed", "NonIndexed"):
        causes.append(unsupported(f"{path}.completionMode", mode, ("Indexed", "NonIndexed")))
    if mode == "NonIndexed":
        given = [field for field in _INDEXED_ONLY if spec.get(field) is not None]
        causes += [invalid_value(f"{path}.{f}", spec[f], "requires indexed completion mode") for f in given]
    return causes + check_template(spec, path, ("OnFailure", "Never")) + list(_check_failure_policy(spec, path))


def _check_failure_policy(spec: Json, path: str) -> Iterator[Cause]:
    policy = spec["template"]["spec"]["restartPolicy"]
    if spec.get("podFailurePolicy") and policy == "OnFailure":
        why = 'only "Never" is supported when podFailurePolicy is specified'
        yield invalid_value(f"{path}.template.spec.restartPolicy", policy, why)


def check_cronjob(obj: Json) -> list[Cause]:
    """Return the causes that make a CronJob invalid."""
    spec = obj["spec"]
    causes = _check_schedule(spec) if spec.get("schedule") else [required("spec.schedule")]
    if len(obj["metadata"].get("name", "")) > MAX_CRONJOB_NAME_LENGTH:
        why = f"must be no more than {MAX_CRONJOB_NAME_LENGTH} characters"
        causes.append(invalid_value("metadata.name", obj["metadata"]["name"], why))
    if spec["concurrencyPolicy"] not in ("Allow", "Forbid", "Replace"):
        allowed = ("Allow", "Forbid", "Replace")
        causes.append(unsupported("spec.concurrencyPolicy", spec["concurrencyPolicy"], allowed))
    limits = ("startingDeadlineSeconds", "successfulJobsHistoryLimit", "failedJobsHistoryLimit")
    return causes + negative(spec, *limits) + _check_job_spec(spec["jobTemplate"]["spec"], "spec.jobTemplate.spec")


def _check_schedule(spec: Json) -> list[Cause]:
    """Check schedule and time zone separately, so that the cause has the invalid field."""
    causes: list[Cause] = []
    schedule, zone = spec["schedule"], spec.get("timeZone")
    if "TZ" in schedule:
        why = "cannot use TZ or CRON_TZ in schedule, use timeZone field instead"
        causes.append(invalid_value("spec.schedule", schedule, why))
    else:
        causes += _parse_errors("spec.schedule", schedule, parse)
    if zone == "":
        causes.append(invalid_value("spec.timeZone", zone, "timeZone must be nil or non-empty string"))
    return causes + (_parse_errors("spec.timeZone", zone, time_zone) if zone else [])


def _parse_errors(field: str, value: str, read: Any) -> list[Cause]:
    try:
        read(value)
    except ScheduleError as problem:
        return [invalid_value(field, value, str(problem))]
    return []


def check_job_change(new: Json, old: Json) -> list[Cause]:
    """Return causes for changes of immutable fields.

    These are selector, completionMode, completions (unless Indexed) and, once the Job is not suspended, template.
    """
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


JOB = Rules(default_job, admit_job, check=check_job, check_change=check_job_change)
CRONJOB = Rules(default_cronjob, check=check_cronjob)
