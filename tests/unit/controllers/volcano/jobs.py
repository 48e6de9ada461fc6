"""Volcano Jobs in memory: a Job with its pods, which follow the plans of the controller."""

from __future__ import annotations

from typing import Any

from pyscheduler.clock import rfc3339
from pyscheduler.controllers.volcano.job_plan import JobPlan, plan_job
from pyscheduler.controllers.volcano.pods import PodRecord

Json = dict[str, Any]
UID = "job-uid"


def task(name: str, replicas: int, **fields: Any) -> Json:
    """Return a task with one container."""
    return {
        "name": name,
        "replicas": replicas,
        "template": {"spec": {"containers": [{"name": "main", "image": "app:1"}]}},
        **fields,
    }


def policy(event: str, action: str, **fields: Any) -> Json:
    """Return a policy."""
    return {"event": event, "action": action, **fields}


def job(*tasks: Json, **fields: Any) -> Json:
    """Return a Job of our scheduler."""
    return {
        "apiVersion": "batch.volcano.sh/v1alpha1",
        "kind": "Job",
        "metadata": {"name": "j", "namespace": "ns", "uid": UID},
        "spec": {"schedulerName": "pyscheduler", "tasks": list(tasks), **fields},
    }


class JobCluster:
    """A Job, and the objects that its plans create; `plan` applies the next plan."""

    def __init__(self, manifest: Json) -> None:
        self.job, self.status = manifest, dict[str, Any]()
        self.group: Json | None = None
        self.pods: dict[str, PodRecord] = {}
        self.created: dict[str, Json] = {}
        self.events: list[str] = []
        self.now, self._uids = 0.0, 0

    def plan(self) -> JobPlan:
        """Apply one plan. Deleted pods are terminating until `remove`."""
        plan = plan_job(self.job, self.status, list(self.pods.values()), self.group, self.now)
        self.status = plan.status
        self.events += [event.note for event in plan.events]
        if plan.pod_group is None or self.group is None:
            self.group = plan.pod_group
        else:
            self.group = {**self.group, "spec": plan.pod_group["spec"]}
        for pod in plan.pods_to_delete:
            self.pods[pod.name] = pod._replace(is_deleting=True)
        for manifest in plan.pods_to_create:
            self._create(manifest)
        return plan

    def run(self) -> str:
        """Apply plans until nothing changes, removing terminating pods; return the phase of the Job."""
        for _ in range(20):
            before = (self.status, dict(self.pods))
            self.plan()
            self.pods = {name: pod for name, pod in self.pods.items() if not pod.is_deleting}
            if before == (self.status, self.pods):
                return self.phase
        raise AssertionError("the plans do not end")

    def set(self, phase: str, *names: str, **fields: Any) -> None:
        """Set the phase of pods, of all if no names are given."""
        for name in names or list(self.pods):
            self.pods[name] = self.pods[name]._replace(
                phase=phase, is_bound=True, is_ready=phase == "Running", since=rfc3339(self.now), **fields
            )

    def remove(self, *names: str) -> None:
        """Remove pods, as an eviction does."""
        for name in names:
            del self.pods[name]

    @property
    def phase(self) -> str:
        """The phase of the Job."""
        return str(self.status["state"]["phase"])

    @property
    def uids(self) -> dict[str, str]:
        """The UIDs of the pods by name."""
        return {name: pod.uid for name, pod in self.pods.items()}

    def _create(self, manifest: Json) -> None:
        meta, self._uids = manifest["metadata"], self._uids + 1
        assert meta["name"] not in self.pods
        self.created[meta["name"]] = manifest
        notes = meta["annotations"]
        self.pods[meta["name"]] = PodRecord(
            meta["namespace"], meta["name"], f"uid{self._uids}", notes["scheduling.k8s.io/group-name"], job=UID,
            task=notes["volcano.sh/task-spec"], task_index=int(notes["volcano.sh/task-index"]),
            version=int(notes["volcano.sh/job-version"]), scheduler=manifest["spec"]["schedulerName"],
            since=rfc3339(self.now),
        )  # fmt: skip
