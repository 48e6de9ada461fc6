"""Pods as the controllers of Volcano's kinds read them: the decoded manifest, reduced to a record."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final, NamedTuple

from pyscheduler.api.objects import ApiObject, ObjectMeta, PodSpec
from pyscheduler.api.resources import pod_requests

GROUP_NAMES: Final = ("scheduling.k8s.io/group-name", "scheduling.volcano.sh/group-name")
"""Annotations with the name of the pod's PodGroup; the first counts."""
QUEUE_NAMES: Final = ("pyscheduler.io/pod-group-queue", "scheduling.volcano.sh/queue-name")
"""Annotations with the name of the pod's queue; the first counts."""
JOB_NAME: Final = "volcano.sh/job-name"
JOB_NAMESPACE: Final = "volcano.sh/job-namespace"
TASK: Final = "volcano.sh/task-spec"
TASK_INDEX: Final = "volcano.sh/task-index"
PARTITION: Final = "volcano.sh/partition-id"
JOB_VERSION: Final = "volcano.sh/job-version"

SUCCEEDED, FAILED, RUNNING, PENDING = "Succeeded", "Failed", "Running", "Pending"
_NO_AMOUNTS: Final[Mapping[str, int]] = {}


class _Terminated(ApiObject, frozen=True):
    exit_code: int = 0
    finished_at: str | None = None


class _ContainerState(ApiObject, frozen=True):
    terminated: _Terminated | None = None


class _ContainerStatus(ApiObject, frozen=True):
    ready: bool = False
    state: _ContainerState | None = None


class _Condition(ApiObject, frozen=True):
    last_transition_time: str | None = None


class _Status(ApiObject, frozen=True):
    phase: str = ""
    container_statuses: tuple[_ContainerStatus, ...] | None = None
    conditions: tuple[_Condition, ...] | None = None


class WatchedPod(ApiObject, frozen=True):
    """Fields of a core/v1 Pod that `record` reads."""

    metadata: ObjectMeta
    spec: PodSpec
    status: _Status = _Status()


class PodRecord(NamedTuple):
    """Pod with a PodGroup or a queue of Volcano."""

    namespace: str
    name: str
    uid: str = ""
    group: str = ""
    """Name of its PodGroup, "" if it has none."""
    queue: str = ""
    """Queue that the pod itself names."""
    job: str = ""
    """UID of the Volcano Job that owns it, "" if none does."""
    task: str = ""
    task_index: int = 0
    version: int = 0
    """Version of the Volcano Job for which it was created."""
    scheduler: str = ""
    is_bound: bool = False
    phase: str = PENDING
    is_deleting: bool = False
    is_ready: bool = False
    exit_code: int = 0
    """Exit code of its first container that has failed."""
    requests: Mapping[str, int] = _NO_AMOUNTS
    since: str = ""
    """Time of its creation, of a failed pod that of its failure."""

    @property
    def is_finished(self) -> bool:
        """True if the pod has succeeded or failed."""
        return self.phase in (SUCCEEDED, FAILED)

    @property
    def is_allocated(self) -> bool:
        """True if the pod has resources of a node."""
        return self.is_bound and not self.is_finished


def record(pod: WatchedPod) -> PodRecord | None:
    """Return the record of a pod, None if it has neither a PodGroup nor a queue of Volcano."""
    meta, annotations = pod.metadata, pod.metadata.annotations or {}
    group = next((annotations[name] for name in GROUP_NAMES if annotations.get(name)), "")
    queue = next((annotations[name] for name in QUEUE_NAMES if annotations.get(name)), "")
    if not group and not queue:
        return None
    containers = pod.status.container_statuses or ()
    exits = [each.state.terminated.exit_code for each in containers if each.state and each.state.terminated]
    owners = [o for o in meta.owner_references or () if o.controller and o.kind == "Job"]
    job = next((o.uid for o in owners if o.api_version.startswith("batch.volcano.sh/")), "")
    return PodRecord(
        meta.namespace,
        meta.name,
        meta.uid,
        group,
        queue,
        job,
        annotations.get(TASK, ""),
        _number(annotations.get(TASK_INDEX)),
        _number(annotations.get(JOB_VERSION)),
        pod.spec.scheduler_name,
        bool(pod.spec.node_name),
        pod.status.phase or PENDING,
        meta.deletion_timestamp is not None,
        all(each.ready for each in containers),
        next((code for code in exits if code), 0),
        _requests(pod.spec),
        _since(pod),
    )


def _since(pod: WatchedPod) -> str:
    created = pod.metadata.creation_timestamp or ""
    if pod.status.phase != FAILED:
        return created
    states = [each.state for each in pod.status.container_statuses or () if each.state]
    times = [state.terminated.finished_at for state in states if state.terminated and state.terminated.finished_at]
    # A pod that the kubelet rejects or evicts may have no container that has finished.
    times = times or [each.last_transition_time for each in pod.status.conditions or () if each.last_transition_time]
    return max((created, *times))


def _number(text: str | None) -> int:
    return int(text) if text is not None and text.isdecimal() else 0


def _requests(spec: PodSpec) -> Mapping[str, int]:
    try:
        return pod_requests(spec).real
    except ValueError:
        return _NO_AMOUNTS  # an invalid quantity, which the scheduler reports
