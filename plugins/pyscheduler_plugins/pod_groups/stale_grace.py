"""Grace period after which the rest of a pod group below its minimum is evicted."""

from __future__ import annotations

import math
from collections.abc import Collection, Mapping
from dataclasses import dataclass
from typing import Any, Final

from pyscheduler.api import Pod, PodGroup, Rejection
from pyscheduler_plugins.pod_groups.declared import described, invalid
from pyscheduler_plugins.pod_groups.pod_annotations import common_value

STALE_GRACE: Final = "pyscheduler.io/pod-group-stale-grace-seconds"
"""Annotation of a PodGroup, or of all pods of a group; negative: never."""


@dataclass(frozen=True, slots=True)
class PodGroupsArgs:
    """Args of PodGroups. A negative `stale_grace_period_seconds` evicts no group without an annotation."""

    stale_grace_period_seconds: int = -1


def annotation_of(obj: Mapping[str, Any]) -> str | None:
    """Return the annotation of an object; None if it has none."""
    return (obj["metadata"].get("annotations") or {}).get(STALE_GRACE)


def stale_grace(
    group: PodGroup, of_object: str | None, members: Collection[Pod], default: float
) -> float | Rejection | None:
    """Return the grace period of a group in seconds, None for no eviction, or a Rejection of an invalid value."""
    value = common_value(STALE_GRACE, members) if of_object is None else of_object
    if isinstance(value, Rejection):
        return value
    if value is None:
        return default if default >= 0 else None
    try:
        seconds = float(value)
    except ValueError:
        seconds = math.nan
    if not math.isfinite(seconds):
        text = f'"{value}" is not a number of seconds'
        if of_object is None:
            return Rejection(f"{described(group.key)}: annotation {STALE_GRACE} of its pods: {text}", resolvable=False)
        return invalid(group.key, f"metadata.annotations[{STALE_GRACE}]", text)
    return seconds if seconds >= 0 else None
