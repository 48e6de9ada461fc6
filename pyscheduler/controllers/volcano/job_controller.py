"""Executes the plans of Volcano Jobs.

The last status that was written is newer than that of the object until the watch delivers it, and plans depend on it.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field
from typing import Any, Final

from pyscheduler.api import ApiError, ResourceKind
from pyscheduler.clock import rfc3339_micro
from pyscheduler.controllers.key_queue import RETRY_SECONDS
from pyscheduler.controllers.status_writer import status_patch
from pyscheduler.controllers.volcano.job_names import API_VERSION, pod_group_name
from pyscheduler.controllers.volcano.job_plan import JobEvent, JobPlan, plan_job
from pyscheduler.controllers.volcano.plugin_objects import secret_data
from pyscheduler.controllers.volcano.ssh_keys import PRIVATE_KEY, generate_key_files
from pyscheduler.controllers.volcano.store import JOBS, POD_GROUPS, Key, VolcanoStore
from pyscheduler.kube.errors import is_not_found
from pyscheduler.kube.object_client import ObjectClient
from pyscheduler.kube.paths import EVENTS, PODS
from pyscheduler.truncation import MAX_NOTE, event_name, truncated

CONTROLLER: Final = "pyscheduler-volcano-jobs"
_NAMED_BY_JOB: Final = {
    "Service": ResourceKind("", "v1", "services", "Service"),
    "ConfigMap": ResourceKind("", "v1", "configmaps", "ConfigMap"),
}
_NAMED_BY_UID: Final = {
    "Secret": ResourceKind("", "v1", "secrets", "Secret"),
    "NetworkPolicy": ResourceKind("networking.k8s.io", "v1", "networkpolicies", "NetworkPolicy"),
    "PersistentVolumeClaim": ResourceKind("", "v1", "persistentvolumeclaims", "PersistentVolumeClaim"),
}
"""Kinds whose objects have the UID of the Job in their names: one that exists is that of the Job."""
_CONFLICT: Final = 409
_REJECTED: Final = (400, 403, 413, 422)
"""Statuses of writes that fail until the Job or the rights of the scheduler change."""

Json = dict[str, Any]


@dataclass
class _Known:
    """Writes to a Job that the watches may not have shown yet."""

    uid: str
    status: Json
    shared: dict[tuple[str, str], Json] = field(default_factory=dict)
    """Objects of plugins and volumes that exist, by kind and name."""
    keys: dict[str, str] | None = None
    """Files of new keys, until their Secret exists."""
    problem: str = ""
    """Last reported failure."""


class VolcanoJobController:
    """Brings the objects of Volcano Jobs to the state of their plans."""

    def __init__(
        self,
        client: ObjectClient,
        store: VolcanoStore,
        wall: Callable[[], float],
        add_after: Callable[[Key, float], None],
        generate_keys: Callable[[], Awaitable[dict[str, str]]] = generate_key_files,
    ) -> None:
        """`add_after` queues a Job for `process` after some seconds; `generate_keys` returns files for the Secret."""
        self._client, self._store, self._wall, self._add_after = client, store, wall, add_after
        self._generate_keys = generate_keys
        self._known: dict[Key, _Known] = {}

    async def process(self, key: Key) -> None:
        """Execute the plan of a Job. ApiError if a write failed: the next call makes the rest."""
        job = self._store.jobs.get(key)
        if job is None or not self._store.has_our_job(key) or job["metadata"].get("deletionTimestamp"):
            self._known.pop(key, None)
            return
        uid = job["metadata"]["uid"]
        known = self._known.get(key)
        if known is None or known.uid != uid:
            known = self._known[key] = _Known(uid, job.get("status") or {})
        group = self._store.groups.get((key[0], pod_group_name(job)))
        plan = plan_job(job, known.status, self._store.pods_of_job(uid), group, self._wall())
        if plan.delete_job:
            await self._ignoring(self._client.delete, JOBS, key, uid)
            return
        try:
            await self._execute(key, job, known, plan, group)
        except ApiError as problem:
            if problem.status in _REJECTED:
                await self._report(job, known, JobEvent("FailedSync", str(problem), is_warning=True))
            raise
        await self._create_pods(key, job, known, plan)
        if plan.again_after is not None:
            self._add_after(key, plan.again_after)

    async def _execute(self, key: Key, job: Json, known: _Known, plan: JobPlan, group: Json | None) -> None:
        """Make the writes of a plan, except that of new pods."""
        for obj in plan.shared:
            await self._apply_shared(known, obj)
        await self._apply_pod_group(job, group, plan.pod_group)
        await self._write_status(key, known, plan.status)
        for event in plan.events:
            await self._client.create(EVENTS, _event(job, event, self._wall()))
        for pod in plan.pods_to_delete:
            await self._ignoring(self._client.delete, PODS, (pod.namespace, pod.name), pod.uid)

    async def _write_status(self, key: Key, known: _Known, status: Json) -> None:
        patch = status_patch({"metadata": {}, "status": known.status}, status)
        if patch is not None:
            change = {"metadata": {"uid": known.uid}, "status": patch["status"]}
            await self._client.patch(JOBS, key, change, subresource="status")
        known.status = status

    async def _create_pods(self, key: Key, job: Json, known: _Known, plan: JobPlan) -> None:
        is_taken = False
        for manifest in plan.pods_to_create:
            try:
                await self._client.create(PODS, manifest)
            except ApiError as problem:
                if problem.status != _CONFLICT:
                    note = f"pod {manifest['metadata']['name']}: {problem}"
                    await self._report(job, known, JobEvent("FailedCreatePod", note, is_warning=True))
                    raise
                is_taken = True
        if is_taken:  # by a pod that the watch has not shown yet, or that another Job of the name has left
            self._add_after(key, RETRY_SECONDS)

    async def _report(self, job: Json, known: _Known, event: JobEvent) -> None:
        """Create an event about a failed write, unless it is the last one."""
        if event.note != known.problem:
            known.problem = event.note
            await self._client.create(EVENTS, _event(job, event, self._wall()))

    async def _apply_pod_group(self, job: Json, group: Json | None, wanted: Json | None) -> None:
        key = (job["metadata"]["namespace"], pod_group_name(job))
        if wanted is None:
            if group is not None:
                await self._ignoring(self._client.delete, POD_GROUPS, key, group["metadata"]["uid"])
        elif group is None:
            await self._ignoring(self._client.create, POD_GROUPS, wanted)
        else:
            patch = status_patch({"metadata": {}, "status": group.get("spec")}, wanted["spec"])
            if patch is not None:
                await self._client.patch(POD_GROUPS, key, {"spec": patch["status"]})

    async def _apply_shared(self, known: _Known, obj: Json) -> None:
        """Create or update an object of a plugin or a volume, unless it is up to date."""
        place = (obj["kind"], obj["metadata"]["name"])
        if known.shared.get(place) == obj:
            return
        if obj["kind"] in _NAMED_BY_JOB:
            await self._create_or_update(known.uid, obj)
        elif obj["kind"] == "Secret":
            await self._ignoring(self._client.create, _NAMED_BY_UID["Secret"], await self._with_keys(known, obj))
            known.keys = None
        else:
            await self._ignoring(self._client.create, _NAMED_BY_UID[obj["kind"]], obj)
        known.shared[place] = obj

    async def _with_keys(self, known: _Known, secret: Json) -> Json:
        """Return the Secret with its keys, or with new ones, which are kept until the Secret exists."""
        if PRIVATE_KEY in secret["data"]:
            return secret
        if known.keys is None:
            known.keys = await self._generate_keys()
        return {**secret, "data": {**secret["data"], **secret_data(known.keys)}}

    async def _create_or_update(self, uid: str, obj: Json) -> None:
        """Create a Service or ConfigMap. One that exists is updated if it belongs to the Job. ApiError if not."""
        kind, meta = _NAMED_BY_JOB[obj["kind"]], obj["metadata"]
        try:
            await self._client.create(kind, obj)
            return
        except ApiError as problem:
            if problem.status != _CONFLICT:
                raise
        change = [{"op": "test", "path": "/metadata/ownerReferences/0/uid", "value": uid}]
        if "data" in obj:
            change.append({"op": "add", "path": "/data", "value": obj["data"]})
        try:
            await self._client.patch(kind, (meta["namespace"], meta["name"]), change, "json")
        except ApiError as problem:
            if problem.status not in _REJECTED:
                raise
            note = f"{kind.kind} {meta['name']} exists already and does not belong to the Job: {problem}"
            raise ApiError(problem.status, problem.reason, note) from None

    async def _ignoring(self, call: Callable[..., Any], *arguments: Any) -> None:
        """Call the client; an object that exists already, or no longer, is as wanted, or the watch will show it."""
        try:
            await call(*arguments)
        except ApiError as problem:
            if problem.status != _CONFLICT and not is_not_found(problem):
                raise


def _event(job: Json, event: JobEvent, now: float) -> Json:
    meta = job["metadata"]
    return {
        "apiVersion": "events.k8s.io/v1",
        "kind": "Event",
        "metadata": {"name": event_name(meta["name"], int(now * 1e9)), "namespace": meta["namespace"]},
        "eventTime": rfc3339_micro(now),
        "reportingController": CONTROLLER,
        "reportingInstance": CONTROLLER,
        "action": event.reason,
        "reason": event.reason,
        "type": "Warning" if event.is_warning else "Normal",
        "note": truncated(event.note, MAX_NOTE),
        "regarding": {
            "apiVersion": API_VERSION,
            "kind": JOBS.kind,
            "name": meta["name"],
            "namespace": meta["namespace"],
            "uid": meta["uid"],
        },
    }
