"""Events of a Volcano Job's pods, and the actions that its policies have for them.

Volcano derives events from changes of pods. Here they follow from the state, so none is lost in a restart: a failed pod
of the current version is PodFailed until its action has moved the Job on, and pods that the last status counts and that
are gone are PodEvicted.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any, NamedTuple

from pyscheduler.controllers.volcano.job_spec import (
    ANY_EVENT,
    POD_EVICTED,
    POD_FAILED,
    RESTART_POD,
    RESTART_TASK,
    TASK_COMPLETED,
    UNKNOWN,
    JobSpec,
    Policy,
)
from pyscheduler.controllers.volcano.pods import FAILED, RUNNING, SUCCEEDED, PodRecord


class Triggered(NamedTuple):
    """Action of a policy, with its reason."""

    action: str
    reason: str
    targets: tuple[PodRecord, ...] = ()
    """Pods to restart, with RestartTask and RestartPod."""


class _JobEvent(NamedTuple):
    name: str
    reason: str
    task: str = ""
    pod: PodRecord | None = None


def triggered(
    spec: JobSpec, status: Mapping[str, Any], pods: Sequence[PodRecord], group_phase: str
) -> Triggered | None:
    """Return the first action that the policies have for the state, None if there is none.

    `pods` are those of the current version that are not terminating.
    """
    actions = _Actions(spec)
    for event in _events(spec, status, pods, group_phase):
        action = actions.of(event)
        if not action:
            continue
        targets = tuple(_targets(action, event, pods))
        if targets or action not in (RESTART_TASK, RESTART_POD):
            return Triggered(action, event.reason, targets)
    return None


def _events(
    spec: JobSpec, status: Mapping[str, Any], pods: Sequence[PodRecord], group_phase: str
) -> Iterator[_JobEvent]:
    for pod in pods:
        if pod.phase == FAILED:
            reason = f"pod {pod.name} failed with exit code {pod.exit_code}"
            yield _JobEvent(POD_FAILED, reason, pod.task, pod)
    counted, present = status.get("taskStatusCount") or {}, Counter(pod.task for pod in pods)
    for task in spec.tasks:
        before = sum(((counted.get(task.name) or {}).get("phase") or {}).values())
        missing = min(before, task.replicas) - present[task.name]
        if missing > 0:
            yield _JobEvent(POD_EVICTED, f"task {task.name} has lost pods: {missing}", task.name)
    succeeded = Counter(pod.task for pod in pods if pod.phase == SUCCEEDED)
    for task in spec.tasks:
        if task.replicas and succeeded[task.name] >= task.replicas:
            yield _JobEvent(TASK_COMPLETED, f"all pods of task {task.name} have succeeded", task.name)
    # After a restart, the phase is that of the pods before until new ones run.
    if group_phase == UNKNOWN and any(pod.phase == RUNNING for pod in pods):
        yield _JobEvent(UNKNOWN, "the phase of the PodGroup is Unknown")


class _Actions:
    """Actions of the policies by event and exit code, so that thousands of policies cost no more than one."""

    def __init__(self, spec: JobSpec) -> None:
        self._of_job = _first_actions(spec.policies)
        self._of_task = {task.name: _first_actions(task.policies) for task in spec.tasks if task.policies}

    def of(self, event: _JobEvent) -> str:
        """Return the action for an event, "" if there is none; the policies of the task are before those of the Job."""
        keys = [event.name, ANY_EVENT] + ([event.pod.exit_code] if event.pod is not None else [])
        for actions in (self._of_task.get(event.task), self._of_job):
            found = [actions[key] for key in keys if key in actions] if actions else []
            if found:
                return min(found)[1]
        return ""


def _first_actions(policies: Iterable[Policy]) -> dict[str | int, tuple[int, str]]:
    """Return place and action of the first policy for each event and exit code."""
    found: dict[str | int, tuple[int, str]] = {}
    for place, policy in enumerate(policies):
        keys = policy.all_events if policy.exit_code is None else (policy.exit_code,)
        for key in keys:
            found.setdefault(key, (place, policy.action))
    return found


def _targets(action: str, event: _JobEvent, pods: Iterable[PodRecord]) -> Iterable[PodRecord]:
    if action == RESTART_POD and event.pod is not None:
        return [event.pod]
    if action == RESTART_TASK or (action == RESTART_POD and event.name == TASK_COMPLETED):
        return [pod for pod in pods if pod.task == event.task]
    return []
