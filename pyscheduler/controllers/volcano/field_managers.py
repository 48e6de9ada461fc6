"""Other writers of a Queue's status, found in its metadata.managedFields.

Volcano's scheduler and controllers write it too, and so does a scheduler of another name; two that write different
counts would overwrite each other for ever. Tenants cannot write Queues, so the groups and pods that they create in a
queue do not affect which manager writes its status.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from datetime import datetime
from typing import Any, Final, NamedTuple

from pyscheduler.controllers.volcano.queue_status import COUNTED_FIELDS

_PROGRAM: Final = "pyscheduler/"
_MAX_LENGTH: Final = 128
"""Limit of the API server for the name of a field manager."""
_COUNTED: Final = {f"f:{name}" for name in COUNTED_FIELDS}


class OtherWrite(NamedTuple):
    """Last write of a Queue's counts by another field manager."""

    manager: str
    at: float

    def is_of_one_of(self, schedulers: Collection[str]) -> bool:
        """Return True if pyscheduler wrote it for one of these schedulers, as before a profile was added."""
        return not set(schedulers).isdisjoint(self.manager.removeprefix(_PROGRAM).split(","))


def field_manager(schedulers: Iterable[str]) -> str:
    """Return the name of the field manager that writes statuses for schedulers."""
    return (_PROGRAM + ",".join(sorted(schedulers)))[:_MAX_LENGTH]


def last_other_write(queue: Mapping[str, Any], manager: str) -> OtherWrite | None:
    """Return the last write of counts or allocated amounts by another manager that is still in the status.

    Users write the state only, and clusters without Volcano have no other writer.
    """
    entries = queue["metadata"].get("managedFields") or ()
    # "pyscheduler" is the User-Agent, which the API server takes from versions that name no field manager.
    own = {manager, _PROGRAM.rstrip("/")}
    others = [each for each in entries if each.get("manager") not in own and _has_counts(each)]
    writes = [OtherWrite(each.get("manager", ""), _seconds(each["time"])) for each in others if each.get("time")]
    return max(writes, key=lambda write: write.at, default=None)


def _has_counts(entry: Mapping[str, Any]) -> bool:
    fields = (entry.get("fieldsV1") or {}).get("f:status") or {}
    return entry.get("subresource") == "status" and not _COUNTED.isdisjoint(fields)


def _seconds(text: str) -> float:
    return datetime.fromisoformat(text).timestamp()
