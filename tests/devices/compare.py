"""Comparison of two results."""

from __future__ import annotations

import re
from typing import Any

from pyscheduler.intree.devices.allocator import DEFAULT_STEPS
from pyscheduler.intree.devices.pruning import SPARE_STEPS

IGNORED = ("steps",)
LONGEST = DEFAULT_STEPS // 2 - SPARE_STEPS
"""Devices that kube-scheduler may try in a search that has to end here too."""
_CAPACITY_ERROR = re.compile(r'(.* checking capacity for device .*?): capacity "(.*?)": ')


def difference(theirs: dict[str, Any], ours: dict[str, Any]) -> str:
    """Return a line that names the first difference, or an empty string."""
    left, right = normalised(theirs), normalised(ours)
    for key in sorted(left.keys() | right.keys()):
        if left.get(key) != right.get(key) and not (key == "error" and _are_of_one_device(left, right)):
            return f"{key}: kube-scheduler {left.get(key)!r}, pyscheduler {right.get(key)!r}"
    return ""


def is_too_long(document: dict[str, Any], theirs: dict[str, Any]) -> bool:
    """Return True if kube-scheduler's search may be longer than the limit for searches here.

    Each of its steps tries all devices at most.
    """
    devices = sum(len(each["spec"].get("devices") or ()) for each in document["slices"])
    return bool(theirs["steps"] * (devices + 1) > LONGEST)


def _are_of_one_device(left: dict[str, Any], right: dict[str, Any]) -> bool:
    """Return True if two capacities of a device have errors: kube-scheduler reports any, in the order of a Go map."""
    heads = [_CAPACITY_ERROR.match(str(each.get("error", ""))) for each in (left, right)]
    return all(heads) and heads[0][1] == heads[1][1] and heads[0][2] != heads[1][2]  # type: ignore[index]


def normalised(result: dict[str, Any]) -> dict[str, Any]:
    """Return the result without what is random or empty."""
    cleaned = {key: value for key, value in result.items() if key not in IGNORED}
    return dict(_clean(cleaned))


def _clean(value: Any) -> Any:
    if isinstance(value, dict):
        pairs = ((key, "random" if key == "shareID" else _clean(each)) for key, each in value.items())
        return {key: each for key, each in pairs if each not in (None, [], {}, "", False)}
    return [_clean(each) for each in value] if isinstance(value, list | tuple) else value
