"""Lifecycle of a hollow pod as a pure function of time.

The stage of a pod at a given time follows from its spec, its annotations and the time at which its kubelet first saw
it; no other state is needed. Annotations on the pod:

- `pyscheduler.io/run-seconds: "5"`: each run of its containers takes 5 s and ends with exit code 0;
- `pyscheduler.io/fail-after-seconds: "2"`: each run ends with exit code 1 after 2 s (the shorter of the two applies);
- `pyscheduler.io/exits: "attempt 0: 1; 0"`: other exit codes, by attempt and index (see container_exit.py).

A pod with neither time runs until it is deleted, but a pod of a Job ends after `LifecycleTimings.job_seconds`.
`restartPolicy` applies as on a real node: Never ends the pod; OnFailure restarts after a failure; Always restarts.
The first restart is immediate, later ones wait in CrashLoopBackOff, twice as long each time; a run that lasts long
enough resets the backoff. A pod is stopped at its `activeDeadlineSeconds`.
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
    """Durations of hollow containers, in seconds."""

    start_seconds: float = 0.1
    """Time from first sync to Running. 0 skips ContainerCreating and saves one write per pod."""
    job_seconds: float = 5.0
    """Run time of a Job's pod without annotations."""
    backoff_seconds: float = 10.0
    """Delay before the second restart (kubelet: 10)."""
    backoff_max_seconds: float = 300.0

    def __post_init__(self) -> None:
        if self.backoff_seconds <= 0:
            raise ValueError(
                "LifecycleTimings.backoff_seconds must be above 0, or a failing pod would restart without end"
            )


class RunPlan(NamedTuple):
    """Run time, restart policy and exit codes of a pod's containers."""

    seconds: float
    """Duration of each run; math.inf for endless runs."""
    policy: str
    rules: tuple[ExitRule, ...]
    of_index: int = -1
    earlier: int = 0
    """Attempts of other pods before this one."""

    def exit_code(self, restarts: int) -> int:
        """Return the exit code of the run after `restarts` restarts."""
        return code_of(self.rules, self.of_index, self.earlier + restarts)

    def restarts_after(self, exit_code: int) -> bool:
        """Return True if the restart policy restarts the pod after this exit code."""
        return self.policy == "Always" or (self.policy == "OnFailure" and exit_code != 0)


class PodStage(NamedTuple):
    """State of a pod, from `began` until `until` (math.inf if it is the last)."""

    phase: str
    state: str
    reason: str
    began: float
    until: float = math.inf
    restarts: int = 0
    exit_code: int = 0
    """Exit code of `last_run`."""
    last_run: tuple[float, float] | None = None
    """Start and end of the last finished run; None if there is none."""


def plan_run(pod: HollowPod, timings: LifecycleTimings, earlier: int = 0) -> RunPlan:
    """Return the plan of the pod's runs. `earlier` is the number of attempts of other pods before it."""
    annotations = pod.metadata.annotations or {}
    runs, fails = _seconds(annotations, RUN_SECONDS), _seconds(annotations, FAIL_AFTER_SECONDS)
    if math.isinf(runs) and math.isinf(fails) and _of_a_job(pod):
        runs = timings.job_seconds
    index = natural(annotations.get(INDEX, ""))
    rules = _rules(annotations) or (ExitRule(int(fails < runs)),)
    return RunPlan(min(runs, fails), pod.spec.restart_policy, rules, -1 if index is None else index, earlier)


def stage_at(plan: RunPlan, timings: LifecycleTimings, seen: float, now: float) -> PodStage:
    """Return the stage of the pod at `now`, its kubelet having first seen it at `seen`."""
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


def invalid_annotations(pod: HollowPod) -> list[str]:
    """Return a description of each malformed `pyscheduler.io` annotation of the pod; these are ignored."""
    annotations = pod.metadata.annotations or {}
    given = [name for name in (RUN_SECONDS, FAIL_AFTER_SECONDS) if name in annotations]
    problems = [f"{name} is not a number of seconds" for name in given if math.isinf(_seconds(annotations, name))]
    try:
        parse(annotations.get(EXITS_ANNOTATION, ""))
    except ExitCodesError as problem:
        problems.append(f"{EXITS_ANNOTATION}: {problem}")
    return problems


def depends_on_attempts(pod: HollowPod) -> bool:
    """Return True if the pod's exit codes depend on the number of earlier attempts."""
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
