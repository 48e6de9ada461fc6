"""Spec of a Volcano Job (batch.volcano.sh/v1alpha1) with Volcano's defaults, and the reasons why it cannot run.

Volcano sets the defaults and rejects invalid Jobs in its webhooks. A cluster without Volcano has none.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from graphlib import CycleError, TopologicalSorter
from typing import Annotated, Any, Final

import msgspec

from pyscheduler.api.objects import ApiObject
from pyscheduler.config.durations import parse_duration
from pyscheduler.controllers.volcano.job_plugins import ArgumentError, JobPlugins, read_plugins

ANY_EVENT, POD_FAILED, POD_EVICTED, POD_PENDING = "*", "PodFailed", "PodEvicted", "PodPending"
_MAX_TIMEOUT_LENGTH = 64
TASK_COMPLETED, UNKNOWN = "TaskCompleted", "Unknown"
ABORT, TERMINATE, COMPLETE = "AbortJob", "TerminateJob", "CompleteJob"
RESTART_JOB, RESTART_TASK, RESTART_POD = "RestartJob", "RestartTask", "RestartPod"

DEFAULT_QUEUE: Final = "default"
DEFAULT_SCHEDULER: Final = "volcano"
DEFAULT_MAX_RETRY: Final = 3
EVENTS: Final = (ANY_EVENT, POD_FAILED, POD_EVICTED, POD_PENDING, TASK_COMPLETED, UNKNOWN)
_EVENTS_WITH_TIMEOUT: Final = (POD_FAILED, POD_PENDING)
"""Events of pods that last, and since when is in the pods."""
ACTIONS: Final = (ABORT, RESTART_JOB, RESTART_TASK, RESTART_POD, TERMINATE, COMPLETE)
_NO_TOPOLOGY: Final = (None, "", "none")

Json = dict[str, Any]
_Count = Annotated[int, msgspec.Meta(ge=0)]
_Positive = Annotated[int, msgspec.Meta(ge=1)]


class Policy(ApiObject, frozen=True):
    """LifecyclePolicy: an action after events, or after an exit code."""

    action: str = ""
    event: str = ""
    events: tuple[str, ...] | None = None
    exit_code: int | None = None
    timeout: str | None = None

    @property
    def all_events(self) -> tuple[str, ...]:
        """Events of both fields."""
        return (*(self.events or ()), *((self.event,) if self.event else ()))

    @property
    def delay(self) -> float:
        """Seconds for which an event must last before the action."""
        # Tenants write it, and a long text takes very long to parse.
        if self.timeout and len(self.timeout) > _MAX_TIMEOUT_LENGTH:
            raise ValueError(f"must have at most {_MAX_TIMEOUT_LENGTH} characters")
        return parse_duration(self.timeout) if self.timeout else 0.0


class DependsOn(ApiObject, frozen=True):
    """Tasks whose pods must run before those of this task are created."""

    name: tuple[str, ...] | None = None
    iteration: str = ""
    """`any` if one of the tasks suffices."""


class PartitionPolicy(ApiObject, frozen=True):
    """Partitions of a task's pods, each of which is scheduled as a whole."""

    total_partitions: _Positive
    partition_size: _Positive
    min_partitions: _Count = 0
    network_topology: dict[str, Any] | None = None

    @property
    def min_pods(self) -> int:
        """`minPartitions` × `partitionSize`, 0 without `minPartitions`."""
        return self.min_partitions * self.partition_size


class Volume(ApiObject, frozen=True):
    """Directory that all containers have, from a claim."""

    mount_path: Annotated[str, msgspec.Meta(pattern="^[^:]+$")]
    volume_claim_name: str = ""
    """Name of a claim that exists."""
    volume_claim: Json | None = None
    """Spec of a claim that the Job creates."""


class _Container(ApiObject, frozen=True):
    env: tuple[Json, ...] | None = None
    ports: tuple[Json, ...] | None = None
    volume_mounts: tuple[Json, ...] | None = None


class _PodSpec(ApiObject, frozen=True):
    containers: tuple[_Container, ...] | None = None
    init_containers: tuple[_Container, ...] | None = None
    volumes: tuple[Json, ...] | None = None
    hostname: str | None = None
    subdomain: str | None = None


class _TemplateMeta(ApiObject, frozen=True):
    labels: dict[str, str] | None = None
    annotations: dict[str, str] | None = None


class _Template(ApiObject, frozen=True):
    """Fields of a template to which pods add others. Its schema accepts any value."""

    metadata: _TemplateMeta | None = None
    spec: _PodSpec | None = None


class _Task(ApiObject, frozen=True):
    name: str = ""
    replicas: _Count = 0
    min_available: _Count | None = None
    template: dict[str, Any] = msgspec.field(default_factory=dict)
    policies: tuple[Policy, ...] | None = None
    depends_on: DependsOn | None = None
    topology_policy: str | None = None
    partition_policy: PartitionPolicy | None = None


class _Spec(ApiObject, frozen=True):
    scheduler_name: str = ""
    min_available: _Count = 0
    min_success: _Count | None = None
    tasks: tuple[_Task, ...] | None = None
    policies: tuple[Policy, ...] | None = None
    plugins: dict[str, tuple[str, ...] | None] | None = None
    volumes: tuple[Volume, ...] | None = None
    queue: str = ""
    priority_class_name: str = ""
    max_retry: _Count = 0
    ttl_seconds_after_finished: _Count | None = None
    network_topology: dict[str, Any] | None = None


@dataclass(frozen=True)
class Task:
    """Pods of one template."""

    name: str
    replicas: int
    min_available: int
    template: Mapping[str, Any]
    policies: tuple[Policy, ...]
    depends_on: DependsOn
    partitions: PartitionPolicy | None = None


@dataclass(frozen=True)
class JobSpec:
    """Spec with defaults."""

    tasks: tuple[Task, ...]
    min_available: int
    min_success: int | None
    policies: tuple[Policy, ...]
    plugins: JobPlugins
    volumes: tuple[Volume, ...]
    queue: str
    scheduler: str
    priority_class: str
    max_retry: int
    ttl_seconds: int | None
    network_topology: Mapping[str, Any] | None = None
    """That of the PodGroup."""

    @property
    def replicas(self) -> int:
        """Number of pods."""
        return sum(task.replicas for task in self.tasks)

    def task(self, name: str) -> Task | None:
        """Return the task of a name, None if there is none."""
        return next((task for task in self.tasks if task.name == name), None)


def scheduler_of(job: Mapping[str, Any]) -> str:
    """Return the scheduler that the Job names."""
    spec = job.get("spec") or {}
    return str(spec.get("schedulerName") or DEFAULT_SCHEDULER)


def read_spec(job: Mapping[str, Any]) -> JobSpec | str:
    """Return the spec, or the reason why the Job cannot run."""
    spec: Mapping[str, Any] = job.get("spec") or {}
    try:
        decoded = msgspec.convert(dict(spec), _Spec)
    except msgspec.ValidationError as error:
        return f"spec: Invalid value: {error}"
    tasks = _tasks(decoded)
    problem = next(_problems(decoded, tasks), None)
    if problem is not None:
        return problem
    try:
        plugins = read_plugins(decoded.plugins or {}, {task.name for task in tasks})
    except ArgumentError as error:
        return str(error)
    return JobSpec(
        tasks=tasks,
        min_available=decoded.min_available or sum(task.min_available for task in tasks),
        min_success=decoded.min_success,
        policies=decoded.policies or (),
        plugins=plugins,
        volumes=decoded.volumes or (),
        queue=decoded.queue or DEFAULT_QUEUE,
        scheduler=decoded.scheduler_name or DEFAULT_SCHEDULER,
        priority_class=decoded.priority_class_name,
        max_retry=decoded.max_retry or DEFAULT_MAX_RETRY,
        ttl_seconds=decoded.ttl_seconds_after_finished,
        network_topology=decoded.network_topology,
    )


def _tasks(spec: _Spec) -> tuple[Task, ...]:
    """Return the tasks with defaults."""
    return tuple(
        Task(
            each.name or f"default{i}",
            each.replicas,
            _min_available(each),
            each.template,
            each.policies or (),
            each.depends_on or DependsOn(),
            each.partition_policy,
        )
        for i, each in enumerate(spec.tasks or ())
    )


def _min_available(task: _Task) -> int:
    if task.min_available is not None:
        return task.min_available
    partitions = task.partition_policy
    return (partitions.min_pods if partitions else 0) or task.replicas


def _problems(decoded: _Spec, tasks: tuple[Task, ...]) -> Iterator[str]:
    """Yield the reasons why the Job cannot run, each with the path of its field."""
    for i, volume in enumerate(decoded.volumes or ()):
        if bool(volume.volume_claim_name) == bool(volume.volume_claim):
            yield f"spec.volumes[{i}]: Invalid value: must have either a volumeClaimName or a volumeClaim"
    yield from _policy_problems("spec.policies", decoded.policies or ())
    if not tasks:
        yield "spec.tasks: Required value"
    for i, task in enumerate(decoded.tasks or ()):
        path, partitions = f"spec.tasks[{i}]", task.partition_policy
        try:
            msgspec.convert(task.template, _Template)
        except msgspec.ValidationError as error:
            yield f"{path}.template: Invalid value: {error}"
        if partitions and partitions.total_partitions * partitions.partition_size != task.replicas:
            product = f"{partitions.total_partitions} partitions of {partitions.partition_size} pods"
            yield f"{path}.partitionPolicy: Invalid value: {product} are not the replicas, {task.replicas}"
        least = partitions.min_pods if partitions else 0
        if least and task.min_available not in (None, least):
            rule = f"must equal minPartitions × partitionSize, {least}"
            yield f"{path}.minAvailable: Invalid value: {task.min_available}: {rule}"
        if task.topology_policy not in _NO_TOPOLOGY:
            rule = "remove it, and set topologyManagerPolicy in the configuration of the kubelets"
            yield f"{path}.topologyPolicy: is not supported: {rule}"
        if task.min_available is not None and task.min_available > task.replicas:
            yield f"{path}.minAvailable: Invalid value: {task.min_available}: must be at most replicas, {task.replicas}"
        yield from _policy_problems(f"{path}.policies", task.policies or ())
    names = [task.name for task in tasks]
    if len(set(names)) < len(names):
        yield "spec.tasks: Duplicate value: task names must differ"
    yield from _dependency_problems(tasks)
    replicas = sum(task.replicas for task in tasks)
    if decoded.min_available > replicas:
        yield f"spec.minAvailable: Invalid value: {decoded.min_available}: must be at most the replicas, {replicas}"


def _policy_problems(path: str, policies: Iterable[Policy]) -> Iterator[str]:
    for i, policy in enumerate(policies):
        here = f"{path}[{i}]"
        yield from _timeout_problems(here, policy)
        if policy.action not in ACTIONS:
            yield f"{here}.action: {policy.action!r} is not supported: supported values: {', '.join(ACTIONS)}"
        for event in policy.all_events:
            if event not in EVENTS:
                yield f"{here}.event: {event!r} is not supported: supported values: {', '.join(EVENTS)}"
        if bool(policy.all_events) == (policy.exit_code is not None):
            yield f"{here}: Invalid value: must have either an event or an exitCode"


def _timeout_problems(path: str, policy: Policy) -> Iterator[str]:
    try:
        delay = policy.delay
    except ValueError as error:
        yield f"{path}.timeout: Invalid value: {error}"
        return
    if delay < 0:
        yield f"{path}.timeout: Invalid value: {policy.timeout}: must not be negative"
    if POD_PENDING in policy.all_events and not delay:
        yield f"{path}.timeout: Required value: every pod is pending at first, so {POD_PENDING} needs a timeout"
    for event in policy.all_events if delay else ():
        if event in EVENTS and event not in _EVENTS_WITH_TIMEOUT:
            supported = f"supported are timeouts of {', '.join(_EVENTS_WITH_TIMEOUT)} and exitCode"
            yield f"{path}.timeout: is not supported with the event {event!r}: {supported}"


def _dependency_problems(tasks: tuple[Task, ...]) -> Iterator[str]:
    names = {task.name for task in tasks}
    for i, task in enumerate(tasks):
        for name in task.depends_on.name or ():
            if name not in names:
                yield f"spec.tasks[{i}].dependsOn.name: Not found: {name!r}"
    try:
        TopologicalSorter({task.name: task.depends_on.name or () for task in tasks}).prepare()
    except CycleError as error:
        yield f"spec.tasks: dependsOn: Invalid value: cycle {' -> '.join(error.args[1])}"
