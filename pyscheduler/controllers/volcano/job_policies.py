"""Events of a Volcano Job's pods, and the actions that its policies have for them.

Volcano derives events from changes of pods. Here they follow from the state, so none is lost in a restart: a failed pod
of the current version is PodFailed until its action has moved the Job on, and pods that the last status counts and that
are gone are PodEvicted. The time since when a pod is pending or has failed is in the pod, so timeouts go on too.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from datetime import datetime
from typing import Any, NamedTuple

from pyscheduler.controllers.volcano.job_spec import (
    ANY_EVENT,
    POD_EVICTED,
    POD_FAILED,
    POD_PENDING,
    RESTART_POD,
    RESTART_TASK,
    TASK_COMPLETED,
    UNKNOWN,
    JobSpec,
    Policy,
)
from pyscheduler.controllers.volcano.pods import FAILED, PENDING, RUNNING, SUCCEEDED, PodRecord


class Triggered(NamedTuple):
    """Action of a policy, with its reason."""

    action: str
    reason: str
    targets: tuple[PodRecord, ...] = ()
    """Pods to restart, with RestartTask and RestartPod."""
    delay: float = 0.0
    """Seconds left for which the event must still last."""


class _JobEvent(NamedTuple):
    name: str
    reason: str
    task: str = ""
    pod: PodRecord | None = None


def triggered(
    spec: JobSpec, status: Mapping[str, Any], pods: Sequence[PodRecord], group_phase: str, now: float
) -> Triggered | None:
    """Return the first action that the policies have for the state, None if there is none.

    Without an action that is due, that with the shortest delay. `pods` are those of the current version that are not
    terminating.
    """
    policies, delayed = _Policies(spec), list[Triggered]()
    for event in _events(spec, status, pods, group_phase):
        policy = policies.of(event)
        if policy is None:
            continue
        delay = _remaining(policy, event, now)
        if delay > 0:  # targets of many delayed events would take long
            delayed.append(Triggered(policy.action, event.reason, delay=delay))
            continue
        targets = tuple(_targets(policy.action, event, pods))
        if targets or policy.action not in (RESTART_TASK, RESTART_POD):
            return Triggered(policy.action, event.reason, targets)
    return min(delayed, key=lambda each: each.delay, default=None)


def _remaining(policy: Policy, event: _JobEvent, now: float) -> float:
    if not policy.delay or event.pod is None or not event.pod.since:
        return 0.0
    return policy.delay - (now - datetime.fromisoformat(event.pod.since).timestamp())


def _events(
    spec: JobSpec, status: Mapping[str, Any], pods: Sequence[PodRecord], group_phase: str
) -> Iterator[_JobEvent]:
    for pod in pods:
        if pod.phase == FAILED:
            reason = f"pod {pod.name} failed with exit code {pod.exit_code}"
            yield _JobEvent(POD_FAILED, reason, pod.task, pod)
        elif pod.phase == PENDING:
            yield _JobEvent(POD_PENDING, f"pod {pod.name} is pending", pod.task, pod)
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


class _Policies:
    """The policies by event and exit code, so that thousands of policies cost no more than one."""

    def __init__(self, spec: JobSpec) -> None:
        self._of_job = _first_policies(spec.policies)
        self._of_task = {task.name: _first_policies(task.policies) for task in spec.tasks if task.policies}

    def of(self, event: _JobEvent) -> Policy | None:
        """Return the policy for an event, None if there is none; those of the task are before those of the Job."""
        keys: list[str | int] = [event.name]
        if event.name != POD_PENDING:  # every pod is pending at first, which is no event without a timeout
            keys += [ANY_EVENT] + ([event.pod.exit_code] if event.pod is not None else [])
        for policies in (self._of_task.get(event.task), self._of_job):
            found = [policies[key] for key in keys if key in policies] if policies else []
            if found:
                return min(found, key=lambda each: each[0])[1]
        return None


def _first_policies(policies: Iterable[Policy]) -> dict[str | int, tuple[int, Policy]]:
    """Return the first policy for each event and exit code, with its place."""
    found: dict[str | int, tuple[int, Policy]] = {}
    for place, policy in enumerate(policies):
        keys = policy.all_events if policy.exit_code is None else (policy.exit_code,)
        for key in keys:
            found.setdefault(key, (place, policy))
    return found


def _targets(action: str, event: _JobEvent, pods: Iterable[PodRecord]) -> Iterable[PodRecord]:
    if action == RESTART_POD and event.pod is not None:
        return [event.pod]
    if action == RESTART_TASK or (action == RESTART_POD and event.name == TASK_COMPLETED):
        return [pod for pod in pods if pod.task == event.task]
    return []
