"""Status of a Volcano Queue (scheduling.volcano.sh/v1beta1): one pure function.

`reservation` is not written, as by Volcano itself. Users close a queue by writing the state Closed or Closing.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping
from typing import Any, Final

from pyscheduler.api.resources import quantity
from pyscheduler.controllers.volcano.pod_group_status import PHASES, UNKNOWN
from pyscheduler.controllers.volcano.pods import RUNNING

DEFAULT_QUEUE = "default"
OPEN, CLOSING, CLOSED = "Open", "Closing", "Closed"
COUNTED_FIELDS: Final = (*map(str.lower, PHASES), "allocated")
"""Fields that controllers write; users write the state."""
_ZERO = {"cpu": 0, "memory": 0}
_MAX_RESOURCES: Final = 100
"""Limit of the resources in `allocated`: pods may request thousands of made-up ones, and objects have a limit."""

Json = dict[str, Any]


def is_open(queue: Mapping[str, Any]) -> bool:
    """Return True if groups of the queue may be scheduled. A new queue is open."""
    return ((queue.get("status") or {}).get("state") or OPEN) == OPEN


def queue_status(queue: Mapping[str, Any], phases: Iterable[str], allocated: Mapping[str, int]) -> Json:
    """Return the fields of the status that this controller writes.

    Depends on the phases of the queue's groups, and on the sum of the requests of its pods on nodes. A queue is closed
    once nothing of it runs: groups that wait in it cannot start, and completed ones may be kept for long.
    """
    counts = Counter(phases)
    declared = _resources(queue.get("spec") or {})
    listed = sorted(_ZERO | dict(allocated), key=lambda name: (name not in declared, name not in _ZERO, name))
    state = (queue.get("status") or {}).get("state") or OPEN
    if state == CLOSING and not (counts[RUNNING] or counts[UNKNOWN] or any(allocated.values())):
        state = CLOSED
    return {
        "state": state,
        **{phase.lower(): counts[phase] for phase in PHASES},
        "allocated": {name: quantity(name, allocated.get(name, 0)) for name in sorted(listed[:_MAX_RESOURCES])},
    }


def _resources(spec: Mapping[str, Any]) -> set[str]:
    """Return the resources that the queue limits, deserves or guarantees."""
    amounts = (spec.get("capability"), spec.get("deserved"), (spec.get("guarantee") or {}).get("resource"))
    return {name for each in amounts for name in each or ()}
