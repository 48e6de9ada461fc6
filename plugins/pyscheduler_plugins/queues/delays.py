"""Times that a queue allows before its pods are evicted, by annotations of its object.

A queue without an annotation has that of the nearest queue above it, otherwise the argument of the plugin.
"""

from __future__ import annotations

import json
import math
from collections.abc import Mapping
from typing import Any

from msgspec import Struct

RECLAIM_MIN_RUN = "pyscheduler.io/reclaim-min-run-seconds"
"""Annotation: seconds that pods of the queue have run before other queues reclaim them."""
PREEMPT_MIN_RUN = "pyscheduler.io/preempt-min-run-seconds"
"""Annotation: seconds that pods of the queue have run before jobs of a higher priority in it preempt them."""
QUOTA_EVICTION = "pyscheduler.io/quota-eviction-seconds"
"""Annotation: seconds after which pods are evicted while more than the quota is allocated, or `never`."""
BORROW_AFTER = "pyscheduler.io/borrow-after-seconds"
"""Annotation: seconds of unused share after which a job above it gets its turn, or `never`."""
NEVER = "never"
MAX_SECONDS = 31_536_000
_ANNOTATIONS = (RECLAIM_MIN_RUN, PREEMPT_MIN_RUN, QUOTA_EVICTION, BORROW_AFTER)
_MAY_BE_NEVER = (QUOTA_EVICTION, BORROW_AFTER)


class InvalidDelay(ValueError):
    """Invalid annotation; the message begins with its path."""


class Delays(Struct, frozen=True):
    """Times in seconds; None for those that are not set, infinity for never."""

    reclaim_min_run: float | None = None
    preempt_min_run: float | None = None
    quota_eviction: float | None = None
    borrow_after: float | None = None

    def or_else(self, other: Delays) -> Delays:
        """Return these times, and the other ones where none is set."""
        return Delays(
            other.reclaim_min_run if self.reclaim_min_run is None else self.reclaim_min_run,
            other.preempt_min_run if self.preempt_min_run is None else self.preempt_min_run,
            other.quota_eviction if self.quota_eviction is None else self.quota_eviction,
            other.borrow_after if self.borrow_after is None else self.borrow_after,
        )


NO_DELAYS = Delays(0.0, 0.0, math.inf, math.inf)
"""Pods may be evicted for other jobs at any time, not because of a quota; jobs above the share get no turns."""


def delay_annotations(metadata: Mapping[str, Any]) -> tuple[object, ...]:
    """Return the values of the annotations, None for those that are not set."""
    annotations = metadata.get("annotations")
    annotations = annotations if isinstance(annotations, Mapping) else {}
    return tuple(annotations.get(name) for name in _ANNOTATIONS)


def read_delays(metadata: Mapping[str, Any]) -> Delays:
    """Return the times of a queue's object. InvalidDelay names the first invalid annotation."""
    named = zip(_ANNOTATIONS, delay_annotations(metadata), strict=True)
    return Delays(*(None if value is None else _seconds(name, value) for name, value in named))


def _seconds(name: str, value: object) -> float:
    if name in _MAY_BE_NEVER and value == NEVER:
        return math.inf
    try:
        seconds = float(value) if isinstance(value, str) else math.nan
    except ValueError:
        seconds = math.nan
    if not _is_valid(seconds):
        more = f' or "{NEVER}"' if name in _MAY_BE_NEVER else ""
        text = f"must be a number of seconds from 0 to {MAX_SECONDS}{more}"
        raise InvalidDelay(f"metadata.annotations[{name}]: Invalid value: {json.dumps(value, default=str)}: {text}")
    return seconds


def check_seconds(name: str, seconds: float | None) -> None:
    """ValueError if an argument of the plugin is not a time in seconds."""
    if seconds is not None and not _is_valid(seconds):
        raise ValueError(f"{name}: Invalid value: {seconds:g}: must be from 0 to {MAX_SECONDS}")


def _is_valid(seconds: float) -> bool:
    return 0 <= seconds <= MAX_SECONDS
