"""Controller of Volcano Jobs as a function: from a Job, its pods and its PodGroup to writes and a status.

Phases and transitions are Volcano's. A restart of the whole Job increases `status.version`; pods of an older version
are deleted. The status is written before pods are deleted, so that a controller that restarts in between deletes them.

Unlike in Volcano, pods are created at once, and a queue that is closed holds them back in the scheduler.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from itertools import islice
from typing import Any, Final

from pyscheduler.clock import rfc3339
from pyscheduler.controllers.volcano import job_objects
from pyscheduler.controllers.volcano.job_names import pod_name
from pyscheduler.controllers.volcano.job_policies import Triggered, triggered
from pyscheduler.controllers.volcano.job_spec import (
    ABORT,
    COMPLETE,
    RESTART_JOB,
    TERMINATE,
    JobSpec,
    Task,
    read_spec,
)
from pyscheduler.controllers.volcano.plugin_objects import controlled_resources, plugin_objects, size_problem
from pyscheduler.controllers.volcano.pod_group_status import UNSCHEDULABLE
from pyscheduler.controllers.volcano.pods import FAILED, PENDING, RUNNING, SUCCEEDED, PodRecord
from pyscheduler.truncation import MAX_MESSAGE, truncated

RESTARTING, COMPLETED, ABORTED, TERMINATED = "Restarting", "Completed", "Aborted", "Terminated"
ABORTING, COMPLETING, TERMINATING = "Aborting", "Completing", "Terminating"
_ENDS: Final = {ABORTING: ABORTED, COMPLETING: COMPLETED, TERMINATING: TERMINATED}
_ENDING_BY_ACTION: Final = {ABORT: ABORTING, COMPLETE: COMPLETING, TERMINATE: TERMINATING}
_FINAL: Final = (COMPLETED, ABORTED, TERMINATED, FAILED)
_POD_PHASES: Final = (PENDING, RUNNING, SUCCEEDED, FAILED)
MAX_CREATED: Final = 200
"""Maximum number of pods that one plan creates, about a second of calls: then other Jobs have their turn."""
_MAX_CONDITIONS: Final = 32
"""Number of conditions that are kept: a Job may restart 2**31 times."""

Json = dict[str, Any]


@dataclass(frozen=True)
class JobEvent:
    """Kubernetes event about the Job."""

    reason: str
    note: str
    is_warning: bool = False


@dataclass
class JobPlan:
    """Writes that bring the cluster to the desired state, in this order."""

    status: Json
    events: list[JobEvent] = field(default_factory=list)
    shared: list[Json] = field(default_factory=list)
    """Objects of plugins and volumes that must exist."""
    pod_group: Json | None = None
    """PodGroup that must exist; None if it must not."""
    pods_to_delete: list[PodRecord] = field(default_factory=list)
    pods_to_create: Iterable[Json] = ()
    """Up to `MAX_CREATED`; once the watch shows them, the next plan creates more."""
    delete_job: bool = False
    again_after: float | None = None
    """Seconds after which time changes the plan."""


def plan_job(
    job: Mapping[str, Any],
    status: Mapping[str, Any],
    pods: Sequence[PodRecord],
    group: Mapping[str, Any] | None,
    now: float,
) -> JobPlan:
    """Return the writes for a Job at `now` (seconds since 1970).

    `status` is the newest one that was written, which may be newer than that of `job`. `group` is its PodGroup.
    """
    spec = read_spec(job)
    problem = spec if isinstance(spec, str) else size_problem(job, spec)
    if isinstance(spec, str) or problem:
        return _refused(status, truncated(problem, MAX_MESSAGE), group, now)
    plan = _Planner(job, spec, status, sorted(pods, key=lambda pod: (pod.task, pod.task_index)), group, now)
    return plan.run()


def phase_of(status: Mapping[str, Any]) -> str:
    """Return the phase of a Job."""
    return str((status.get("state") or {}).get("phase") or PENDING)


def _refused(status: Mapping[str, Any], problem: str, group: Mapping[str, Any] | None, now: float) -> JobPlan:
    """Return the plan of a Job that cannot run: what exists is left alone."""
    state = {"phase": phase_of(status), "reason": "Unsupported", "message": problem}
    before = status.get("state") or {}
    events = [] if before.get("message") == problem else [JobEvent("Unsupported", problem, is_warning=True)]
    state["lastTransitionTime"] = before.get("lastTransitionTime") or rfc3339(now)
    return JobPlan({**status, "state": state}, events, pod_group=None if group is None else dict(group))


class _Planner:
    """Computation of one plan."""

    def __init__(
        self,
        job: Mapping[str, Any],
        spec: JobSpec,
        status: Mapping[str, Any],
        pods: Sequence[PodRecord],
        group: Mapping[str, Any] | None,
        now: float,
    ) -> None:
        self._job, self._spec, self._before, self._pods, self._group, self._now = job, spec, status, pods, group, now
        self._phase = phase_of(status)
        self._version, self._retries = int(status.get("version") or 0), int(status.get("retryCount") or 0)
        self._conditions: list[Json] = [dict(each) for each in status.get("conditions") or ()]
        self._changed_at = str((status.get("state") or {}).get("lastTransitionTime") or "")
        if not self._changed_at:
            self._enter(self._phase)
        self._plan = JobPlan({})

    def run(self) -> JobPlan:
        """Return the plan."""
        if self._phase in (PENDING, RUNNING):
            group_phase = str(((self._group or {}).get("status") or {}).get("phase", ""))
            event = triggered(self._spec, self._before, self._current(), group_phase, self._now)
            if event is not None and event.delay > 0:
                self._plan.again_after = event.delay
            elif event is not None:
                self._execute(event)
        if self._phase in (PENDING, RUNNING, RESTARTING):
            self._synchronize()
        else:
            self._end()
        self._plan.status = self._status()
        return self._plan

    def _current(self) -> list[PodRecord]:
        """Return the pods of the current version that are not terminating and not beyond the replicas."""
        replicas = {task.name: task.replicas for task in self._spec.tasks}
        return [
            pod
            for pod in self._pods
            if pod.version == self._version and not pod.is_deleting and pod.task_index < replicas.get(pod.task, 0)
        ]

    def _execute(self, event: Triggered) -> None:
        """Apply the action of a policy."""
        if event.action in _ENDING_BY_ACTION:
            self._note(event.reason, event.action)
            self._version += 1
            self._enter(_ENDING_BY_ACTION[event.action])
            return
        self._retries += 1
        if self._retries >= self._spec.max_retry:
            self._note(event.reason, f"maxRetry of {self._spec.max_retry} reached, the Job has failed")
            self._enter(FAILED)
            return
        self._note(event.reason, f"{event.action}, retry {self._retries} of {self._spec.max_retry - 1}")
        if event.action == RESTART_JOB:
            self._version += 1
        self._plan.pods_to_delete += event.targets
        self._enter(RESTARTING)

    def _note(self, reason: str, action: str) -> None:
        self._plan.events.append(JobEvent("ExecuteAction", f"{reason}: {action}"))

    def _enter(self, phase: str) -> None:
        self._phase, self._changed_at = phase, rfc3339(self._now)
        self._conditions.append({"status": phase, "lastTransitionTime": self._changed_at})
        del self._conditions[:-_MAX_CONDITIONS]

    def _synchronize(self) -> None:
        """Create missing pods, delete others, and move on to the next phase."""
        targets = {pod.uid for pod in self._plan.pods_to_delete}
        current = self._current()
        kept = {pod.uid for pod in current} - targets
        alive = [pod for pod in self._pods if not pod.is_deleting]
        self._plan.pods_to_delete += [pod for pod in alive if pod.uid not in kept | targets]
        tasks = self._tasks_with_pods(current)
        while (following := self._following()) != self._phase:
            self._enter(following)
        if self._phase in _FINAL:
            return  # the next plan deletes what still runs
        self._plan.pod_group = job_objects.pod_group(self._job, self._spec, tasks)
        controlled = self._before.get("controlledResources") or {}
        self._plan.shared = list(plugin_objects(self._job, self._spec, controlled))
        self._plan.pods_to_create = islice(self._missing_pods(tasks), MAX_CREATED)

    def _missing_pods(self, tasks: Iterable[Task]) -> Iterator[Json]:
        names = {pod.name for pod in self._pods}
        for task in tasks:
            for i in range(task.replicas):
                if pod_name(self._job, task, i) not in names:
                    yield job_objects.pod(self._job, self._spec, task, i, version=self._version, retries=self._retries)

    def _tasks_with_pods(self, current: Collection[PodRecord]) -> list[Task]:
        """Return the tasks that have pods already, or may have them because the tasks on which they depend run."""
        present = {pod.task for pod in current}
        started = Counter(pod.task for pod in current if _has_started(pod))
        is_met = {task.name: started[task.name] >= task.min_available for task in self._spec.tasks}

        def may_exist(task: Task) -> bool:
            if not task.depends_on.name or task.name in present:
                return True
            enough = any if task.depends_on.iteration == "any" else all
            return enough(is_met[name] for name in task.depends_on.name)

        return [task for task in self._spec.tasks if may_exist(task)]

    def _following(self) -> str:
        """Return the phase after the current one, the same if it does not change."""
        counts, replicas, minimum = self._counts(), self._spec.replicas, self._spec.min_available
        if self._phase == RESTARTING:
            return PENDING if replicas - self._terminating() >= minimum else RESTARTING
        if self._phase == PENDING:
            return RUNNING if minimum <= counts.total() - counts[PENDING] else PENDING
        if not replicas or self._phase != RUNNING:
            return self._phase
        if self._spec.min_success is not None and counts[SUCCEEDED] >= self._spec.min_success:
            return COMPLETED
        if counts[SUCCEEDED] + counts[FAILED] == replicas:
            if self._has_succeeded(counts[SUCCEEDED]):
                return COMPLETED
            # A policy with a timeout still has its action, such as a restart, when all pods have failed.
            return self._phase if self._plan.again_after is not None else FAILED
        return PENDING if counts[PENDING] > replicas - minimum else RUNNING

    def _has_succeeded(self, succeeded: int) -> bool:
        """Return True if enough pods have succeeded, now that all have finished."""
        minimums = {task.name: task.min_available for task in self._spec.tasks}
        if self._spec.min_available >= sum(minimums.values()):
            by_task = Counter(pod.task for pod in self._remaining() if pod.phase == SUCCEEDED)
            if any(by_task[name] < least for name, least in minimums.items()):
                return False
        return self._spec.min_success is None and succeeded >= self._spec.min_available

    def _end(self) -> None:
        """Delete the pods that still run, and the PodGroup; finished pods are kept for their logs."""
        self._plan.pods_to_delete = [pod for pod in self._pods if not pod.is_finished and not pod.is_deleting]
        if self._phase in _ENDS and all(pod.is_finished for pod in self._pods):
            self._enter(_ENDS[self._phase])
        ttl = self._spec.ttl_seconds
        if ttl is not None and self._phase in _FINAL and self._phase != ABORTED:
            left = ttl - (self._now - _seconds(self._changed_at))
            self._plan.delete_job = left <= 0
            self._plan.again_after = left if left > 0 else None

    def _remaining(self) -> list[PodRecord]:
        """Return the pods of the current version that this plan does not delete."""
        deleted = {pod.uid for pod in self._plan.pods_to_delete}
        return [pod for pod in self._current() if pod.uid not in deleted]

    def _counts(self) -> Counter[str]:
        return Counter(pod.phase for pod in self._remaining())

    def _terminating(self) -> int:
        return sum(pod.is_deleting for pod in self._pods) + len(self._plan.pods_to_delete)

    def _status(self) -> Json:
        counts = self._counts()
        finished = {phase: counts[phase] for phase in (SUCCEEDED, FAILED)}
        if self._phase in _FINAL:  # finished pods may be deleted
            finished = {
                phase: max(counts[phase], int(self._before.get(phase.lower()) or 0)) for phase in (SUCCEEDED, FAILED)
            }
        by_task: dict[str, Counter[str]] = {task.name: Counter() for task in self._spec.tasks}
        for pod in self._remaining():
            by_task[pod.task][pod.phase] += 1
        return {
            "state": {"phase": self._phase, "lastTransitionTime": self._changed_at, **self._reason()},
            "minAvailable": self._spec.min_available,
            "pending": counts[PENDING],
            "running": counts[RUNNING],
            "succeeded": finished[SUCCEEDED],
            "failed": finished[FAILED],
            "terminating": self._terminating(),
            "unknown": counts.total() - sum(counts[phase] for phase in _POD_PHASES),
            "version": self._version,
            "retryCount": self._retries,
            "taskStatusCount": {name: {"phase": dict(phases)} for name, phases in by_task.items() if phases},
            "controlledResources": controlled_resources(self._job, self._spec),
            "conditions": self._conditions,
        }

    def _reason(self) -> dict[str, str]:
        """Return why the pods of a pending Job have no nodes, as the scheduler has written it to the PodGroup."""
        if self._phase != PENDING:
            return {}
        conditions = ((self._group or {}).get("status") or {}).get("conditions") or ()
        failed = (each for each in conditions if each.get("type") == UNSCHEDULABLE and each.get("status") == "True")
        return next(({name: str(each.get(name) or "") for name in ("reason", "message")} for each in failed), {})


def _has_started(pod: PodRecord) -> bool:
    return pod.phase == SUCCEEDED or (pod.phase == RUNNING and pod.is_ready)


def _seconds(text: str) -> float:
    return datetime.fromisoformat(text).timestamp()
