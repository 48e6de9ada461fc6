"""Protobuf encoding of the two objects that are created by the thousand: bindings and Events.

It costs the API server less than JSON, and the API server limits how many pods a second are bound. Field numbers are
those of k8s.io/api's generated.proto files (`kube/protobuf_fields.py`). All other objects are sent as JSON.
"""

from __future__ import annotations

from functools import lru_cache

from pyscheduler.api import Pod
from pyscheduler.kube.protobuf import head, number, part, text
from pyscheduler.kube.protobuf_fields import (
    BindingFields,
    EventFields,
    EventSeriesFields,
    MicroTimeFields,
    ObjectMetaFields,
    ObjectReferenceFields,
    UnknownFields,
)
from pyscheduler.shell.writers.event_series import EventSeries, instance_of
from pyscheduler.truncation import MAX_NOTE, truncated

_MICROS = 1_000_000


def binding(pod: Pod, node_name: str) -> bytes:
    """Encode the v1 Binding of a pod to a node."""
    metadata = (
        text(ObjectMetaFields.NAME, pod.name)
        + text(ObjectMetaFields.NAMESPACE, pod.namespace)
        + text(ObjectMetaFields.UID, pod.uid)
    )
    target = _NODE + text(ObjectReferenceFields.NAME, node_name)
    return _BINDING + part(
        UnknownFields.RAW, part(BindingFields.METADATA, metadata) + part(BindingFields.TARGET, target)
    )


def event(series: EventSeries, instance: str) -> bytes:
    """Encode the events.k8s.io/v1 Event of a series; `instance` is the host, part of reportingInstance."""
    record = series.record
    metadata = text(ObjectMetaFields.NAME, series.name) + text(ObjectMetaFields.NAMESPACE, series.namespace)
    content = (
        part(EventFields.METADATA, metadata)
        + part(EventFields.EVENT_TIME, _time(series.first))
        + (part(EventFields.SERIES, _repetitions(series)) if series.count > 1 else b"")
        + _reporter(series.controller, instance, record.action, record.reason)
        + part(EventFields.REGARDING, _reference(record.regarding))
        + (part(EventFields.RELATED, _reference(record.related)) if record.related is not None else b"")
        + text(EventFields.NOTE, truncated(record.note, MAX_NOTE))
        + text(EventFields.TYPE, record.type)
    )
    return _EVENT + part(UnknownFields.RAW, content)


def _repetitions(series: EventSeries) -> bytes:
    return number(EventSeriesFields.COUNT, series.count) + part(
        EventSeriesFields.LAST_OBSERVED_TIME, _time(series.last)
    )


@lru_cache(maxsize=256)
def _reporter(controller: str, host: str, action: str, reason: str) -> bytes:
    """Encode the fields that thousands of Events share."""
    return (
        text(EventFields.REPORTING_CONTROLLER, controller)
        + text(EventFields.REPORTING_INSTANCE, instance_of(controller, host))
        + text(EventFields.ACTION, action)
        + text(EventFields.REASON, reason)
    )


def _reference(pod: Pod) -> bytes:
    return (
        _POD
        + text(ObjectReferenceFields.NAMESPACE, pod.namespace)
        + text(ObjectReferenceFields.NAME, pod.name)
        + text(ObjectReferenceFields.UID, pod.uid)
        + text(ObjectReferenceFields.RESOURCE_VERSION, pod.resource_version)
    )


def _time(wall: float) -> bytes:
    """Encode a metav1.MicroTime."""
    seconds, micros = divmod(round(wall * _MICROS), _MICROS)
    return _seconds(seconds) + number(MicroTimeFields.NANOS, micros * 1000)


@lru_cache(maxsize=64)
def _seconds(seconds: int) -> bytes:
    return number(MicroTimeFields.SECONDS, seconds)


_BINDING, _EVENT = head("v1", "Binding"), head("events.k8s.io/v1", "Event")
_NODE, _POD = (
    text(ObjectReferenceFields.KIND, kind) + text(ObjectReferenceFields.API_VERSION, "v1") for kind in ("Node", "Pod")
)
