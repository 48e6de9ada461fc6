"""Decoding of the API server's JSON into pod states; only the fields that the backend reads."""

from __future__ import annotations

from datetime import datetime
from typing import NamedTuple

import msgspec

from pyscheduler.backend.pods import PodsSnapshot, PodState
from pyscheduler.backend.template import ATTEMPT, FINALIZER, TASK_ID
from pyscheduler.kube.numbers import natural


class Undecodable(ValueError):
    """Bytes that are not a valid response of the API server."""


class Meta(msgspec.Struct, frozen=True, rename="camel"):
    """Metadata fields of a pod that the backend reads."""

    name: str = ""
    uid: str = ""
    resource_version: str = ""
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


class _ContainerStatus(msgspec.Struct, frozen=True):
    name: str = ""
    state: _ContainerState | None = None


class _Condition(msgspec.Struct, frozen=True):
    type: str
    status: str
    reason: str = ""
    message: str = ""


class _Spec(msgspec.Struct, frozen=True, rename="camel"):
    node_name: str = ""


class _Status(msgspec.Struct, frozen=True, rename="camel"):
    phase: str = ""
    reason: str = ""
    message: str = ""
    start_time: datetime | None = None
    conditions: tuple[_Condition, ...] | None = None
    init_container_statuses: tuple[_ContainerStatus, ...] | None = None
    container_statuses: tuple[_ContainerStatus, ...] | None = None


class PodDocument(msgspec.Struct, frozen=True):
    """Fields read of a pod, or of the Status of an ERROR event."""

    metadata: Meta = Meta()
    spec: _Spec = _Spec()
    status: _Status | str = _Status()
    code: int = 0
    reason: str = ""
    message: str = ""


class _ListMeta(msgspec.Struct, frozen=True, rename="camel"):
    resource_version: str = ""
    next: str = msgspec.field(default="", name="continue")


class _PodList(msgspec.Struct, frozen=True):
    metadata: _ListMeta
    items: tuple[PodDocument, ...] | None = None


class _Event(msgspec.Struct, frozen=True):
    type: str
    object: PodDocument


class PodListPage(NamedTuple):
    """Page of a list: its pods by name, the list's resourceVersion, the continue token ("" on the last page)."""

    pods: dict[str, PodState]
    resource_version: int
    next: str


class WatchEvent(NamedTuple):
    """Line of a watch; `status`, `reason` and `message` are those of an ERROR."""

    type: str
    pod: PodState
    status: int
    reason: str
    message: str


_pod = msgspec.json.Decoder(PodDocument)
_list = msgspec.json.Decoder(_PodList)
_event = msgspec.json.Decoder(_Event)


def decode_pod(data: bytes) -> PodState:
    """Decode a pod. Undecodable."""
    try:
        return state_of(_pod.decode(data))
    except (msgspec.DecodeError, ValueError) as problem:
        raise Undecodable(f"a pod: {problem}") from None


def decode_page(data: bytes) -> PodListPage:
    """Decode one page of a list of pods. Undecodable."""
    try:
        page = _list.decode(data)
        states = map(state_of, page.items or ())
        return PodListPage({s.name: s for s in states}, int(page.metadata.resource_version), page.metadata.next)
    except (msgspec.DecodeError, ValueError) as problem:
        raise Undecodable(f"a list of pods: {problem}") from None


def decode_event(line: bytes) -> WatchEvent:
    """Decode one line of a watch. Undecodable."""
    try:
        event = _event.decode(line)
        pod = event.object
        return WatchEvent(event.type, state_of(pod), pod.code, pod.reason, pod.message)
    except (msgspec.DecodeError, ValueError) as problem:
        raise Undecodable(f"a watch event: {problem}") from None


def decode_events(lines: list[bytes], since: int) -> tuple[PodsSnapshot, WatchEvent | None]:
    """Merge lines of a watch that follow the resourceVersion `since`; also return the ERROR event that ends them."""
    pods: dict[str, PodState] = {}
    deleted: dict[str, PodState] = {}
    resource_version = since
    for line in lines:
        event = decode_event(line)
        if event.type == "ERROR":
            return PodsSnapshot(pods=pods, deleted=deleted, since=since, resource_version=resource_version), event
        pod = event.pod
        if event.type in ("ADDED", "MODIFIED"):
            pods[pod.name] = pod
        elif event.type == "DELETED":
            deleted[pod.uid] = pod
            if pod.name in pods and pods[pod.name].uid == pod.uid:
                del pods[pod.name]
        resource_version = max(resource_version, pod.version)
    return PodsSnapshot(pods=pods, deleted=deleted, since=since, resource_version=resource_version), None


def state_of(pod: PodDocument) -> PodState:
    """Return the state of a decoded pod."""
    meta, status = pod.metadata, pod.status if isinstance(pod.status, _Status) else _Status()
    annotations = meta.annotations or {}
    conditions = {c.type: c for c in status.conditions or ()}
    scheduled, disrupted = conditions.get("PodScheduled"), conditions.get("DisruptionTarget")
    statuses = (*(status.init_container_statuses or ()), *(status.container_statuses or ()))
    waiting = next((s.state.waiting for s in statuses if s.state and s.state.waiting), None)
    ended = [s.state.terminated for s in statuses if s.state and s.state.terminated]
    decisive = next((e for e in ended if e.exit_code), ended[0] if ended else None)
    return PodState(
        name=meta.name,
        uid=meta.uid,
        version=int(meta.resource_version or 0),
        task=annotations.get(TASK_ID, ""),
        attempt=natural(annotations.get(ATTEMPT, "")) or 0,
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
        unschedulable=scheduled.message or scheduled.reason if scheduled and scheduled.status == "False" else "",
        created_at=_seconds(meta.creation_timestamp),
        started_at=_seconds(status.start_time),
        finished_at=max((t for e in ended if (t := _seconds(e.finished_at)) is not None), default=None),
    )


def _seconds(at: datetime | None) -> float | None:
    return at.timestamp() if at is not None else None
