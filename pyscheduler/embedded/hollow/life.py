"""The life of a hollow pod as a function of time.

No memory is needed: what a pod is doing at a moment follows from its spec, its annotations and when its kubelet first
saw it. Annotations on the pod:

- `pyscheduler.io/run-seconds: "5"`: its containers exit with code 0 after that time;
- `pyscheduler.io/fail-after-seconds: "2"`: they exit with code 1 (the shorter of the two decides).

A pod with neither runs until it is deleted, except that a pod of a Job ends well after `Pace.job_seconds`. What an exit
means is up to `restartPolicy`, as on a real node: Never ends the pod; OnFailure restarts after a failure; Always
restarts. The first restart is immediate, later ones wait in CrashLoopBackOff, twice as long each time.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import NamedTuple

from pyscheduler.embedded.hollow.wire import HollowPod

RUN_SECONDS = "pyscheduler.io/run-seconds"
FAIL_AFTER_SECONDS = "pyscheduler.io/fail-after-seconds"

PENDING, RUNNING, SUCCEEDED, FAILED = "Pending", "Running", "Succeeded", "Failed"
WAITING, UP, EXITED = "waiting", "running", "terminated"
"""The keys of core/v1 ContainerState."""
KILLED = 143
"""Exit code of a container stopped by SIGTERM."""


@dataclass(frozen=True)
class Pace:
    """How fast hollow containers live, in seconds."""

    start_seconds: float = 0.1
    """From first sight to Running. 0 skips ContainerCreating and saves one write per pod."""
    job_seconds: float = 5.0
    """How long a pod of a Job runs that has no annotation."""
    backoff_seconds: float = 10.0
    """The pause before the second restart (kubelet: 10)."""
    backoff_max_seconds: float = 300.0

    def __post_init__(self) -> None:
        if self.backoff_seconds <= 0:
            raise ValueError("Pace.backoff_seconds must be above 0, or a failing pod would restart without end")


class Plan(NamedTuple):
    """What will become of a pod's containers."""

    seconds: float
    """How long each run takes; math.inf for ever."""
    exit_code: int
    restarts: bool


class Stage(NamedTuple):
    """What a pod is doing, since when (`began`) and until when (`until`, math.inf if nothing is to come)."""

    phase: str
    state: str
    reason: str
    began: float
    until: float = math.inf
    restarts: int = 0
    exit_code: int = 0
    """Of `last_run`."""
    last_run: tuple[float, float] | None = None
    """Start and end of the run that ended last; None as long as none has."""


def plan_of(pod: HollowPod, pace: Pace) -> Plan:
    """How long the pod runs and how it ends."""
    annotations = pod.metadata.annotations or {}
    runs, fails = _seconds(annotations, RUN_SECONDS), _seconds(annotations, FAIL_AFTER_SECONDS)
    if math.isinf(runs) and math.isinf(fails) and _of_a_job(pod):
        runs = pace.job_seconds
    failing = fails < runs
    policy = pod.spec.restart_policy
    return Plan(min(runs, fails), int(failing), policy == "Always" or (policy == "OnFailure" and failing))


def stage_at(plan: Plan, pace: Pace, seen: float, now: float) -> Stage:
    """What the pod is doing at `now`, its kubelet having first seen it at `seen`."""
    start, restarts = seen + pace.start_seconds, 0
    last_run: tuple[float, float] | None = None
    if now < start:
        return Stage(PENDING, WAITING, "ContainerCreating", seen, start)
    while True:
        end = start + plan.seconds
        if now < end:
            return Stage(RUNNING, UP, "", start, end, restarts, plan.exit_code, last_run)
        if not plan.restarts:
            reason = "Error" if plan.exit_code else "Completed"
            phase = FAILED if plan.exit_code else SUCCEEDED
            return Stage(phase, EXITED, reason, end, exit_code=plan.exit_code, last_run=(start, end))
        last_run = (start, end)
        resume = end + _backoff(pace, restarts)
        if now < resume:
            return Stage(RUNNING, WAITING, "CrashLoopBackOff", end, resume, restarts, plan.exit_code, last_run)
        start, restarts = resume, restarts + 1


def unreadable_annotations(pod: HollowPod) -> list[str]:
    """The annotations of ours on the pod that are no number of seconds; they are taken as not there."""
    annotations = pod.metadata.annotations or {}
    given = [name for name in (RUN_SECONDS, FAIL_AFTER_SECONDS) if name in annotations]
    return [name for name in given if math.isinf(_seconds(annotations, name))]


def _backoff(pace: Pace, restarts: int) -> float:
    if restarts == 0:
        return 0.0
    doubled: float = pace.backoff_seconds * 2 ** min(restarts - 1, 30)
    return min(doubled, pace.backoff_max_seconds)


def _of_a_job(pod: HollowPod) -> bool:
    return any(owner.kind == "Job" and owner.controller for owner in pod.metadata.owner_references or ())


def _seconds(annotations: dict[str, str], name: str) -> float:
    try:
        value = float(annotations.get(name, "inf"))
    except ValueError:
        return math.inf
    return value if value >= 0 else math.inf
