"""Jobs of a simulation: a pod group is a job, and every other pod is a job of its own, whatever the configuration.

A job runs once the minimum of its pods have nodes: pods of a group that have theirs earlier wait for the others.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any, Final

from pyscheduler.api.pod import Pod
from pyscheduler.api.pod_group import PodGroupKey
from pyscheduler.simulator.scenario import Manifest
from pyscheduler.simulator.workload import SimulatedWorkload
from pyscheduler_plugins.pod_groups import membership, native, pod_annotations, volcano

DEFAULT_QUEUE: Final = "default"
_MAX_MESSAGES: Final = 4


@dataclass(slots=True, eq=False)
class SimulatedPod:
    """Pod, through all its evictions."""

    key: str
    manifest: Manifest
    """Manifest from which it is created anew."""
    workload: SimulatedWorkload
    job: SimulatedJob
    run_seconds: float | None
    """None: it runs until the end."""
    requests: Mapping[str, int]
    node: str = ""
    bound_at: float = 0.0
    running_since: float | None = None
    """Time from which its run time counts: the minimum of its job has nodes."""
    run: int = 0
    """Number of its runs that were cut short."""
    has_ended: bool = False


@dataclass(slots=True, eq=False)
class SimulatedJob:
    """Pod group, or a pod without one."""

    name: str
    """`namespace/name`."""
    is_group: bool
    arrival: str
    """Name of its arrival, "" for objects at time 0."""
    queue: str
    arrived: float
    minimum: int
    pods: dict[str, SimulatedPod] = field(default_factory=dict)
    created: int = 0
    """Number of pods, without those that were created anew."""
    bound: int = 0
    """Number of pods that have nodes now."""
    succeeded: int = 0
    evictions: int = 0
    lost: int = 0
    """Number of pods that were lost with their nodes."""
    is_running: bool = False
    """True if the minimum has nodes."""
    started: float | None = None
    """First time at which the minimum had nodes."""
    ended: float | None = None
    """Time at which the last pod ended, or the job without a controller was evicted."""
    nodes: dict[str, None] = field(default_factory=dict)
    """All nodes of its pods, in the order of their use."""
    cpu_seconds: float = 0.0
    """Time that its pods have had nodes, in core-seconds."""
    messages: list[str] = field(default_factory=list)
    """Messages of the scheduler on why a pod waits: the first ones, and the last one."""

    def add_message(self, message: str) -> None:
        """Add a message on why a pod waits."""
        if message in self.messages[-1:]:
            return
        if len(self.messages) == _MAX_MESSAGES:
            self.messages.pop()
        self.messages.append(message)

    @property
    def has_minimum(self) -> bool:
        """True if enough pods have nodes or have succeeded."""
        return self.bound + self.succeeded >= self.minimum

    @property
    def is_waiting(self) -> bool:
        """True if the job exists and its minimum has no nodes."""
        return not self.is_running and self.ended is None


def group_of(pod: Pod) -> PodGroupKey | None:
    """Return the group that a pod declares by any API, None for a pod that is scheduled by itself."""
    key = membership.group_of(pod)
    return None if key is None or key.api == membership.INVALID else key


def minimum_of(key: PodGroupKey, pod: Pod, pod_group: Mapping[str, Any] | None) -> int:
    """Return the minimum of a group, as its PodGroup or the annotations of its pods declare it."""
    spec = (pod_group or {}).get("spec") or {}
    if key.api == native.GROUP:
        policy = spec.get("schedulingPolicy")
        gang = policy.get("gang") if isinstance(policy, dict) else None
        return _number(gang.get("minCount")) if isinstance(gang, dict) else 1
    if pod_group is None:
        return _number(pod.annotations.get(pod_annotations.MIN_COUNT))
    return _number(spec.get("minMember"))


def queue_of(pod: Pod, pod_group: Mapping[str, Any] | None, quotas: Iterable[Mapping[str, Any]]) -> str:
    """Return the queue of a pod's job: that of its namespace's ElasticQuota, of its PodGroup, or of its annotations."""
    for quota in quotas:
        meta = quota["metadata"]
        if meta.get("namespace") == pod.namespace:
            return f"{pod.namespace}/{meta['name']}"
    if pod_group is not None and str(pod_group.get("apiVersion", "")).startswith(f"{volcano.GROUP}/"):
        queue = (pod_group.get("spec") or {}).get("queue")
        if queue:
            return str(queue)
    named = (pod.annotations[name] for name in pod_annotations.QUEUES if pod.annotations.get(name))
    return next(named, DEFAULT_QUEUE)


def _number(value: object) -> int:
    try:
        return max(1, int(str(value)))
    except ValueError:
        return 1
