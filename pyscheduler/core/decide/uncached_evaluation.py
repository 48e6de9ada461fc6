"""Filter and Score asked of a few named nodes, nothing kept: the framework's rules in their plainest form.

Used where PreFilter narrows the nodes (DaemonSet pods name theirs), for a nominated node, and for what-ifs.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Sequence
from functools import cache

import numpy as np
from numpy.typing import NDArray

from pyscheduler.api.cycle import Cycle
from pyscheduler.api.normalize import Scores
from pyscheduler.api.outcome import Status
from pyscheduler.api.plugin import FilterPlugin, Plugin, PreFilterPlugin
from pyscheduler.api.pod import Pod
from pyscheduler.core.decide.filtering import run_filter, run_filter_on_table
from pyscheduler.core.decide.plugin_result_cache import PluginResultCache, run_pre_score
from pyscheduler.core.decide.score_column import ScoreColumn
from pyscheduler.core.framework.plugin_calls import call_plugin
from pyscheduler.core.framework.profile import Profile
from pyscheduler.core.state.cluster import ClusterState
from pyscheduler.core.state.node import NodeRow


def filter_node(profile: Profile, cycle: Cycle, pod: Pod, node: NodeRow, skipped: Collection[str]) -> Status | None:
    """The first plugin's "no" for one node, or None if the pod fits. PluginFailed if one raises."""
    return first_rejection(profile, [p for p in profile.filter if p.name not in skipped], cycle, pod, node)


def rejected_rows(
    profile: Profile, state: ClusterState, cycle: Cycle, pod: Pod, rows: NDArray[np.intp], skipped: Collection[str]
) -> dict[int, Status]:
    """The first plugin's "no" for each of many rows that the pod does not fit. PluginFailed if one raises."""
    refused: dict[int, Status] = {}
    for plugin in profile.filter:
        if plugin.name in skipped or not len(rows):
            continue
        profile.evaluations.filter[plugin.name].n += len(rows)
        verdicts = run_filter_on_table(plugin, cycle, pod, state.table(rows))
        if not verdicts.rejections:
            continue
        statuses = [Status.of(plugin.name, rejection) for rejection in verdicts.rejections]
        against = verdicts.codes != 0
        for row, code in zip(rows[against].tolist(), verdicts.codes[against].tolist(), strict=True):
            refused[row] = statuses[code - 1]
        rows = rows[~against]
    return refused


def first_rejection(
    profile: Profile, plugins: Iterable[FilterPlugin], cycle: Cycle, pod: Pod, node: NodeRow
) -> Status | None:
    """The same of these plugins of the profile only."""
    evaluations = profile.evaluations.filter
    for plugin in plugins:
        evaluations[plugin.name].n += 1
        rejection = run_filter(plugin, cycle, pod, node)
        if rejection is not None:
            return Status.of(plugin.name, rejection)
    return None


def score_nodes(
    profile: Profile,
    state: ClusterState,
    cycle: Cycle,
    pod: Pod,
    nodes: Sequence[NodeRow],
    skipped: frozenset[str] | None = None,
) -> Scores:
    """The weighted total of each of some feasible nodes. PluginFailed if a plugin raises.

    `skipped` is who PreScore leaves out; it is asked here if that is None.
    """
    rows = np.array([node.row for node in nodes], np.intp)
    total = np.zeros(len(nodes), np.int64)
    for column in score_columns(profile, state, cycle, pod, rows, skipped):
        total += column.weighted[rows]
    return total


def pre_score_rows(
    profile: Profile, state: ClusterState, cycle: Cycle, pod: Pod, rows: NDArray[np.intp]
) -> frozenset[str]:
    """Ask PreScore with some feasible rows; who is to be left out of scoring."""
    evaluations = profile.evaluations.pre_score
    return run_pre_score(profile.pre_score, cycle, pod, lambda: state.table(rows), PluginResultCache(), evaluations)


def score_columns(
    profile: Profile,
    state: ClusterState,
    cycle: Cycle,
    pod: Pod,
    rows: NDArray[np.intp],
    skipped: frozenset[str] | None = None,
) -> list[ScoreColumn]:
    """What each Score plugin that has something to say of the pod gives to some feasible rows."""
    if skipped is None:
        skipped = pre_score_rows(profile, state, cycle, pod, rows)
    evaluations = profile.evaluations.score
    columns = [
        ScoreColumn(weighted, len(state), evaluations[weighted.plugin.name])
        for weighted in profile.score
        if weighted.plugin.name not in skipped
    ]
    for column in columns:
        column.score_rows(cycle, pod, state, rows)
        column.renormalize(cycle, pod, rows)
    return columns


def filter_with_nominated_pods(
    profile: Profile, cycle: Cycle, pod: Pod, node: NodeRow, others: Sequence[Pod]
) -> Status | None:
    """Whether the pod would fit the node if `others` ran there too: None, or the "no". All is left as it was."""
    before, node = cycle.state(), node.copy()
    told = pre_filter_extensions(profile, cycle)
    try:
        for other in others:
            node.put(other)
            run_add_pod(told, cycle, pod, other, node)
        return filter_node(profile, cycle, pod, node, cycle.skipped)
    finally:
        cycle.restore(before)


def pre_filter_extensions(profile: Profile, cycle: Cycle) -> list[PreFilterPlugin]:
    """The PreFilter plugins to be told of pods in a what-if: those that keep count and have not left themselves out."""
    return [
        plugin
        for plugin in profile.pre_filter
        if has_pre_filter_extensions(plugin) and plugin.name not in cycle.skipped
    ]


def has_pre_filter_extensions(plugin: Plugin) -> bool:
    """Whether what the plugin says of a node depends on what it was told of pods that came and went."""
    return _has_pre_filter_extensions(type(plugin))


@cache
def _has_pre_filter_extensions(cls: type[Plugin]) -> bool:
    base = PreFilterPlugin
    return issubclass(cls, base) and (cls.add_pod is not base.add_pod or cls.remove_pod is not base.remove_pod)


def run_add_pod(told: Iterable[PreFilterPlugin], cycle: Cycle, pod: Pod, added: Pod, node: NodeRow) -> None:
    """Tell PreFilter plugins of a pod that was put on the node in a what-if."""
    for plugin in told:
        call_plugin(plugin, "PreFilterExtensionAddPod", plugin.add_pod, cycle, pod, added, node)


def run_remove_pod(told: Iterable[PreFilterPlugin], cycle: Cycle, pod: Pod, removed: Pod, node: NodeRow) -> None:
    """Tell PreFilter plugins of a pod that was taken off the node in a what-if."""
    for plugin in told:
        call_plugin(plugin, "PreFilterExtensionRemovePod", plugin.remove_pod, cycle, pod, removed, node)
