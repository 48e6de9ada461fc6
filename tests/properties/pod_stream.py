"""Lists and watches of pods as the API server sends them: JSON in chunks that end anywhere."""

from __future__ import annotations

import random
from collections.abc import Iterable, Iterator
from datetime import UTC, datetime
from typing import Any

import msgspec

from pyscheduler.backend import PodState
from pyscheduler.backend.template import ATTEMPT, BACKEND, FINALIZER, SUBMISSION, TASK_ID

Json = dict[str, Any]


def manifest(pod: PodState) -> Json:
    """Return the pod that is decoded into this state."""
    meta: Json = {
        "name": pod.name,
        "uid": pod.uid,
        "resourceVersion": str(pod.version),
        "labels": {BACKEND: "tasks"} if pod.labelled else {},
        "annotations": {TASK_ID: pod.task, ATTEMPT: str(pod.attempt), SUBMISSION: pod.submission},
        "finalizers": [FINALIZER] if pod.has_finalizer else [],
        "creationTimestamp": _time(pod.created_at),
    }
    if pod.deleting:
        meta |= {"deletionTimestamp": _time(pod.delete_at), "deletionGracePeriodSeconds": pod.grace}
    conditions = []
    if pod.disruption:
        conditions.append({"type": "DisruptionTarget", "status": "True", "reason": pod.disruption})
    if pod.unschedulable:
        conditions.append({"type": "PodScheduled", "status": "False", "message": pod.unschedulable})
    states: list[Json] = []
    if pod.waiting:
        states.append({"waiting": {"reason": pod.waiting}})
    if pod.exit_code is not None:
        ended = {"exitCode": pod.exit_code, "reason": pod.exit_reason, "finishedAt": _time(pod.finished_at)}
        states.append({"terminated": ended})
    status = {
        "phase": pod.phase,
        "reason": pod.reason,
        "message": pod.message,
        "startTime": _time(pod.started_at),
        "conditions": conditions,
        "containerStatuses": [{"name": "task", "state": state} for state in states],
    }
    return {"metadata": meta, "spec": {"nodeName": pod.node}, "status": status}


def pod_list(pods: Iterable[PodState], version: int) -> bytes:
    """Return a list of pods in one page."""
    return msgspec.json.encode({"metadata": {"resourceVersion": str(version)}, "items": [*map(manifest, pods)]})


def pod_event(kind: str, pod: PodState) -> bytes:
    """Return a line of a watch."""
    return _line(kind, manifest(pod))


def bookmark(version: int) -> bytes:
    """Return the line that reports progress without a change."""
    return _line("BOOKMARK", {"kind": "Pod", "metadata": {"resourceVersion": str(version)}})


def gone() -> bytes:
    """Return the last line of a watch that begins at a resourceVersion that is too old."""
    return _line("ERROR", {"kind": "Status", "code": 410, "reason": "Expired", "message": "too old resource version"})


def chunks(body: bytes, rng: random.Random) -> Iterator[bytes]:
    """Cut a response anywhere, into at most three chunks."""
    cuts = sorted(rng.randint(0, len(body)) for _ in range(rng.randint(0, 2)))
    for begin, end in zip([0, *cuts], [*cuts, len(body)], strict=True):
        if begin < end:
            yield body[begin:end]


def _line(kind: str, body: Json) -> bytes:
    return msgspec.json.encode({"type": kind, "object": body}) + b"\n"


def _time(at: float | None) -> str | None:
    return None if at is None else datetime.fromtimestamp(at, UTC).isoformat()
