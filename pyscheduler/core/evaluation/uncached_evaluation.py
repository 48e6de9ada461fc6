"""Filter, PreScore, Score and NormalizeScore without a cache: the framework's rules in their simplest form.

This is the specification of the cached results. It evaluates every node if `resultCache` is off, and otherwise the
nodes that PreFilter names (DaemonSet pods), the nominated node, samples of the nodes, and dry runs.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from functools import cache

import numpy as np
from numpy.typing import NDArray

from pyscheduler.api.cycle import Cycle
from pyscheduler.api.nodes import NodeTable
from pyscheduler.api.normalize import Scores
from pyscheduler.api.outcome import Skip, Status
from pyscheduler.api.plugin import FilterPlugin, Plugin, PreFilterPlugin, ScorePlugin
from pyscheduler.api.pod import Pod
from pyscheduler.core.framework.plugin_calls import call_plugin
from pyscheduler.core.framework.profile import Profile
from pyscheduler.core.framework.score_plugins import are_few, run_normalize, run_score, run_score_on_table
from pyscheduler.core.result_cache.row_filters import run_filter, run_filter_on_table
from pyscheduler.core.state.cluster import ClusterState
from pyscheduler.core.state.node import NodeRow
from pyscheduler.kernels import Rows


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


def pre_score_rows(profile: Profile, state: ClusterState, cycle: Cycle, pod: Pod, rows: Rows) -> frozenset[str]:
    """Run PreScore on some feasible rows. Return the names of the skipped plugins. PluginFailed if one raises."""
    table, skipped = state.table(rows), set[str]()
    for plugin in profile.pre_score:
        if isinstance(call_plugin(plugin, "PreScore", plugin.pre_score, cycle, pod, table), Skip):
            skipped.add(plugin.name)
        else:
            profile.evaluations.pre_score[plugin.name].n += 1
    return frozenset(skipped)


def score_rows(
    profile: Profile, state: ClusterState, cycle: Cycle, pod: Pod, rows: Rows, skipped: Collection[str]
) -> dict[str, Scores]:
    """Return the normalized and weighted scores of some feasible rows, by plugin. PluginFailed if one raises."""
    table, scores = state.table(rows), dict[str, Scores]()
    for plugin, weight in ((weighted.plugin, weighted.weight) for weighted in profile.score):
        if plugin.name not in skipped:
            profile.evaluations.score[plugin.name].n += len(table)
            scores[plugin.name] = run_normalize(plugin, cycle, pod, _raw_scores(plugin, cycle, pod, table)) * weight
    return scores


def sum_scores(scores: Mapping[str, Scores], rows: int) -> Scores:
    """Return the total of each of the rows."""
    return sum(scores.values(), np.zeros(rows, np.int64))


def _raw_scores(plugin: ScorePlugin, cycle: Cycle, pod: Pod, table: NodeTable) -> Scores:
    """Return the scores of some nodes; of few by per-node calls."""
    if are_few(table):
        return np.array([run_score(plugin, cycle, pod, node) for node in table], np.int64)
    return np.array(run_score_on_table(plugin, cycle, pod, table), np.int64)


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
