"""Pod of a task: its name, derived from task and attempt, and its body."""

from __future__ import annotations

import hashlib
import re
from functools import lru_cache
from typing import Any, Final

import msgspec

from pyscheduler.api import ResourceKind
from pyscheduler.backend.task import Json, TaskRecord, TaskSpec

BACKEND = "pyscheduler.io/backend"
"""Label with the name of the pod's backend."""
TASK = "pyscheduler.io/task"
"""Label with a hash of the task's id; also the finalizer that keeps a pod until its end is recorded."""
QUEUE = "pyscheduler.io/queue"
QUEUE_OF_POD, QUEUE_OF_GROUP = "scheduling.volcano.sh/queue-name", "pyscheduler.io/pod-group-queue"
"""Annotations with the Queue of a pod without a group and of a pod group, which the plugin Queues reads."""
TASK_ID = "pyscheduler.io/task-id"
"""Annotation with the task's id."""
ATTEMPT = "pyscheduler.io/task-attempt"
SUBMISSION = "pyscheduler.io/task-submission"
"""Annotation with the submission of the task's record."""
CONTAINERS = "pyscheduler.io/task-containers"
"""Annotation with the names of the task's own containers; webhooks may inject others."""
FINALIZER = TASK
POD_GROUP = "scheduling.x-k8s.io/pod-group"
"""Label with the gang: that of the Coscheduling plugin, which the plugin Gang reads too."""
POD_GROUPS = ResourceKind("scheduling.x-k8s.io", "v1alpha1", "podgroups", "PodGroup")

_NAMES: Final = 4096
"""Names of pods that are kept: a task's name is needed with each of its changes."""
_NOT_DNS = re.compile(r"[^a-z0-9]+")
_NATIVE = ("cpu", "memory", "ephemeral-storage")


def task_hash(backend: str, task: str) -> str:
    """Return ten hexadecimal digits that differ between tasks, also of two backends in one namespace."""
    return hashlib.sha256(f"{backend}\0{task}".encode()).hexdigest()[:10]


@lru_cache(_NAMES)
def pod_name(backend: str, task: str, attempt: int) -> str:
    """Return the name of the attempt's pod, valid as a host name. A repeated create fails with AlreadyExists."""
    slug = _NOT_DNS.sub("-", task.lower()).strip("-")[:40].strip("-") or "task"
    return f"{slug}-{task_hash(backend, task)}-{attempt}"


def selector(backend: str) -> str:
    """Return the label selector of all pods of a backend."""
    return f"{BACKEND}={backend}"


def pod_body(record: TaskRecord, backend: str, scheduler: str, *, finalizer: bool = True) -> Json:
    """Return the pod manifest of the record's attempt, with the backend's finalizer unless `finalizer` is False."""
    spec = record.spec
    template: Json = spec.pod if spec.pod is not None else {}
    meta: Json = template.get("metadata") or {}
    annotations = {**(meta.get("annotations") or {}), **spec.annotations}
    labels = {**(meta.get("labels") or {}), **spec.labels, BACKEND: backend, TASK: task_hash(backend, spec.id)}
    if spec.queue:
        labels[QUEUE] = spec.queue
        annotations[QUEUE_OF_GROUP if spec.gang is not None else QUEUE_OF_POD] = spec.queue
    if spec.gang is not None:
        labels[POD_GROUP] = spec.gang.name
    annotations |= {TASK_ID: spec.id, ATTEMPT: str(record.attempt)}
    if record.submission:
        annotations[SUBMISSION] = record.submission
    body = _pod_spec(spec, scheduler)
    annotations[CONTAINERS] = ",".join(_main_containers(spec, body))
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {
            "name": pod_name(backend, spec.id, record.attempt),
            "labels": labels,
            "annotations": annotations,
            "finalizers": [*(meta.get("finalizers") or ()), *([FINALIZER] if finalizer else ())],
        },
        "spec": body,
    }


def _main_containers(spec: TaskSpec, body: Json) -> list[str]:
    """Return the names of the containers whose ends are the task's end."""
    if spec.main_container:
        return [spec.main_container]
    return [str(container.get("name", "")) for container in body.get("containers") or () if isinstance(container, dict)]


def _pod_spec(spec: TaskSpec, scheduler: str) -> Json:
    body: Json = dict(spec.pod.get("spec") or {}) if spec.pod is not None else {"containers": [_container(spec)]}
    body.setdefault("restartPolicy", "Never")
    if spec.scheduler or "schedulerName" not in body:
        body["schedulerName"] = spec.scheduler or scheduler
    if spec.priority_class:
        body["priorityClassName"] = spec.priority_class
    if spec.node_selector:
        body["nodeSelector"] = {**(body.get("nodeSelector") or {}), **spec.node_selector}
    if spec.pull_secrets:
        secrets = [{"name": name} for name in spec.pull_secrets]
        body["imagePullSecrets"] = [*(body.get("imagePullSecrets") or ()), *secrets]
    if spec.service_account:
        body["serviceAccountName"] = spec.service_account
    if spec.tolerations:
        body["tolerations"] = [*(body.get("tolerations") or ()), *msgspec.to_builtins(spec.tolerations)]
    return body


def _container(spec: TaskSpec) -> Json:
    requests = {name: q for name, q in {"cpu": spec.cpu, "memory": spec.memory, **spec.resources}.items() if q}
    limits = {**{n: q for n, q in spec.resources.items() if n not in _NATIVE}, **spec.limits}
    # The last lines of the log become the message of a failure that writes no message of its own.
    body: dict[str, Any] = {
        "name": "task",
        "image": spec.image,
        "terminationMessagePolicy": "FallbackToLogsOnError",
    }
    if spec.command:
        body["command"] = list(spec.command)
    if spec.args:
        body["args"] = list(spec.args)
    if spec.env:
        body["env"] = [{"name": name, "value": value} for name, value in spec.env.items()]
    if requests or limits:
        body["resources"] = {kind: amounts for kind, amounts in (("requests", requests), ("limits", limits)) if amounts}
    return body


def pod_group(spec: TaskSpec, backend: str) -> Json:
    """Return the PodGroup manifest of the task's gang. The task must have a gang."""
    gang = spec.gang
    assert gang is not None
    group_spec: Json = {"minMember": gang.size}
    if gang.timeout_seconds is not None:
        group_spec["scheduleTimeoutSeconds"] = gang.timeout_seconds
    return {
        "apiVersion": "scheduling.x-k8s.io/v1alpha1",
        "kind": "PodGroup",
        "metadata": {
            "name": gang.name,
            "labels": {BACKEND: backend},
            "annotations": {QUEUE_OF_GROUP: spec.queue} if spec.queue else {},
        },
        "spec": group_spec,
    }
