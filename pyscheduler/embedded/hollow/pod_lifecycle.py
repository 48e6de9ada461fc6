"""The life of a hollow pod as a function of time.

No memory is needed: what a pod is doing at a moment follows from its spec, its annotations and when its kubelet first
saw it. Annotations on the pod:

- `pyscheduler.io/run-seconds: "5"`: each run of its containers takes so long and ends with exit code 0;
- `pyscheduler.io/fail-after-seconds: "2"`: they exit with code 1 (the shorter of the two decides);
- `pyscheduler.io/exits: "attempt 0: 1; 0"`: other exit codes, by attempt and index (see exits.py).

A pod with neither time runs until it is deleted, except that a pod of a Job ends after `LifecycleTimings.job_seconds`. What an exit
means is up to `restartPolicy`, as on a real node: Never ends the pod; OnFailure restarts after a failure; Always
restarts. The first restart is immediate, later ones wait in CrashLoopBackOff, twice as long each time; a run that
lasts long enough is the first again. A pod with `activeDeadlineSeconds` is stopped when they are over.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import NamedTuple

from pyscheduler.embedded.hollow.container_exit import EXITS_ANNOTATION, ExitCodesError, ExitRule, code_of, parse
from pyscheduler.embedded.hollow.pod_types import HollowPod
from pyscheduler.kube.numbers import natural

RUN_SECONDS = "pyscheduler.io/run-seconds"
FAIL_AFTER_SECONDS = "pyscheduler.io/fail-after-seconds"

PENDING, RUNNING, SUCCEEDED, FAILED = "Pending", "Running", "Succeeded", "Failed"
CONTAINER_WAITING, CONTAINER_RUNNING, CONTAINER_TERMINATED = "waiting", "running", "terminated"
"""The keys of core/v1 ContainerState."""
KILLED = 143
"""Exit code of a container stopped by SIGTERM."""
INDEX = "batch.kubernetes.io/job-completion-index"


@dataclass(frozen=True)
class LifecycleTimings:
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
            raise ValueError(
                "LifecycleTimings.backoff_seconds must be above 0, or a failing pod would restart without end"
            )


class RunPlan(NamedTuple):
    """What will become of a pod's containers."""

    seconds: float
    """How long each run takes; math.inf for ever."""
    policy: str
    rules: tuple[ExitRule, ...]
    of_index: int = -1
    earlier: int = 0
    """Attempts that other pods have made before this one."""

    def exit_code(self, restarts: int) -> int:
        """How the run after so many restarts ends."""
        return code_of(self.rules, self.of_index, self.earlier + restarts)

    def restarts_after(self, exit_code: int) -> bool:
        """Whether the pod's restart policy gives it another run."""
        return self.policy == "Always" or (self.policy == "OnFailure" and exit_code != 0)


class PodStage(NamedTuple):
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


def plan_run(pod: HollowPod, timings: LifecycleTimings, earlier: int = 0) -> RunPlan:
    """How long the pod runs and how it ends. `earlier`: the attempts that other pods have made before it."""
    annotations = pod.metadata.annotations or {}
    runs, fails = _seconds(annotations, RUN_SECONDS), _seconds(annotations, FAIL_AFTER_SECONDS)
    if math.isinf(runs) and math.isinf(fails) and _of_a_job(pod):
        runs = timings.job_seconds
    index = natural(annotations.get(INDEX, ""))
    rules = _rules(annotations) or (ExitRule(int(fails < runs)),)
    return RunPlan(min(runs, fails), pod.spec.restart_policy, rules, -1 if index is None else index, earlier)


def stage_at(plan: RunPlan, timings: LifecycleTimings, seen: float, now: float) -> PodStage:
    """What the pod is doing at `now`, its kubelet having first seen it at `seen`."""
    start, restarts, code = seen + timings.start_seconds, 0, 0
    last_run: tuple[float, float] | None = None
    if now < start:
        return PodStage(PENDING, CONTAINER_WAITING, "ContainerCreating", seen, start)
    while True:
        end = start + plan.seconds
        if now < end:
            return PodStage(RUNNING, CONTAINER_RUNNING, "", start, end, restarts, code, last_run)
        code, last_run = plan.exit_code(restarts), (start, end)
        if not plan.restarts_after(code):
            phase, reason = (FAILED, "Error") if code else (SUCCEEDED, "Completed")
            return PodStage(
                phase, CONTAINER_TERMINATED, reason, end, restarts=restarts, exit_code=code, last_run=last_run
            )
        resume = end + _backoff(timings, 0 if plan.seconds > 2 * timings.backoff_max_seconds else restarts)
        if now < resume:
            return PodStage(RUNNING, CONTAINER_WAITING, "CrashLoopBackOff", end, resume, restarts, code, last_run)
        start, restarts = resume, restarts + 1


def unreadable_annotations(pod: HollowPod) -> list[str]:
    """What is wrong with the annotations of ours on the pod; such are taken as not there."""
    annotations = pod.metadata.annotations or {}
    given = [name for name in (RUN_SECONDS, FAIL_AFTER_SECONDS) if name in annotations]
    wrong = [f"{name} is no number of seconds" for name in given if math.isinf(_seconds(annotations, name))]
    try:
        parse(annotations.get(EXITS_ANNOTATION, ""))
    except ExitCodesError as problem:
        wrong.append(f"{EXITS_ANNOTATION}: {problem}")
    return wrong


def depends_on_attempts(pod: HollowPod) -> bool:
    """Whether it matters to the pod how many attempts were made before it."""
    return "attempt" in (pod.metadata.annotations or {}).get(EXITS_ANNOTATION, "")


def _rules(annotations: dict[str, str]) -> tuple[ExitRule, ...]:
    try:
        return parse(annotations.get(EXITS_ANNOTATION, ""))
    except ExitCodesError:
        return ()


def _backoff(timings: LifecycleTimings, restarts: int) -> float:
    if restarts == 0:
        return 0.0
    doubled: float = timings.backoff_seconds * 2 ** min(restarts - 1, 30)
    return min(doubled, timings.backoff_max_seconds)


def _of_a_job(pod: HollowPod) -> bool:
    return any(owner.kind == "Job" and owner.controller for owner in pod.metadata.owner_references or ())


def _seconds(annotations: dict[str, str], name: str) -> float:
    try:
        value = float(annotations.get(name, "inf"))
    except ValueError:
        return math.inf
    return value if value >= 0 else math.inf
