"""Asyncio driver of the workload controllers: informers, the work queue, and calls of the reconcile functions."""

from __future__ import annotations

import math
from functools import partial
from typing import NamedTuple

from pyscheduler.clock import Clock
from pyscheduler.embedded.client import Informer, WorkQueue
from pyscheduler.embedded.objects import Json, Key, owners_of
from pyscheduler.embedded.workloads import cron, daemonset, deployment, jobs, replicaset, statefulset
from pyscheduler.embedded.workloads.actions import Delete, Patch, Plan
from pyscheduler.embedded.workloads.apply_actions import PlanWrites
from pyscheduler.embedded.workloads.daemon_nodes import placement
from pyscheduler.embedded.workloads.expectations import EXPECTATIONS_TIMEOUT_SECONDS, Expectations
from pyscheduler.embedded.workloads.jobs.pods import is_tracked
from pyscheduler.embedded.workloads.objects import controller_uid, is_active, is_deleting, key_of, uid_of
from pyscheduler.embedded.workloads.orphans import release_orphan
from pyscheduler.embedded.workloads.recorder import EventRecorder
from pyscheduler.kube.object_client import ObjectClient

DEPLOYMENT, REPLICASET, JOB, CRONJOB, POD = "Deployment", "ReplicaSet", "Job", "CronJob", "Pod"
STATEFULSET, DAEMONSET, REPLICATION_CONTROLLER = "StatefulSet", "DaemonSet", "ReplicationController"
REVISION, NODE, CLAIM = "ControllerRevision", "Node", "PersistentVolumeClaim"
DAEMONSET_BATCH_SECONDS = 0.1
"""Least time for which changes of a DaemonSet's pods are collected: each reconcile reads all nodes."""
DAEMONSET_NODES_PER_SECOND = 5000
_STATUS_SHOWS_MISSING = (JOB, REPLICASET, REPLICATION_CONTROLLER)
_NOT_RECONCILED = (REVISION, NODE, CLAIM)


class QueueItem(NamedTuple):
    """Kind and key of an object to reconcile."""

    kind: str
    key: Key


class OwnerIndex:
    """Objects by the uid of the controller that owns them."""

    def __init__(self) -> None:
        self._by_owner: dict[str, dict[Key, Json]] = {}

    def of(self, owner: Json) -> list[Json]:
        return list(self._by_owner.get(uid_of(owner), {}).values())

    def change(self, before: Json | None, after: Json | None) -> None:
        """Apply one change of an owned object."""
        if before is not None:
            siblings = self._by_owner.get(controller_uid(before), {})
            siblings.pop(key_of(before), None)
            if not siblings:
                self._by_owner.pop(controller_uid(before), None)
        if after is not None and (owner := controller_uid(after)):
            self._by_owner.setdefault(owner, {})[key_of(after)] = after


class WorkloadControllers:
    """Controllers of workloads. The caller owns and runs the informers: `main` by kind, with what they read."""

    def __init__(
        self,
        client: ObjectClient,
        clock: Clock,
        pods: Informer[Json],
        main: dict[str, Informer[Json]],
        job_backoff_seconds: float,
    ) -> None:
        self._client, self._clock, self._pods, self._main = client, clock, pods, main
        self._job_backoff = job_backoff_seconds
        self._pods_of = OwnerIndex()
        self._owned = {kind: OwnerIndex() for kind in (REPLICASET, JOB, REVISION)}
        self._expected = Expectations()
        self._outdated: dict[QueueItem, tuple[str, float]] = {}
        self._failures: dict[str, jobs.Failures] = {}
        self._recorder = EventRecorder(client, clock)
        self.queue: WorkQueue[QueueItem] = WorkQueue(clock)
        pods.listeners.append(self._on_pod)
        for kind, informer in main.items():
            informer.listeners.append(partial(self._on_main, kind))

    async def reconcile(self, item: QueueItem) -> None:
        """Reconcile one object, unless the informers have not yet received this controller's last writes.

        Raises the ApiError of a pod that could not be created, last, so that the queue retries with backoff.
        """
        now = self._clock.wall()
        obj = (self._pods if item.kind == POD else self._main[item.kind]).objects.get(item.key)
        if obj is None:
            self.queue.forget(item)
            self._outdated.pop(item, None)
            return
        if not self._up_to_date(item, obj, now):
            self.queue.add_at(item, now + EXPECTATIONS_TIMEOUT_SECONDS)
            return
        plan, failures = self._plan(item.kind, obj, now)
        writes = PlanWrites(
            self._client, lambda obj: self._created(item, obj), lambda deletion: self._deleted(item, deletion)
        )
        await writes.change(plan.actions)
        if writes.missing and item.kind in _STATUS_SHOWS_MISSING:
            plan, failures = self._plan(item.kind, obj, now, writes)
        rejection = await writes.finish(plan.actions, self._recorder)
        self._remember(item, obj, plan, failures)
        if plan.requeue_at < math.inf:
            self.queue.add_at(item, plan.requeue_at)
        if rejection is not None:
            raise rejection

    def _up_to_date(self, item: QueueItem, obj: Json, now: float) -> bool:
        """Return True if the informers have received this controller's last writes."""
        if not self._expected.is_satisfied(item, now):
            return False
        version, at = self._outdated.get(item, ("", -math.inf))
        if version and version == obj["metadata"].get("resourceVersion") and now - at < EXPECTATIONS_TIMEOUT_SECONDS:
            return False
        self._outdated.pop(item, None)
        return True

    def _plan(
        self, kind: str, obj: Json, now: float, writes: PlanWrites | None = None
    ) -> tuple[Plan, jobs.Failures | None]:
        """Return the plan; after `writes` that lack pods its status shows that they could not be created."""
        if kind == POD:
            return Plan(release_orphan(obj, self._job_of(obj))), None
        if kind in (REPLICASET, REPLICATION_CONTROLLER):
            failure = str(writes.rejection) if writes is not None else ""
            return replicaset.reconcile(obj, self._pods_of.of(obj), now, failure), None
        if kind == CRONJOB:
            return cron.reconcile(obj, self._owned[JOB].of(obj), now), None
        if kind == JOB:
            failures, missing = self._failures.get(uid_of(obj), jobs.Failures()), writes.missing if writes else 0
            return jobs.reconcile(obj, self._pods_of.of(obj), now, failures, self._job_backoff, missing)
        if kind == STATEFULSET:
            claims = self._main[CLAIM].objects
            return statefulset.reconcile(obj, self._pods_of.of(obj), self._owned[REVISION].of(obj), claims, now), None
        if kind == DAEMONSET:
            nodes = self._main[NODE].objects.values()
            return daemonset.reconcile(obj, self._pods_of.of(obj), self._owned[REVISION].of(obj), nodes, now), None
        sets = self._owned[REPLICASET].of(obj)
        return deployment.reconcile(obj, sets, [pod for rs in sets for pod in self._pods_of.of(rs)], now), None

    def _remember(self, item: QueueItem, obj: Json, plan: Plan, failures: jobs.Failures | None) -> None:
        if failures is not None and failures.number:
            self._failures[uid_of(obj)] = failures
        elif failures is not None:
            self._failures.pop(uid_of(obj), None)
        if item.kind in (JOB, CRONJOB) and any(isinstance(a, Patch) and a.key == item.key for a in plan.actions):
            self._outdated[item] = (obj["metadata"].get("resourceVersion", ""), self._clock.wall())

    def _job_of(self, pod: Json) -> Json | None:
        """Return the Job that owns the pod, None if it does not exist."""
        for owner in owners_of(pod):
            job = self._main[JOB].objects.get((key_of(pod)[0], owner["name"])) if owner["kind"] == JOB else None
            if job is not None and uid_of(job) == owner["uid"]:
                return job
        return None

    def _created(self, item: QueueItem, obj: Json) -> None:
        cached = self._main.get(obj.get("kind", ""), self._pods).objects.get(key_of(obj))
        if cached is None or uid_of(cached) != uid_of(obj):
            self._expected.expect(item, uid_of(obj), self._clock.wall())

    def _deleted(self, item: QueueItem, deletion: Delete) -> None:
        informer = next((i for i in self._main.values() if i.kind == deletion.resource), self._pods)
        cached = informer.objects.get(deletion.key)
        if cached is not None and uid_of(cached) == deletion.uid and not is_deleting(cached):
            self._expected.expect(item, deletion.uid, self._clock.wall())

    def _on_pod(self, before: Json | None, after: Json | None) -> None:
        self._pods_of.change(before, after)
        owners = self._observe(before, after)
        if after is not None and is_tracked(after):
            self.queue.add(QueueItem(POD, key_of(after)))
        if after is None or not is_active(after):
            # Recreate waits until the last old pod has terminated, which its ReplicaSet's status does not show.
            for kind, key in owners:
                replica_set = self._main[REPLICASET].objects.get(key) if kind == REPLICASET else None
                self._queue_owners(replica_set)

    def _on_main(self, kind: str, before: Json | None, after: Json | None) -> None:
        if kind in self._owned:
            self._owned[kind].change(before, after)
            self._observe(before, after)
        if kind == NODE:
            self._on_node(before, after)
        if kind == CLAIM:
            self._observe(before, after)
            if before is not None and after is None:
                self._on_deleted_claim(before)
        if kind in _NOT_RECONCILED:
            return
        if after is not None:
            self.queue.add(QueueItem(kind, key_of(after)))
        elif kind == JOB and before is not None:
            self._failures.pop(uid_of(before), None)
            for pod in self._pods_of.of(before):
                self.queue.add(QueueItem(POD, key_of(pod)))

    def _on_node(self, before: Json | None, after: Json | None) -> None:
        """Queue the DaemonSets after changes that may change where they run, which heartbeats are not."""
        if before is None or after is None or placement(before) != placement(after):
            for key in self._main[DAEMONSET].objects:
                self.queue.add(QueueItem(DAEMONSET, key))

    def _on_deleted_claim(self, claim: Json) -> None:
        """Queue the StatefulSets of the namespace: a claim of a pod is created again."""
        for key in self._main[STATEFULSET].objects:
            if key[0] == key_of(claim)[0]:
                self.queue.add(QueueItem(STATEFULSET, key))

    def _observe(self, before: Json | None, after: Json | None) -> list[QueueItem]:
        """Record that the watch has delivered a change of an owned object; queue its owners and return them."""
        obj = after if after is not None else before
        if obj is not None and (before is None or after is None or is_deleting(after)):
            self._expected.observe(uid_of(obj))
        return self._queue_owners(obj)

    def _queue_owners(self, obj: Json | None) -> list[QueueItem]:
        if obj is None:
            return []
        namespace = key_of(obj)[0]
        items = [
            QueueItem(owner["kind"], (namespace, owner["name"]))
            for owner in owners_of(obj)
            if owner.get("controller") and owner["kind"] in self._main
        ]
        for item in items:
            if item.kind == DAEMONSET:
                delay = max(DAEMONSET_BATCH_SECONDS, len(self._main[NODE].objects) / DAEMONSET_NODES_PER_SECOND)
                self.queue.add_at(item, self._clock.wall() + delay)
            else:
                self.queue.add(item)
        return items
