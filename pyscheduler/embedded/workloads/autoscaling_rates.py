"""Rate policies of HorizontalPodAutoscalers: by how much a target may grow or shrink in a period.

They are those of `spec.behavior` in autoscaling/v2, with kube-controller-manager's defaults.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Final, NamedTuple

from pyscheduler.embedded.objects import Json, dig

SYNC_SECONDS: Final = 15.0
"""Default of kube-controller-manager's --horizontal-pod-autoscaler-sync-period."""
_DOUBLE: Final = {"type": "Percent", "value": 100, "periodSeconds": SYNC_SECONDS}
_FOUR_PODS: Final = {"type": "Pods", "value": 4, "periodSeconds": SYNC_SECONDS}
_DEFAULT_POLICIES: Final = {"scaleUp": [_FOUR_PODS, _DOUBLE], "scaleDown": [_DOUBLE]}
_LEAST_LIMIT: Final = 4
"""Replicas that any target may have at once if its autoscaler has no behavior."""
_IN_RANGE: Final = ("DesiredWithinRange", "the desired count is within the acceptable range")
_TOO_MANY: Final = ("TooManyReplicas", "the desired replica count is more than the maximum replica count")
_TOO_FEW: Final = ("TooFewReplicas", "the desired replica count is less than the minimum replica count")
_GROWS_FAST: Final = (
    "ScaleUpLimit",
    "the desired replica count is increasing faster than the maximum scale rate",
)
_SHRINKS_FAST: Final = (
    "ScaleDownLimit",
    "the desired replica count is decreasing faster than the maximum scale rate",
)


class Rescale(NamedTuple):
    """A change of the number of replicas."""

    at: float
    added: int
    """Negative if replicas were removed."""


@dataclass(frozen=True)
class Limited:
    """Number of replicas after all limits, with the condition ScalingLimited."""

    replicas: int
    reason: str
    message: str

    @property
    def is_limited(self) -> bool:
        """True if the limits changed the number."""
        return self.reason != _IN_RANGE[0]

    @property
    def is_by_rate(self) -> bool:
        """True if more may be changed in a later period."""
        return self.reason in (_GROWS_FAST[0], _SHRINKS_FAST[0])


def limit(autoscaler: Json, current: int, desired: int, rescales: Sequence[Rescale], now: float) -> Limited:
    """Return the desired replicas within minReplicas, maxReplicas and the rate policies, given recent rescales."""
    lowest, highest = int(autoscaler["spec"].get("minReplicas") or 1), int(autoscaler["spec"]["maxReplicas"])
    too_few, too_many = _TOO_FEW, _TOO_MANY
    if desired > current:
        bound = max(current, _most(autoscaler, current, rescales, now))
        if bound < highest:
            highest, too_many = bound, _GROWS_FAST
    elif desired < current:
        bound = min(current, _least(autoscaler, current, rescales, now))
        if bound > lowest:
            lowest, too_few = bound, _SHRINKS_FAST
    if desired > highest:
        return Limited(highest, *too_many)
    if desired < lowest:
        return Limited(lowest, *too_few)
    return Limited(desired, *_IN_RANGE)


def recent(autoscaler: Json, rescales: Iterable[Rescale], now: float) -> tuple[Rescale, ...]:
    """Return the rescales that a policy still counts."""
    periods = (
        float(policy["periodSeconds"]) for direction in _DEFAULT_POLICIES for policy in _policies(autoscaler, direction)
    )
    longest = max(SYNC_SECONDS, *periods)
    return tuple(each for each in rescales if now - each.at < longest)


def _most(autoscaler: Json, current: int, rescales: Sequence[Rescale], now: float) -> int:
    """Return the number of replicas to which the target may grow now."""
    if dig(autoscaler, "spec", "behavior") is None:
        return max(2 * _at_start(current, rescales, now - SYNC_SECONDS), _LEAST_LIMIT)
    bounds = _bounds(autoscaler, "scaleUp", current, rescales, now)
    return {"Disabled": current, "Min": min(bounds)}.get(_select_policy(autoscaler, "scaleUp"), max(bounds))


def _least(autoscaler: Json, current: int, rescales: Sequence[Rescale], now: float) -> int:
    """Return the number of replicas to which the target may shrink now."""
    if dig(autoscaler, "spec", "behavior") is None:
        return 0
    bounds = _bounds(autoscaler, "scaleDown", current, rescales, now)
    return {"Disabled": current, "Min": max(bounds)}.get(_select_policy(autoscaler, "scaleDown"), min(bounds))


def _bounds(autoscaler: Json, direction: str, current: int, rescales: Sequence[Rescale], now: float) -> list[int]:
    """Return the number of replicas that each policy allows. Percentages allow more rather than less."""
    sign, rounded = (1, math.ceil) if direction == "scaleUp" else (-1, math.trunc)
    bounds = []
    for policy in _policies(autoscaler, direction):
        start = _at_start(current, rescales, now - float(policy["periodSeconds"]))
        change = sign * int(policy["value"])
        bounds.append(start + change if policy["type"] == "Pods" else rounded(start * (1 + change / 100)))
    return bounds


def _policies(autoscaler: Json, direction: str) -> Sequence[Json]:
    return dig(autoscaler, "spec", "behavior", direction, "policies") or _DEFAULT_POLICIES[direction]


def _select_policy(autoscaler: Json, direction: str) -> str:
    return str(dig(autoscaler, "spec", "behavior", direction, "selectPolicy") or "Max")


def _at_start(current: int, rescales: Sequence[Rescale], begin: float) -> int:
    """Return the number of replicas at the beginning of a period."""
    return current - sum(each.added for each in rescales if each.at > begin)
