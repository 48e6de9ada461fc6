"""Eviction units of preemption: single pods, pods above the minimum of their group, and whole groups."""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterable, Mapping, Sequence, Set

import numpy as np

from pyscheduler.api.nodes import Mask
from pyscheduler.api.pod import Pod
from pyscheduler.api.pod_group import DisruptionMode, EvictionRank, EvictionUnit, PodGroup, PodGroupKey
from pyscheduler.api.steps import Steps
from pyscheduler.api.usable_nodes import usable_nodes
from pyscheduler.core.context import Context
from pyscheduler.core.pod_groups import steps
from pyscheduler.core.pod_groups.eviction_order import EvictionOrder
from pyscheduler.core.pod_groups.members import SINGLE_POD
from pyscheduler.core.pod_groups.room import most_members
from pyscheduler.core.pod_groups.subgroup_evictions import may_lose, surplus_units
from pyscheduler.core.state.node import NodeRow
from pyscheduler.core.state.pods_by_importance import ImportanceColumns

_PODS_PER_STEP = 8192
"""Pods that are divided among their groups in a step, at 1 µs each."""


def leaves_minimums(context: Context, victims: Collection[Pod]) -> bool:
    """Return True if no group loses its minimum with these pods, unless they are all of its pods."""
    uids = {pod.uid for pod in victims}
    return all(_is_whole_without(context, key, uids) for key in {*map(context.groups.key_of, victims)} if key)


def has_only_lower_priority(context: Context, victims: Collection[Pod], priority: int) -> bool:
    """Return True if the priorities of these pods, and of their groups, are below this one."""
    groups = context.groups
    single = (pod for pod in victims if groups.key_of(pod) is None)
    keys = {key for pod in victims if (key := groups.key_of(pod)) is not None}
    placed = ((key, [groups[key].pods[uid] for uid in groups[key].placed]) for key in keys)
    return all(pod.priority < priority for pod in single) and all(
        groups.priority_of(key, pods) < priority for key, pods in placed if pods
    )


def _is_whole_without(context: Context, key: PodGroupKey, uids: Set[str]) -> bool:
    groups, state = context.groups, context.groups[key]
    group = groups.requirements(key)
    if not isinstance(group, PodGroup) or groups.shortage(group, ()) or uids >= state.placed:
        return True
    if group.disruption_mode is DisruptionMode.POD:
        return True
    if group.subgroups:
        return may_lose(context, group, uids)
    roles = [groups.role_of(pod) for pod in state.started if pod.uid not in uids]
    return group.disruption_mode is not DisruptionMode.ALL and not group.shortage(roles)


def eviction_units(
    context: Context,
    preemptor: PodGroupKey,
    priority: int,
    among: Collection[PodGroupKey] | None = None,
    *,
    makes_room: bool = True,
) -> Steps[list[EvictionUnit]]:
    """Return the units of pods on nodes with a priority below this one, the least important first.

    Pods of one priority are in this order: those above the minimum of their group, single pods, whole groups.
    Terminating pods and those of the preemptor are left out; with `among`, all that are in none of these groups. If the
    evictions are to make room, those above the minimum are rather pods on usable nodes than newer ones on others.
    """
    if not has_lower_priority(context, priority):
        return []  # most attempts of groups that do not fit end here, and there may be a million pods
    groups: dict[PodGroupKey, list[Pod]] = {}
    units: list[EvictionUnit] = []
    key_of, rank = context.groups.key_of, EvictionRank.SINGLE_POD
    for i, node in enumerate(context.state.rows if among is None else _nodes_of(context, among), 1):
        if i % steps.RECORDS_PER_STEP == 0:
            yield
        for pod in node.pods.values():
            if pod.deleting:
                continue
            key = key_of(pod)
            if among is not None and key not in among:
                continue
            if key is None or key.api == SINGLE_POD:
                if pod.priority < priority and key != preemptor:
                    units.append(EvictionUnit((pod,), pod.priority, rank, pod.started, key))
            elif key != preemptor:
                groups.setdefault(key, []).append(pod)
    useless = on_unusable_nodes(context) if groups and makes_room else frozenset()
    for i, (key, pods) in enumerate(groups.items(), 1):
        if i % steps.RECORDS_PER_STEP == 0:
            yield
        lowest = context.groups.priority_of(key, pods)
        if lowest < priority:
            units += _units_of_group(context, key, pods, lowest, useless)
    return sorted(units, key=lambda unit: unit.importance)


def eviction_order(context: Context, preemptor: PodGroupKey, priority: int) -> Steps[EvictionOrder]:
    """Return the units of `eviction_units` if there are no queues; single pods are read from columns."""
    if not has_lower_priority(context, priority):
        return EvictionOrder(context.state, [])
    pods, kinds = context.pods_by_importance.read()
    groups, is_member = yield from _pods_of_groups(context, pods)
    single = (pods.selected(~is_member) if groups else pods).lower(priority)
    units: list[EvictionUnit] = []
    useless = on_unusable_nodes(context) if groups else frozenset()
    for i, (key, members) in enumerate(groups.items(), 1):
        if i % steps.RECORDS_PER_STEP == 0:
            yield
        lowest = context.groups.priority_of(key, members)
        if key != preemptor and lowest < priority:
            units += _units_of_group(context, key, members, lowest, useless)
    return EvictionOrder(context.state, sorted(units, key=lambda unit: unit.importance), single, kinds)


def _pods_of_groups(context: Context, pods: ImportanceColumns) -> Steps[tuple[dict[PodGroupKey, list[Pod]], Mask]]:
    """Return the pods that are scheduled in groups, in the order of nodes and of pods there, and a mask of them."""
    groups, state, found = context.groups, context.state, dict[PodGroupKey, list[Pod]]()
    is_member = np.fromiter(map(groups.has_member, pods.uids), np.bool_, len(pods.uids))
    members = np.flatnonzero(is_member)
    for count, i in enumerate(members[pods.spots[members].argsort()].tolist(), 1):
        if count % _PODS_PER_STEP == 0:
            yield
        node = state.node_of(uid := pods.uids[i])
        assert node is not None, f"pod {uid} is on a node"
        if (key := groups.key_of(pod := node.pods[uid])) is None:
            is_member[i] = False  # its scheduler is another one
        else:
            found.setdefault(key, []).append(pod)
    return found, is_member


def _nodes_of(context: Context, keys: Collection[PodGroupKey]) -> Iterable[NodeRow]:
    """Return the nodes with pods of these groups, in the order of all nodes, which decides between equal units."""
    groups = [group for key in keys if (group := context.groups.get(key)) is not None]
    rows = context.state.rows
    if sum(len(group.placed) for group in groups) > len(rows):
        return rows
    nodes = {node.row: node for group in groups for uid in group.placed if (node := context.state.node_of(uid))}
    return [nodes[row] for row in sorted(nodes) if row >= 0]


def has_lower_priority(context: Context, priority: int) -> bool:
    """Return True if a pod on a node has a priority below this one, or may have it by its group."""
    return context.state.placed.has_lower_priority(priority) or has_group_of_lower_priority(context, priority)


def has_group_of_lower_priority(context: Context, priority: int) -> bool:
    """Return True if a group with pods on nodes has a priority of its own below this one."""
    return any(
        isinstance(requirements := context.groups.requirements(group.key), PodGroup)
        and requirements.priority is not None
        and requirements.priority < priority
        for group in context.groups.declared()
        if group.placed
    )


def may_fit_without_lower_priority(context: Context, priority: int, least: Mapping[str, int], needed: int) -> bool:
    """Return False if nodes lack room for so many members of these requests even without pods of a lower priority.

    There may be a million such pods, and this reads columns only. Terminating pods of other priorities are not counted.
    """
    if not least or has_group_of_lower_priority(context, priority):
        return True
    nodes = context.state.table_without_lower_priority(priority)
    return most_members(nodes, least) >= needed or bool(nodes.overflowed.any())


def on_unusable_nodes(context: Context) -> frozenset[str]:
    """Return the UIDs of pods on nodes that are cordoned or not ready, where their evictions make no room."""
    unusable = (~usable_nodes(context.state.table())).nonzero()[0].tolist()
    return frozenset(uid for row in unusable for uid in context.state.rows[row].pods)


def _units_of_group(
    context: Context, key: PodGroupKey, pods: list[Pod], priority: int, useless: Set[str]
) -> list[EvictionUnit]:
    group = context.groups.requirements(key)
    arrivals = {uid: i for i, uid in enumerate(context.groups[key].pods)}
    newest_first = sorted(pods, key=lambda pod: (-pod.started, -arrivals[pod.uid]))
    if not isinstance(group, PodGroup) or context.groups.shortage(group, ()):
        return [EvictionUnit((pod,), priority, EvictionRank.SURPLUS, pod.started, key) for pod in newest_first]
    if group.disruption_mode is DisruptionMode.POD:
        return [EvictionUnit((pod,), priority, EvictionRank.GROUP, pod.started, key) for pod in newest_first]
    useful_first = sorted(newest_first, key=lambda pod: pod.uid in useless) if useless else newest_first
    surplus = [] if group.disruption_mode is DisruptionMode.ALL else _surplus(context, group, useful_first)
    units = [
        EvictionUnit(unit, priority, EvictionRank.SURPLUS, max(pod.started for pod in unit), key) for unit in surplus
    ]
    if sum(map(len, surplus)) == len(pods):
        return units
    # The surplus is of no use without the others.
    rank = EvictionRank.GROUP if len(pods) > 1 else EvictionRank.SINGLE_POD
    return [*units, EvictionUnit(tuple(newest_first), priority, rank, newest_first[0].started, key)]


def _surplus(context: Context, group: PodGroup, ordered: Sequence[Pod]) -> list[tuple[Pod, ...]]:
    """Return the first pods without which the group still has its minimums; with others of no use without them."""
    if group.subgroups:
        return surplus_units(context, group, ordered)
    groups = context.groups
    started, surplus = groups[group.key].started, list[tuple[Pod, ...]]()
    spare = len(started) - group.min_count
    spare_by_role = Counter(map(groups.role_of, started)) if group.min_count_by_role else Counter[str]()
    spare_by_role.subtract(group.min_count_by_role)
    for pod in ordered:
        role = groups.role_of(pod) if group.min_count_by_role else ""
        if spare > len(surplus) and (role not in group.min_count_by_role or spare_by_role[role] > 0):
            spare_by_role[role] -= 1
            surplus.append((pod,))
    return surplus
