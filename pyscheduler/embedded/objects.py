"""Helpers for Kubernetes objects as plain dicts: timestamps, names, owners, paths.

The embedded server stores objects as the JSON dicts it received. A stored dict is never changed: a writer builds a
new one and shares the unchanged parts (see `replaced`).
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from datetime import UTC, datetime
from functools import lru_cache
from typing import Any

Json = dict[str, Any]
Key = tuple[str, str]
"""Namespace ("" for cluster-scoped objects) and name."""

NO_OBJECT: Mapping[str, Any] = {}


@lru_cache(maxsize=1024)
def _whole_seconds(second: int) -> str:
    return datetime.fromtimestamp(second, UTC).strftime("%Y-%m-%dT%H:%M:%SZ")


def timestamp(at: float) -> str:
    """Format `at` (seconds since 1970) as a metav1.Time: whole seconds, UTC."""
    return _whole_seconds(int(at))


def micro_timestamp(at: float) -> str:
    """Format `at` (seconds since 1970) as a metav1.MicroTime."""
    return datetime.fromtimestamp(at, UTC).strftime("%Y-%m-%dT%H:%M:%S.%fZ")


def seconds(text: Any) -> float | None:
    """Return a metav1.Time or MicroTime in seconds since 1970, None if it is missing or malformed."""
    if not isinstance(text, str) or not text:
        return None
    try:
        moment = datetime.fromisoformat(text.replace("Z", "+00:00"))
    except ValueError:
        return None
    return (moment if moment.tzinfo else moment.replace(tzinfo=UTC)).timestamp()


def key_of(obj: Mapping[str, Any]) -> Key:
    """Return the key of `obj` in the store."""
    meta = obj["metadata"]
    return meta.get("namespace") or "", meta["name"]


def labels_of(obj: Mapping[str, Any]) -> Mapping[str, str]:
    """Return the labels of `obj`, empty if it has none."""
    return obj["metadata"].get("labels") or NO_OBJECT


def owners_of(obj: Mapping[str, Any]) -> list[Json]:
    """Return the ownerReferences of `obj`."""
    return obj["metadata"].get("ownerReferences") or []


def condition(obj: Mapping[str, Any], kind: str) -> Mapping[str, Any]:
    """Return the status condition of type `kind`, or an empty mapping."""
    for item in dig(obj, "status", "conditions") or ():
        if item.get("type") == kind:
            return item  # type: ignore[no-any-return]
    return NO_OBJECT


def dig(value: Any, *path: str) -> Any:
    """Return the value below `value` at `path`, None if a step is missing."""
    for step in path:
        if not isinstance(value, (dict, Mapping)):  # dict first: the check against an abstract class takes longer
            return None
        value = value.get(step)
    return value


def dig_text(value: Any, *path: str) -> str:
    """Return the value below `value` at `path` as a field selector compares it: text, "" if it is missing."""
    found = dig(value, *path)
    if isinstance(found, str):
        return found
    if found is None:
        return ""
    if isinstance(found, bool):
        return "true" if found else "false"
    return str(found)


def replaced(obj: Mapping[str, Any], **parts: Any) -> Json:
    """Return a shallow copy of `obj` with the given top-level parts; a part that is None is dropped."""
    copy = {**obj, **parts}
    return {name: value for name, value in copy.items() if value is not None} if None in parts.values() else copy


def without_nulls(value: Any) -> Any:
    """Return `value` without null members of mappings: JSON null means "not set" in a Kubernetes object."""
    if isinstance(value, dict):
        return {name: without_nulls(item) for name, item in value.items() if item is not None}
    if isinstance(value, list):
        return [without_nulls(item) for item in value]
    return value


def containers_of(pod_spec: Mapping[str, Any]) -> Iterator[Json]:
    """Yield init containers, then containers."""
    yield from pod_spec.get("initContainers") or ()
    yield from pod_spec.get("containers") or ()
