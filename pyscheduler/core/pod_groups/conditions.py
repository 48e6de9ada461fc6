"""Conditions of the objects that declare a pod group: a PodGroup, or all of a tree."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from pyscheduler.api.pod import Pod
from pyscheduler.api.pod_group import PodGroup, PodGroupKey
from pyscheduler.core.commands import Command, EventType, PatchPodGroup, Record
from pyscheduler.core.context import Context
from pyscheduler.core.pod_groups import kubernetes_texts, subgroups
from pyscheduler.core.scheduling.failure import Failure

_Condition = tuple[str, str, str]
"""Status, reason and message."""


def report_group(context: Context, group: PodGroup, failures: Mapping[str, Failure]) -> list[Command]:
    """Return the conditions of the group's objects, unless they are the last ones written.

    A group that has its minimum stays scheduled, whatever happens to further members (as in kube-scheduler 1.37).
    """
    state = context.groups.get(group.key)
    if state is None:
        return []
    short, failure = context.groups.shortage(group, ()), next(iter(failures.values()), None)
    condition = _scheduled(group) if not short else None if failure is None else _failed(failure)
    commands = [*_changed(group, state.condition, condition)]
    state.condition = condition or state.condition
    if group.subgroups:
        commands += _report_subgroups(context, group, failures)
    return commands


def report_gated_pod(context: Context, key: PodGroupKey, pod: Pod, failure: Failure) -> list[Command]:
    """Return the condition and the event of a group that is not attempted, because it lacks pods or an open queue.

    None for groups of kube-scheduler, which reports attempts only.
    """
    group, conditions = context.groups.requirements(key), list[Command]()
    if isinstance(group, PodGroup):
        if kubernetes_texts.is_used_by(group):
            return []
        conditions = report_group(context, group, {pod.uid: failure})
    return [*conditions, Record(EventType.WARNING, "FailedScheduling", "Scheduling", failure.message, pod)]


def _report_subgroups(context: Context, group: PodGroup, failures: Mapping[str, Failure]) -> Iterator[Command]:
    """Yield the conditions of the subgroups that are objects."""
    state, keys = context.groups[group.key], context.groups.subgroup_keys(group)
    started = keys.count(state.started)
    by_key = {keys.key_of(state.pods[uid]): failures[uid] for uid in reversed([*failures]) if uid in state.pods}
    for each in subgroups.walk(group):
        if each is group or each.kind is None:
            continue
        failure = next((by_key[part.key] for part in subgroups.walk(each) if part.key in by_key), None)
        if subgroups.has_minimum(each, started):
            condition = _scheduled(each)
        elif failure is None:
            continue
        else:
            condition = _failed(failure)
        before = state.subgroup_conditions.get(each.key, ("", "", ""))
        state.subgroup_conditions[each.key] = condition
        yield from _changed(each, before, condition)


def _scheduled(group: PodGroup) -> _Condition:
    if kubernetes_texts.is_used_by(group):
        return "True", "Scheduled", ""
    needs = f"{group.min_subgroups} groups" if group.min_subgroups else f"{group.min_count} pods"
    return "True", "Scheduled", f"the {needs} that it needs have a node"


def _failed(failure: Failure) -> _Condition:
    return "False", failure.reason, failure.group_message or failure.message


def _changed(group: PodGroup, before: _Condition, condition: _Condition | None) -> Iterator[Command]:
    """Yield the commands that write a condition to the object of a group; none if it has been written."""
    if condition is None or condition == before or group.kind is None:
        return
    status, reason, message = condition
    types = {group.condition_type: status}
    if group.failure_condition_type and status == "False":
        types = {group.failure_condition_type: "True"}
        if before[0] == "True":
            types[group.condition_type] = "False"
    elif group.failure_condition_type and before[0] == "False":
        types[group.failure_condition_type] = "False"
    namespace, name, _ = group.key
    for each in types.items():
        yield PatchPodGroup(group.kind, namespace, name, group.uid, *each, reason, message)
