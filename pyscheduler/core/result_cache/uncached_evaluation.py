"""Filter and Score on a few given nodes without caching: the framework's rules in their simplest form.

Used if PreFilter names the nodes (DaemonSet pods), for the nominated node, and for dry runs.
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
from pyscheduler.core.framework.plugin_calls import call_plugin
from pyscheduler.core.framework.profile import Profile
from pyscheduler.core.result_cache.filter_columns import run_filter, run_filter_on_table
from pyscheduler.core.result_cache.plugin_result_cache import PluginResultCache, run_pre_score
from pyscheduler.core.result_cache.score_column import ScoreColumn
from pyscheduler.core.state.cluster import ClusterState
from pyscheduler.core.state.node import NodeRow


def filter_node(profile: Profile, cycle: Cycle, pod: Pod, node: NodeRow, skipped: Collection[str]) -> Status | None:
    """Return the first rejection by a Filter plugin for one node; None if the pod fits. PluginFailed if one raises."""
    return first_rejection(profile, [p for p in profile.filter if p.name not in skipped], cycle, pod, node)


def rejected_rows(
    profile: Profile, state: ClusterState, cycle: Cycle, pod: Pod, rows: NDArray[np.intp], skipped: Collection[str]
) -> dict[int, Status]:
    """Return the first rejection of each row that the pod does not fit. PluginFailed if a plugin raises."""
    status_by_row: dict[int, Status] = {}
    for plugin in profile.filter:
        if plugin.name in skipped or not len(rows):
            continue
        profile.evaluations.filter[plugin.name].n += len(rows)
        verdicts = run_filter_on_table(plugin, cycle, pod, state.table(rows))
        if not verdicts.rejections:
            continue
        statuses = [Status.of(plugin.name, rejection) for rejection in verdicts.rejections]
        rejected = verdicts.codes != 0
        for row, code in zip(rows[rejected].tolist(), verdicts.codes[rejected].tolist(), strict=True):
            status_by_row[row] = statuses[code - 1]
        rows = rows[~rejected]
    return status_by_row


def first_rejection(
    profile: Profile, plugins: Iterable[FilterPlugin], cycle: Cycle, pod: Pod, node: NodeRow
) -> Status | None:
    """Return the first rejection by one of these plugins; None if the pod fits. PluginFailed if one raises."""
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
    """Return the weighted total of each feasible node. PluginFailed if a plugin raises.

    `skipped` holds the plugins that PreScore skipped; None runs PreScore here.
    """
    rows = np.array([node.row for node in nodes], np.intp)
    total = np.zeros(len(nodes), np.int64)
    for column in score_columns(profile, state, cycle, pod, rows, skipped):
        total += column.weighted[rows]
    return total


def pre_score_rows(
    profile: Profile, state: ClusterState, cycle: Cycle, pod: Pod, rows: NDArray[np.intp]
) -> frozenset[str]:
    """Run PreScore on some feasible rows. Return the names of the skipped plugins."""
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
    """Return the score column of each Score plugin that is not skipped, computed for some feasible rows."""
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
    """Return the first rejection for the node with `others` added; None if the pod fits.

    The cycle's state is restored.
    """
    before, node = cycle.state(), node.copy()
    extensions = pre_filter_extensions(profile, cycle)
    try:
        for other in others:
            node.put(other)
            run_add_pod(extensions, cycle, pod, other, node)
        return filter_node(profile, cycle, pod, node, cycle.skipped)
    finally:
        cycle.restore(before)


def pre_filter_extensions(profile: Profile, cycle: Cycle) -> list[PreFilterPlugin]:
    """Return the PreFilter plugins with `add_pod` or `remove_pod` that have not skipped the pod."""
    return [
        plugin
        for plugin in profile.pre_filter
        if has_pre_filter_extensions(plugin) and plugin.name not in cycle.skipped
    ]


def has_pre_filter_extensions(plugin: Plugin) -> bool:
    """Return True if the plugin implements `add_pod` or `remove_pod`."""
    return _has_pre_filter_extensions(type(plugin))


@cache
def _has_pre_filter_extensions(cls: type[Plugin]) -> bool:
    base = PreFilterPlugin
    return issubclass(cls, base) and (cls.add_pod is not base.add_pod or cls.remove_pod is not base.remove_pod)


def run_add_pod(extensions: Iterable[PreFilterPlugin], cycle: Cycle, pod: Pod, added: Pod, node: NodeRow) -> None:
    """Call `add_pod` of the plugins for a pod that a dry run added to the node."""
    for plugin in extensions:
        call_plugin(plugin, "PreFilterExtensionAddPod", plugin.add_pod, cycle, pod, added, node)


def run_remove_pod(extensions: Iterable[PreFilterPlugin], cycle: Cycle, pod: Pod, removed: Pod, node: NodeRow) -> None:
    """Call `remove_pod` of the plugins for a pod that a dry run removed from the node."""
    for plugin in extensions:
        call_plugin(plugin, "PreFilterExtensionRemovePod", plugin.remove_pod, cycle, pod, removed, node)
