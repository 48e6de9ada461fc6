"""Protobuf encoding of the two objects that are created by the thousand: bindings and Events.

It costs the API server less than JSON, and the API server limits how many pods a second are bound. Field numbers are
those of k8s.io/api's generated.proto files. All other objects are sent as JSON.
"""

from __future__ import annotations

from functools import lru_cache

from pyscheduler.api import Pod
from pyscheduler.kube.protobuf import head, number, part, text
from pyscheduler.shell.writers.event_series import EventSeries, cut, instance_of

_MICROS = 1_000_000


def binding(pod: Pod, node_name: str) -> bytes:
    """Encode the v1 Binding of a pod to a node."""
    metadata = text(1, pod.name) + text(3, pod.namespace) + text(5, pod.uid)
    return _BINDING + part(2, part(1, metadata) + part(2, _NODE + text(3, node_name)))


def event(series: EventSeries, instance: str) -> bytes:
    """Encode the events.k8s.io/v1 Event of a series; `instance` is the host, part of reportingInstance."""
    record = series.record
    content = (
        part(1, text(1, series.name) + text(3, series.namespace))
        + part(2, _time(series.first))
        + (part(3, number(1, series.count) + part(2, _time(series.last))) if series.count > 1 else b"")
        + _reporter(series.controller, instance, record.action, record.reason)
        + part(8, _reference(record.regarding))
        + (part(9, _reference(record.related)) if record.related is not None else b"")
        + text(10, cut(record.note))
        + text(11, record.type)
    )
    return _EVENT + part(2, content)


@lru_cache(maxsize=256)
def _reporter(controller: str, host: str, action: str, reason: str) -> bytes:
    """Encode the fields that thousands of Events share."""
    return text(4, controller) + text(5, instance_of(controller, host)) + text(6, action) + text(7, reason)


def _reference(pod: Pod) -> bytes:
    return _POD + text(2, pod.namespace) + text(3, pod.name) + text(4, pod.uid) + text(6, pod.resource_version)


def _time(wall: float) -> bytes:
    """Encode a metav1.MicroTime."""
    seconds, micros = divmod(round(wall * _MICROS), _MICROS)
    return _seconds(seconds) + number(2, micros * 1000)


@lru_cache(maxsize=64)
def _seconds(seconds: int) -> bytes:
    return number(1, seconds)


_BINDING, _EVENT = head("v1", "Binding"), head("events.k8s.io/v1", "Event")
_NODE, _POD = (text(1, kind) + text(5, "v1") for kind in ("Node", "Pod"))
