"""Columns of workloads."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from pyscheduler.embedded.columns.column import (
    AGE,
    NAME,
    NONE,
    TEMPLATE_CELLS,
    Column,
    Obj,
    at,
    container_cells,
    human,
    joined,
    since,
    wide,
)
from pyscheduler.embedded.objects import condition, dig, seconds


def _number(*path: str) -> Callable[[Obj, float], Any]:
    return at(*path, default=0)


def _integer(name: str, *path: str) -> Column:
    return Column(name, _number(*path), type="integer")


def _ready_of(obj: Obj, _now: float) -> str:
    return f"{dig(obj, 'status', 'readyReplicas') or 0}/{dig(obj, 'spec', 'replicas') or 0}"


DEPLOYMENT = (
    NAME,
    Column("Ready", _ready_of),
    Column("Up-to-date", _number("status", "updatedReplicas")),
    Column("Available", _number("status", "availableReplicas")),
    AGE,
    *TEMPLATE_CELLS,
)
REPLICASET = (
    NAME,
    _integer("Desired", "spec", "replicas"),
    _integer("Current", "status", "replicas"),
    _integer("Ready", "status", "readyReplicas"),
    AGE,
    *TEMPLATE_CELLS,
)
STATEFULSET = (NAME, Column("Ready", _ready_of), AGE, *TEMPLATE_CELLS[:2])


def _node_selector(obj: Obj, _now: float) -> str:
    selector = dig(obj, "spec", "template", "spec", "nodeSelector") or {}
    return joined(f"{key}={value}" for key, value in sorted(selector.items())) or NONE


DAEMONSET = (
    NAME,
    _integer("Desired", "status", "desiredNumberScheduled"),
    _integer("Current", "status", "currentNumberScheduled"),
    _integer("Ready", "status", "numberReady"),
    _integer("Up-to-date", "status", "updatedNumberScheduled"),
    _integer("Available", "status", "numberAvailable"),
    Column("Node Selector", _node_selector),
    AGE,
    *TEMPLATE_CELLS,
)

_JOB_STATES = (
    ("Complete", "Complete"),
    ("Failed", "Failed"),
    ("Suspended", "Suspended"),
    ("FailureTarget", "FailureTarget"),
    ("SuccessCriteriaMet", "SuccessCriteriaMet"),
)


def _job_status(obj: Obj, _now: float) -> str:
    for kind, word in _JOB_STATES:
        if kind == "Suspended" and dig(obj, "metadata", "deletionTimestamp"):
            return "Terminating"
        if condition(obj, kind).get("status") == "True":
            return word
    return "Running"


def _completions(obj: Obj, _now: float) -> str:
    succeeded, wanted = dig(obj, "status", "succeeded") or 0, dig(obj, "spec", "completions")
    parallel = dig(obj, "spec", "parallelism") or 0
    if wanted is not None:
        return f"{succeeded}/{wanted}"
    return f"{succeeded}/1 of {parallel}" if parallel > 1 else f"{succeeded}/1"


def _duration(obj: Obj, now: float) -> str:
    start, end = seconds(dig(obj, "status", "startTime")), seconds(dig(obj, "status", "completionTime"))
    return "" if start is None else human((now if end is None else end) - start)


JOB = (
    NAME,
    Column("Status", _job_status),
    Column("Completions", _completions),
    Column("Duration", _duration),
    AGE,
    *TEMPLATE_CELLS,
)


def _last_schedule(obj: Obj, now: float) -> str:
    last = dig(obj, "status", "lastScheduleTime")
    return since(last, now) if last else NONE


CRONJOB = (
    NAME,
    Column("Schedule", at("spec", "schedule")),
    Column("Timezone", at("spec", "timeZone", default=NONE)),
    # Unlike other booleans a text, as kube-apiserver's printBoolPtr has it.
    Column("Suspend", lambda obj, _now: str(dig(obj, "spec", "suspend") or False), type="boolean"),
    Column("Active", lambda obj, _now: len(dig(obj, "status", "active") or ()), type="integer"),
    Column("Last Schedule", _last_schedule),
    AGE,
    *container_cells("spec", "jobTemplate", "spec", "template", "spec"),
    wide("Selector", lambda _obj, _now: NONE),
)
BUDGET = (
    NAME,
    Column("Min Available", at("spec", "minAvailable", default="N/A")),
    Column("Max Unavailable", at("spec", "maxUnavailable", default="N/A")),
    _integer("Allowed Disruptions", "status", "disruptionsAllowed"),
    AGE,
)
