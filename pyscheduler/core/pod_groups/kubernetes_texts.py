"""Texts of PodGroups that the plugin GangScheduling declares: kube-scheduler's, of schedule_one_podgroup.go (1.37).

The condition of the PodGroup has the reason of the group and the result of preemption, which pods that would fit have,
too. Those that were not tried have the reason only, and those that do not fit have their own. kube-scheduler puts the
text of an internal error before some of them.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Set
from typing import Final

from msgspec.structs import replace

from pyscheduler.api.pod_group import PodGroup
from pyscheduler.core.scheduling.failure import SCHEDULER_ERROR, UNSCHEDULABLE, Failure

_ERROR: Final = "pod group is unschedulable"
_PREEMPTION: Final = "pod group preemption: "
_NEVER: Final = f"{_PREEMPTION}not eligible due to preemptionPolicy=Never."
_ONGOING: Final = f"{_PREEMPTION}ongoing preemption on nominated nodes"
_NO_VICTIMS: Final = f"{_PREEMPTION}No preemption victims found for incoming preemptor"


def is_used_by(group: PodGroup) -> bool:
    """Return True if the texts of the group are kube-scheduler's."""
    return group.has_kubernetes_messages


def preemptor(group: PodGroup, node_name: str) -> str:
    """Return the name of the group and its node for the events of its victims; kube-scheduler has one for all nodes."""
    if is_used_by(group):
        return f"podgroup {group.uid} on node cluster"
    return f"podgroup {group.key} on node {node_name}"


def never(group: PodGroup, is_forbidden: bool) -> tuple[str, ...]:
    """Return the reason that preemption is forbidden, if it is; the texts of other groups have none."""
    return (_NEVER,) if is_forbidden and is_used_by(group) else ()


def without_plugins(group: PodGroup, reason: str) -> str:
    """Return the reason once preemption was tried: kube-scheduler drops those of the plugins before it."""
    return "" if is_used_by(group) else reason


def add_ongoing(group: PodGroup, failures: dict[str, Failure]) -> None:
    """Add to the failures that victims are terminating."""
    _add(group, failures, _ONGOING, waits=True)


def add_result(group: PodGroup, failures: dict[str, Failure], victims: int | None, reason: str) -> None:
    """Add to the failures what preemption has come to. `victims` is their number, None if there are none.

    `reason` has what the plugins and the queues have returned; without one, kube-scheduler's text is added.
    """
    if not is_used_by(group) or reason:
        failures.update({uid: _with_reason(each, reason) for uid, each in failures.items() if reason})
    elif victims is None:
        _add(group, failures, _NO_VICTIMS)
    else:
        text = f"{_PREEMPTION}found a placement for podgroup, preempting {victims} victims"
        _add(group, failures, text, waits=True)


def _add(group: PodGroup, failures: dict[str, Failure], reason: str, *, waits: bool = False) -> None:
    if is_used_by(group):
        changed = {uid: _with_reason(each, reason, waits=waits) for uid, each in failures.items() if each.group_message}
        failures.update(changed)


def _with_reason(failure: Failure, reason: str, *, waits: bool = False) -> Failure:
    """Return the failure of a member with what preemption for its group has come to; `waits` for its victims."""
    if not failure.group_message:
        return replace(failure, message=f"{failure.message} {reason}")
    text = f"{failure.group_message}, {reason}"
    message = failure.message if not failure.fits else text if waits else f"{_ERROR}, {text}"
    return replace(failure, message=message, group_message=text)


def as_whole(group: PodGroup, failures: dict[str, Failure]) -> dict[str, Failure]:
    """Return the failures of a group that fails as a whole: it has the message of its pods."""
    if not is_used_by(group):
        return failures
    return {uid: replace(each, group_message=each.message) for uid, each in failures.items()}


def failures_of_members(
    group: PodGroup,
    members: Iterable[str],
    failures: Mapping[str, Failure],
    fitting: Set[str],
    started: int,
    tried: int,
) -> dict[str, Failure]:
    """Return the failure of each member of a group that lacks its minimum.

    `failures` are those of members that fit nowhere, `fitting` are those that would fit, `started` is the number of
    pods that have a node. `tried` is the number of sets of nodes to choose from, 0 if there are none.

    An attempt ends as soon as too few members are left to try, so the number of those is known.
    """
    if (error := next((each for each in failures.values() if each.reason == SCHEDULER_ERROR), None)) is not None:
        text = f"failed to schedule other pod from a pod group: {error.message}"
        whole = Failure.error(text)
        return {uid: replace(failures.get(uid, whole), group_message=text) for uid in members}
    scheduled = started + len(fitting)
    remaining = max(0, group.min_count - 1 - scheduled)
    text = f"minCount ({group.min_count}) cannot be satisfied: {scheduled} scheduled, {remaining} remaining"
    if tried:
        text = f"{_ERROR}, 0/{tried} placements are available, first placement status: {text}"
    plugins = frozenset(plugin for failure in failures.values() for plugin in failure.unschedulable_plugins)
    whole = Failure(text, UNSCHEDULABLE, plugins, nominate="", group_message=text)
    fits = replace(whole, message=f"{_ERROR}, {text}", fits=True)
    return {
        uid: replace(failures[uid], group_message=text) if uid in failures else fits if uid in fitting else whole
        for uid in members
    }
