"""Conversion of Events: core/v1 and events.k8s.io/v1 serve one stored object under different field names.

The stored form is core/v1. The pairs of names are those of the Kubernetes conversion functions
(pkg/apis/events/v1/conversion.go).
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from pyscheduler.embedded.objects import Json

_CORE_NAMES = {
    "regarding": "involvedObject",
    "note": "message",
    "deprecatedSource": "source",
    "deprecatedFirstTimestamp": "firstTimestamp",
    "deprecatedLastTimestamp": "lastTimestamp",
    "deprecatedCount": "count",
    "reportingController": "reportingComponent",
}
_NEW_NAMES = {core: new for new, core in _CORE_NAMES.items()}
_SUBJECT = ("kind", "namespace", "name", "uid", "apiVersion", "resourceVersion", "fieldPath")

CORE_FIELDS: Mapping[str, str] = {
    **{f"involvedObject.{part}": f"involvedObject.{part}" for part in _SUBJECT},
    **{path: path for path in ("reason", "type", "reportingComponent")},
    "source": "source.component",
}
NEW_FIELDS: Mapping[str, str] = {
    **{f"regarding.{part}": f"involvedObject.{part}" for part in _SUBJECT},
    **CORE_FIELDS,
    "reportingController": "reportingComponent",
}


def _renamed(event: Mapping[str, Any], names: Mapping[str, str], api_version: str) -> Json:
    renamed = {names.get(name, name): value for name, value in event.items()}
    return renamed | {"apiVersion": api_version}


def to_core(event: Json) -> Json:
    """Convert an events.k8s.io/v1 Event to core/v1."""
    return _renamed(event, _CORE_NAMES, "v1")


def from_core(event: Json) -> Json:
    """Convert a core/v1 Event to events.k8s.io/v1."""
    return _renamed(event, _NEW_NAMES, "events.k8s.io/v1")
