"""Which pods belong to a task, and how an orphan becomes a task again.

An orphan has the backend's label and no record: its state was lost, or its record forgotten. The backend leaves it
alone, until it is adopted or released.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from pyscheduler.api import ApiError
from pyscheduler.backend.client import PodsApi
from pyscheduler.backend.decode import pod_of
from pyscheduler.backend.errors import NoOrphan
from pyscheduler.backend.pods import PodState
from pyscheduler.backend.task import Json, TaskRecord, TaskSpec, checked
from pyscheduler.backend.template import ATTEMPT, BACKEND, FINALIZER, SUBMISSION, TASK, TASK_ID, pod_name
from pyscheduler.kube.paths import PODS

_MISSING: Final = 404
_TOKEN_VOLUME: Final = "kube-api-access-"
"""Name prefix of the volume that admission adds to every pod, and adds again to its successor."""
_ADDED_BY_CLUSTER: Final = ("nodeName", "serviceAccount", "priority", "preemptionPolicy", "enableServiceLinks")


def is_orphan(pod: PodState, record: TaskRecord | None, backend: str) -> bool:
    """Return True unless the pod is of the record's submission and has the name of its attempt."""
    if record is None or pod.submission != record.submission:
        return True
    return pod.name != pod_name(backend, pod.task, pod.attempt)


async def adopted_record(client: PodsApi, orphans: Mapping[str, PodState], pod: str, backend: str) -> TaskRecord:
    """Return a record for the task of an orphan; further attempts repeat the pod. NoOrphan, TaskProblem, ApiError."""
    if pod not in orphans:
        raise NoOrphan(f"there is no orphan {pod!r}; `pyscheduler tasks orphans list` shows all")
    try:
        body = await client.get_object(PODS, pod)
    except ApiError as problem:
        if problem.status != _MISSING:
            raise
        raise NoOrphan(f"pod {pod!r} has been deleted") from None
    state = pod_of(body)
    if state.name != pod_name(backend, state.task, state.attempt):
        raise NoOrphan(f"pod {pod!r} was not created by this backend, so it cannot be adopted; release it")
    spec = checked(TaskSpec(id=state.task, pod=_template(body)))
    created_at = state.created_at or 0.0
    return TaskRecord(
        spec=spec,
        attempt=state.attempt,
        submission=state.submission,
        pod_uid=state.uid,
        submitted_at=created_at,
        attempt_at=created_at,
    )


def _template(body: Json) -> Json:
    """Return the template of a pod: without what the backend and the cluster have added."""
    meta: Json = body["metadata"]
    spec = {name: value for name, value in body["spec"].items() if name not in _ADDED_BY_CLUSTER}
    if "volumes" in spec:
        spec["volumes"] = _without_token(spec["volumes"])
    for kind in ("containers", "initContainers"):
        if kind in spec:
            spec[kind] = [_container(container) for container in spec[kind]]
    annotations = _without(meta.get("annotations") or {}, TASK_ID, ATTEMPT, SUBMISSION)
    finalizers = [name for name in meta.get("finalizers") or () if name != FINALIZER]
    labels = _without(meta.get("labels") or {}, BACKEND, TASK)
    return {"metadata": {"labels": labels, "annotations": annotations, "finalizers": finalizers}, "spec": spec}


def _container(container: Json) -> Json:
    mounts = _without_token(container.get("volumeMounts") or ())
    return {**_without(container, "volumeMounts"), **({"volumeMounts": mounts} if mounts else {})}


def _without_token(named: Any) -> list[Json]:
    return [one for one in named if not str(one.get("name", "")).startswith(_TOKEN_VOLUME)]


def _without(fields: Mapping[str, Any], *names: str) -> Json:
    return {name: value for name, value in fields.items() if name not in names}
