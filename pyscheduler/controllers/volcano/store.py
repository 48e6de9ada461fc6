"""Objects that the controllers of Volcano's kinds read, with indexes by group, queue and Job.

Changes are reported to `on_change` for each object whose status may depend on them.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Callable, Collection, Iterator, Mapping
from typing import Any, Final

from pyscheduler.api import ResourceKind
from pyscheduler.controllers.volcano.job_spec import scheduler_of
from pyscheduler.controllers.volcano.pod_group_status import PENDING
from pyscheduler.controllers.volcano.pods import PodRecord
from pyscheduler.controllers.volcano.queue_status import DEFAULT_QUEUE, is_open

POD_GROUPS: Final = ResourceKind("scheduling.volcano.sh", "v1beta1", "podgroups", "PodGroup", optional=True)
QUEUES: Final = ResourceKind("scheduling.volcano.sh", "v1beta1", "queues", "Queue", namespaced=False, optional=True)
JOBS: Final = ResourceKind("batch.volcano.sh", "v1alpha1", "jobs", "Job", optional=True)

Json = dict[str, Any]
Key = tuple[str, str]
"""Namespace ("" for queues) and name."""
OnChange = Callable[[ResourceKind, Key], None]


class VolcanoStore:
    """PodGroups, Queues, Jobs and their pods.

    A group or Job belongs to us if it names one of `schedulers`. Others count toward no queue, as in the scheduler.
    """

    def __init__(self, schedulers: Collection[str], on_change: OnChange) -> None:
        self._schedulers, self._on_change = schedulers, on_change
        self.groups: dict[Key, Json] = {}
        self.queues: dict[Key, Json] = {}
        self.jobs: dict[Key, Json] = {}
        self._pods: dict[Key, PodRecord] = {}
        self._by_group: dict[Key, dict[str, PodRecord]] = defaultdict(dict)
        self._by_job: dict[str, dict[str, PodRecord]] = defaultdict(dict)
        self._groups_of_queue: dict[str, dict[Key, None]] = defaultdict(dict)
        self._allocated: dict[Key, Counter[str]] = defaultdict(Counter)
        """Sum of the requests of our pods on nodes, by group, or by ("", queue) for pods without a group."""
        self._job_keys: dict[str, Key] = {}

    def set_group(self, key: Key, group: Json | None) -> None:
        """Store a PodGroup; None if it was deleted."""
        before = self.groups.pop(key, None)
        if before is not None:
            self._groups_of_queue[queue_of(before)].pop(key, None)
        if group is not None:
            self.groups[key] = group
            self._groups_of_queue[queue_of(group)][key] = None
        self._on_change(POD_GROUPS, key)
        for each in filter(None, (before, group)):
            self._on_change(QUEUES, ("", queue_of(each)))
            self._change_owner(key[0], each)

    def set_queue(self, key: Key, queue: Json | None) -> None:
        """Store a Queue; None if it was deleted."""
        name = key[1]
        was_open = self.is_queue_open(name)
        _set(self.queues, key, queue)
        self._on_change(QUEUES, key)
        if self.is_queue_open(name) != was_open:
            for group in self._groups_of_queue[name]:
                self._on_change(POD_GROUPS, group)

    def set_job(self, key: Key, job: Json | None) -> None:
        """Store a Volcano Job; None if it was deleted."""
        before = self.jobs.get(key)
        if before is not None:
            self._job_keys.pop(before["metadata"]["uid"], None)
        _set(self.jobs, key, job)
        if job is not None:
            self._job_keys[job["metadata"]["uid"]] = key
        self._on_change(JOBS, key)

    def set_pod(self, key: Key, pod: PodRecord | None) -> None:
        """Store a pod; None if it was deleted or has no group and no queue."""
        before = self._pods.get(key)
        if before == pod:
            return
        _set(self._pods, key, pod)
        if before is not None:
            self._remove(before)
        if pod is not None:
            self._add(pod)
        for each in {id(each): each for each in (before, pod) if each is not None}.values():
            self._change_dependents(each)

    def pods_of_group(self, key: Key) -> list[PodRecord]:
        """Return the pods of a PodGroup."""
        return list(self._by_group[key].values()) if key in self._by_group else []

    def pods_of_job(self, uid: str) -> list[PodRecord]:
        """Return the pods of a Volcano Job."""
        return list(self._by_job[uid].values()) if uid in self._by_job else []

    def is_queue_open(self, name: str) -> bool:
        """Return True if groups of the queue may be scheduled. The default queue needs no object."""
        queue = self.queues.get(("", name))
        return is_open(queue) if queue is not None else name == DEFAULT_QUEUE

    def phases(self, queue: str) -> Iterator[str]:
        """Yield the phases of our groups of a queue."""
        for key in filter(self.has_our_group, self._groups_of_queue[queue]):
            yield (self.groups[key].get("status") or {}).get("phase") or PENDING

    def allocated(self, queue: str) -> Counter[str]:
        """Return the sum of the requests of our pods of a queue on nodes."""
        total: Counter[str] = Counter(self._allocated.get(("", queue)))
        for key in self._groups_of_queue[queue]:
            total.update(self._allocated.get(key) or {})
        return total

    def has_our_job(self, key: Key) -> bool:
        """Return True if the Job exists and names one of our schedulers."""
        job = self.jobs.get(key)
        return job is not None and scheduler_of(job) in self._schedulers

    def has_our_group(self, key: Key) -> bool:
        """Return True if the group exists and is not that of another scheduler.

        A group without pods is that of its Job's scheduler. Pods of one group have one scheduler.
        """
        group = self.groups.get(key)
        if group is None:
            return False
        pod = next(iter(self._by_group[key].values()), None) if key in self._by_group else None
        if pod is not None:
            return pod.scheduler in self._schedulers
        return all(self.has_our_job((key[0], name)) for name in _job_owners(group))

    def _add(self, pod: PodRecord) -> None:
        if pod.group:
            self._by_group[pod.namespace, pod.group][pod.name] = pod
        if pod.job:
            self._by_job[pod.job][pod.name] = pod
        if self._is_counted(pod):
            self._allocated[_bucket(pod)].update(pod.requests)

    def _remove(self, pod: PodRecord) -> None:
        group = (pod.namespace, pod.group)
        if pod.group:
            self._by_group[group].pop(pod.name, None)
            if not self._by_group[group]:
                del self._by_group[group]
        if pod.job:
            self._by_job[pod.job].pop(pod.name, None)
            if not self._by_job[pod.job]:
                del self._by_job[pod.job]
        if self._is_counted(pod):
            allocated = self._allocated[_bucket(pod)]
            allocated.subtract(pod.requests)
            for name in [name for name, amount in allocated.items() if not amount]:
                del allocated[name]
            if not allocated:
                del self._allocated[_bucket(pod)]

    def _is_counted(self, pod: PodRecord) -> bool:
        """Return True if the requests of the pod count for its queue."""
        return pod.is_allocated and pod.scheduler in self._schedulers

    def _change_dependents(self, pod: PodRecord) -> None:
        key = (pod.namespace, pod.group)
        if pod.group:
            self._on_change(POD_GROUPS, key)
        queue = queue_of(self.groups[key]) if key in self.groups else pod.queue
        if queue:
            self._on_change(QUEUES, ("", queue))
        if pod.job in self._job_keys:
            self._on_change(JOBS, self._job_keys[pod.job])

    def _change_owner(self, namespace: str, group: Mapping[str, Any]) -> None:
        for name in _job_owners(group):
            self._on_change(JOBS, (namespace, name))


def queue_of(group: Mapping[str, Any]) -> str:
    """Return the queue of a PodGroup."""
    return str((group.get("spec") or {}).get("queue") or DEFAULT_QUEUE)


def _bucket(pod: PodRecord) -> Key:
    return (pod.namespace, pod.group) if pod.group else ("", pod.queue)


def _job_owners(group: Mapping[str, Any]) -> list[str]:
    owners = group["metadata"].get("ownerReferences") or ()
    return [o["name"] for o in owners if o.get("kind") == JOBS.kind and o["apiVersion"].startswith(f"{JOBS.group}/")]


def _set(objects: dict[Key, Any], key: Key, obj: object) -> None:
    if obj is None:
        objects.pop(key, None)
    else:
        objects[key] = obj
