"""Merge of a condition into the conditions of an object, which other writers may share."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

Json = dict[str, Any]


def merge_condition(conditions: Iterable[Mapping[str, Any]], wanted: Mapping[str, Any], now: str) -> list[Json]:
    """Return the conditions with one of a type set. lastTransitionTime changes only if the status changes.

    Conditions of other types are preserved. The list is unchanged if it has all fields of `wanted`. A patch with the
    list needs a resourceVersion, since a merge patch replaces lists.
    """
    copies = [dict(each) for each in conditions]
    present: Mapping[str, Any] = next((each for each in copies if each.get("type") == wanted["type"]), {})
    if wanted.items() <= present.items():
        return copies
    same_status = present.get("status") == wanted["status"] and present.get("lastTransitionTime")
    others = [each for each in copies if each.get("type") != wanted["type"]]
    return [*others, {**wanted, "lastTransitionTime": same_status or now}]
