"""Protobuf encoding of the two objects that are created by the thousand: bindings and Events.

It costs the API server less than JSON, and the API server limits how many pods a second are bound. Field numbers are
those of k8s.io/api's generated.proto files (`protobuf_fields.py`). All other objects are sent as JSON.
"""

from __future__ import annotations

from collections.abc import Iterator
from functools import lru_cache
from typing import Any

from pyscheduler.api import Pod
from pyscheduler.shell.kube.event_series import EventSeries, cut, instance_of
from pyscheduler.shell.kube.protobuf_fields import (
    BindingFields,
    EventFields,
    EventSeriesFields,
    MicroTimeFields,
    ObjectMetaFields,
    ObjectReferenceFields,
    StatusDetailsFields,
    StatusFields,
    TypeMetaFields,
    UnknownFields,
)

_MAGIC = b"k8s\x00"
"""Prefix of a message; a runtime.Unknown with the object follows."""
_TEXT = 2
"""Wire type of length-delimited fields: strings and messages."""
_SHORT = [bytes((n,)) for n in range(128)]
_LAST_SHIFT = 56
"""Shift of the last 7 bits of a varint that fits into 64 bits."""
_MICROS = 1_000_000


def binding(pod: Pod, node_name: str) -> bytes:
    """Encode the v1 Binding of a pod to a node."""
    metadata = (
        _text(ObjectMetaFields.NAME, pod.name)
        + _text(ObjectMetaFields.NAMESPACE, pod.namespace)
        + _text(ObjectMetaFields.UID, pod.uid)
    )
    target = _NODE + _text(ObjectReferenceFields.NAME, node_name)
    return _BINDING + _part(
        UnknownFields.RAW, _part(BindingFields.METADATA, metadata) + _part(BindingFields.TARGET, target)
    )


def event(series: EventSeries, instance: str) -> bytes:
    """Encode the events.k8s.io/v1 Event of a series; `instance` is the host, part of reportingInstance."""
    record = series.record
    metadata = _text(ObjectMetaFields.NAME, series.name) + _text(ObjectMetaFields.NAMESPACE, series.namespace)
    content = (
        _part(EventFields.METADATA, metadata)
        + _part(EventFields.EVENT_TIME, _time(series.first))
        + (_part(EventFields.SERIES, _repetitions(series)) if series.count > 1 else b"")
        + _reporter(series.controller, instance, record.action, record.reason)
        + _part(EventFields.REGARDING, _reference(record.regarding))
        + (_part(EventFields.RELATED, _reference(record.related)) if record.related is not None else b"")
        + _text(EventFields.NOTE, cut(record.note))
        + _text(EventFields.TYPE, record.type)
    )
    return _EVENT + _part(UnknownFields.RAW, content)


def _repetitions(series: EventSeries) -> bytes:
    return _number(EventSeriesFields.COUNT, series.count) + _part(
        EventSeriesFields.LAST_OBSERVED_TIME, _time(series.last)
    )


@lru_cache(maxsize=256)
def _reporter(controller: str, host: str, action: str, reason: str) -> bytes:
    """Encode the fields that thousands of Events share."""
    return (
        _text(EventFields.REPORTING_CONTROLLER, controller)
        + _text(EventFields.REPORTING_INSTANCE, instance_of(controller, host))
        + _text(EventFields.ACTION, action)
        + _text(EventFields.REASON, reason)
    )


def is_message(body: bytes) -> bool:
    """Return True if a response body is protobuf."""
    return body.startswith(_MAGIC)


def status(body: bytes) -> tuple[str, str, int]:
    """Return message, reason and details.retryAfterSeconds of a v1 Status. ValueError if it is not one."""
    try:
        content = dict(_fields(dict(_fields(body[len(_MAGIC) :]))[UnknownFields.RAW]))
        details = dict(_fields(content.get(StatusFields.DETAILS, b"")))
        message, reason = (content.get(field, b"").decode() for field in (StatusFields.MESSAGE, StatusFields.REASON))
        return message, reason, int(details.get(StatusDetailsFields.RETRY_AFTER_SECONDS, 0))
    except (IndexError, KeyError, TypeError, AttributeError) as problem:
        raise ValueError(f"not a Status: {problem!r}") from None


def _fields(message: bytes) -> Iterator[tuple[int, Any]]:
    """Yield each field's number and value: bytes or an int."""
    at = 0
    while at < len(message):
        tag, at = _read_varint(message, at)
        value, at = _read_varint(message, at)
        if tag & 7 == _TEXT:
            yield tag >> 3, message[at : at + value]
            at += value
        elif tag & 7 == 0:
            yield tag >> 3, value
        else:
            raise KeyError(tag)  # a Status has no other wire types


def _read_varint(message: bytes, at: int) -> tuple[int, int]:
    value = shift = 0
    while (byte := message[at]) > 127:
        if shift > _LAST_SHIFT:
            raise KeyError(at)  # an endless varint would block the loop
        value |= (byte & 127) << shift
        at, shift = at + 1, shift + 7
    return value | byte << shift, at + 1


def _reference(pod: Pod) -> bytes:
    return (
        _POD
        + _text(ObjectReferenceFields.NAMESPACE, pod.namespace)
        + _text(ObjectReferenceFields.NAME, pod.name)
        + _text(ObjectReferenceFields.UID, pod.uid)
        + _text(ObjectReferenceFields.RESOURCE_VERSION, pod.resource_version)
    )


def _time(wall: float) -> bytes:
    """Encode a metav1.MicroTime."""
    seconds, micros = divmod(round(wall * _MICROS), _MICROS)
    return _seconds(seconds) + _number(MicroTimeFields.NANOS, micros * 1000)


@lru_cache(maxsize=64)
def _seconds(seconds: int) -> bytes:
    return _number(MicroTimeFields.SECONDS, seconds)


def _text(field: int, value: str) -> bytes:
    return _part(field, value.encode()) if value else b""


def _part(field: int, content: bytes) -> bytes:
    size = len(content)
    return _SHORT[field << 3 | _TEXT] + (_SHORT[size] if size < 128 else _varint(size)) + content


def _number(field: int, value: int) -> bytes:
    return _SHORT[field << 3] + _varint(value)


def _varint(value: int) -> bytes:
    """Encode 7 bits per byte, lowest first; negative numbers (times before 1970) in two's complement."""
    encoded = bytearray()
    if value < 0:
        value += 1 << 64
    while value > 127:
        encoded.append(value & 127 | 128)
        value >>= 7
    encoded.append(value)
    return bytes(encoded)


def _head(api_version: str, kind: str) -> bytes:
    return _MAGIC + _part(
        UnknownFields.TYPE_META, _text(TypeMetaFields.API_VERSION, api_version) + _text(TypeMetaFields.KIND, kind)
    )


_BINDING, _EVENT = _head("v1", "Binding"), _head("events.k8s.io/v1", "Event")
_NODE, _POD = (
    _text(ObjectReferenceFields.KIND, kind) + _text(ObjectReferenceFields.API_VERSION, "v1") for kind in ("Node", "Pod")
)
