"""Events of a Volcano Job's pods, and the actions that its policies have for them.

Volcano derives events from changes of pods. Here they follow from the state, so none is lost in a restart: a failed pod
of the current version is PodFailed until its action has moved the Job on, and pods that the last status counts and that
are gone are PodEvicted.
"""

from __future__ import annotations

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
    for event in _events(spec, status, pods, group_phase):
        action = _action(spec, event)
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
    counted = status.get("taskStatusCount") or {}
    for task in spec.tasks:
        present = sum(pod.task == task.name for pod in pods)
        before = sum(((counted.get(task.name) or {}).get("phase") or {}).values())
        missing = min(before, task.replicas) - present
        if missing > 0:
            yield _JobEvent(POD_EVICTED, f"task {task.name} has lost pods: {missing}", task.name)
    for task in spec.tasks:
        succeeded = sum(pod.task == task.name and pod.phase == SUCCEEDED for pod in pods)
        if task.replicas and succeeded >= task.replicas:
            yield _JobEvent(TASK_COMPLETED, f"all pods of task {task.name} have succeeded", task.name)
    # After a restart, the phase is that of the pods before until new ones run.
    if group_phase == UNKNOWN and any(pod.phase == RUNNING for pod in pods):
        yield _JobEvent(UNKNOWN, "the phase of the PodGroup is Unknown")


def _action(spec: JobSpec, event: _JobEvent) -> str:
    """Return the action for an event; the policies of the task are before those of the Job."""
    of_task = next((task.policies for task in spec.tasks if task.name == event.task), ())
    return next((policy.action for policy in (*of_task, *spec.policies) if _matches(policy, event)), "")


def _matches(policy: Policy, event: _JobEvent) -> bool:
    if policy.exit_code is not None:
        return event.pod is not None and event.pod.exit_code == policy.exit_code
    return event.name in policy.all_events or ANY_EVENT in policy.all_events


def _targets(action: str, event: _JobEvent, pods: Iterable[PodRecord]) -> Iterable[PodRecord]:
    if action == RESTART_POD and event.pod is not None:
        return [event.pod]
    if action == RESTART_TASK or (action == RESTART_POD and event.name == TASK_COMPLETED):
        return [pod for pod in pods if pod.task == event.task]
    return []
