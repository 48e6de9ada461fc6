"""Decoding of the API server's JSON into pod states; only the fields that the backend reads."""

from __future__ import annotations

from collections.abc import Iterable
from datetime import datetime

import msgspec

from pyscheduler.api import ApiError
from pyscheduler.backend.pods import PodState
from pyscheduler.backend.task import Json
from pyscheduler.backend.template import ATTEMPT, BACKEND, CONTAINERS, FINALIZER, SUBMISSION, TASK_ID
from pyscheduler.kube.decode import UNREADABLE
from pyscheduler.kube.numbers import natural


class Meta(msgspec.Struct, frozen=True, rename="camel"):
    """Metadata fields of a pod that the backend reads."""

    name: str
    namespace: str = ""
    uid: str = ""
    resource_version: str = ""
    labels: dict[str, str] | None = None
    annotations: dict[str, str] | None = None
    finalizers: tuple[str, ...] | None = None
    creation_timestamp: datetime | None = None
    deletion_timestamp: datetime | None = None
    deletion_grace_period_seconds: int | None = None


class _Waiting(msgspec.Struct, frozen=True):
    reason: str = ""
    message: str = ""


class _Terminated(msgspec.Struct, frozen=True, rename="camel"):
    exit_code: int = 0
    reason: str = ""
    message: str = ""
    finished_at: datetime | None = None


class _ContainerState(msgspec.Struct, frozen=True):
    waiting: _Waiting | None = None
    terminated: _Terminated | None = None


class _ContainerStatus(msgspec.Struct, frozen=True, rename="camel"):
    name: str = ""
    state: _ContainerState | None = None
    last_state: _ContainerState | None = None
    restart_count: int = 0


class _Condition(msgspec.Struct, frozen=True):
    type: str
    status: str
    reason: str = ""
    message: str = ""


class _Spec(msgspec.Struct, frozen=True, rename="camel"):
    node_name: str = ""
    restart_policy: str = "Always"


class _Status(msgspec.Struct, frozen=True, rename="camel"):
    phase: str = ""
    reason: str = ""
    message: str = ""
    start_time: datetime | None = None
    conditions: tuple[_Condition, ...] | None = None
    init_container_statuses: tuple[_ContainerStatus, ...] | None = None
    container_statuses: tuple[_ContainerStatus, ...] | None = None


class PodDocument(msgspec.Struct, frozen=True):
    """Fields of a pod that the backend reads."""

    metadata: Meta
    spec: _Spec = _Spec()
    status: _Status = _Status()


_pod = msgspec.json.Decoder(PodDocument).decode


def decode_pod(body: msgspec.Raw) -> PodState:
    """Decode a pod of a list. ApiError if it is not valid."""
    try:
        return state_of(_pod(body))
    except UNREADABLE as problem:
        raise _undecodable(problem) from None


def pod_of(body: Json) -> PodState:
    """Return the state of a pod that is a dict. ApiError if it is not valid."""
    try:
        return state_of(msgspec.convert(body, PodDocument))
    except msgspec.ValidationError as problem:
        raise _undecodable(problem) from None


def decode_object(body: msgspec.Raw) -> Json:
    """Decode an object of a list. ApiError if it is not valid."""
    try:
        return msgspec.json.decode(body, type=Json)
    except UNREADABLE as problem:
        raise _undecodable(problem) from None


def _undecodable(problem: Exception) -> ApiError:
    return ApiError(0, "Undecodable", f"an object in the response cannot be decoded: {problem}")


def state_of(pod: PodDocument) -> PodState:
    """Return the state of a decoded pod."""
    meta, status = pod.metadata, pod.status
    annotations = meta.annotations or {}
    conditions = {c.type: c for c in status.conditions or ()}
    scheduled, disrupted = conditions.get("PodScheduled"), conditions.get("DisruptionTarget")
    statuses = (*(status.init_container_statuses or ()), *(status.container_statuses or ()))
    waiting = next((s.state.waiting for s in statuses if s.state and s.state.waiting), None)
    main_ended = _ended_for_good(pod, annotations.get(CONTAINERS, ""))
    ended = main_ended or _terminated(statuses)
    decisive = next((e for e in ended if e.exit_code), ended[0] if ended else None)
    is_gated = scheduled is not None and scheduled.reason == "SchedulingGated"
    return PodState(
        name=meta.name,
        uid=meta.uid,
        version=natural(meta.resource_version) or 0,
        task=annotations.get(TASK_ID, ""),
        attempt=natural(annotations.get(ATTEMPT, "")) or 0,
        submission=annotations.get(SUBMISSION, ""),
        labelled=BACKEND in (meta.labels or {}),
        phase=status.phase or "Pending",
        node=pod.spec.node_name,
        has_finalizer=FINALIZER in (meta.finalizers or ()),
        deleting=meta.deletion_timestamp is not None,
        grace=meta.deletion_grace_period_seconds or 0,
        delete_at=_seconds(meta.deletion_timestamp),
        reason=status.reason,
        message=(waiting.message if waiting else "") or (decisive.message if decisive else "") or status.message,
        waiting=waiting.reason if waiting else "",
        exit_code=decisive.exit_code if decisive else None,
        exit_reason=decisive.reason if decisive else "",
        disruption=disrupted.reason if disrupted and disrupted.status == "True" else "",
        unschedulable=scheduled.message or scheduled.reason
        if scheduled and scheduled.status == "False" and not is_gated
        else "",
        gated=is_gated,
        gate_message=scheduled.message if scheduled and is_gated else "",
        restarts=max((s.restart_count for s in statuses), default=0),
        containers=tuple(filter(None, annotations.get(CONTAINERS, "").split(","))),
        main_ended=bool(main_ended),
        created_at=_seconds(meta.creation_timestamp),
        started_at=_seconds(status.start_time),
        finished_at=max((t for e in ended if (t := _seconds(e.finished_at)) is not None), default=None),
    )


def _terminated(statuses: Iterable[_ContainerStatus]) -> list[_Terminated]:
    """Return how the containers ended; for one that waits for its restart, how it ended the last time."""
    states = (s.state if s.state and not s.state.waiting else s.last_state for s in statuses)
    return [state.terminated for state in states if state and state.terminated]


def _ended_for_good(pod: PodDocument, containers: str) -> list[_Terminated]:
    """Return how the task's own containers ended; empty while one of them runs or may be restarted."""
    named = set(containers.split(",")) if containers else set()
    own = [s for s in pod.status.container_statuses or () if s.name in named]
    ended = [s.state.terminated for s in own if s.state and s.state.terminated]
    policy = pod.spec.restart_policy
    is_over = policy == "Never" or (policy == "OnFailure" and not any(e.exit_code for e in ended))
    return ended if is_over and named and len(ended) == len(named) else []


def _seconds(at: datetime | None) -> float | None:
    return at.timestamp() if at is not None else None
