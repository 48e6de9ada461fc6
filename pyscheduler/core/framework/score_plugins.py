"""Calls of Score plugins for one node or for many, with the result checked."""

from __future__ import annotations

from collections.abc import Sized
from typing import NoReturn

import numpy as np

from pyscheduler.api.cycle import Cycle
from pyscheduler.api.nodes import NodeInfo, NodeTable
from pyscheduler.api.normalize import MAX_NODE_SCORE, Normalizer, Scores
from pyscheduler.api.plugin import ScorePlugin
from pyscheduler.api.pod import Pod
from pyscheduler.api.quantity import MAX_INT64
from pyscheduler.api.return_values import LEAST_SCORE, InvalidReturnValue, check_score
from pyscheduler.core.framework.plugin_failure import raise_plugin_failed
from pyscheduler.core.framework.result_checks import checked_column
from pyscheduler.kernels import extremes

FEW = 6
"""Up to this number of rows, per-node calls are faster than the fixed cost of a vectorised call; see `are_few`."""
NORMALIZE = "ScoreExtensionNormalize"
"""NormalizeScore as named in kube-scheduler's metrics."""
NO_SCORES: Scores = np.zeros(0, np.int64)


def are_few(rows: Sized) -> bool:
    """Return True if per-node calls should evaluate these rows."""
    return len(rows) <= FEW


def run_score(plugin: ScorePlugin, cycle: Cycle, pod: Pod, node: NodeInfo) -> int:
    """Return the plugin's raw score of one node. PluginFailed if it fails."""
    try:
        observer = cycle.call_observer
        if observer is None:
            score = plugin.score(cycle, pod, node)
        else:
            score = observer(plugin.name, "Score", plugin.score, cycle, pod, node)
        if type(score) is not int or not LEAST_SCORE <= score <= MAX_INT64:
            check_score(plugin.score, score)
        return score
    except BaseException as error:
        raise_plugin_failed(plugin.name, "Score", error)


def run_score_on_table(plugin: ScorePlugin, cycle: Cycle, pod: Pod, table: NodeTable) -> Scores:
    """Return the plugin's raw scores of many nodes. PluginFailed if it fails."""
    try:
        observer = cycle.call_observer
        if observer is None:
            scores = plugin.score_all(cycle, pod, table)
        else:
            scores = observer(plugin.name, "Score", plugin.score_all, cycle, pod, table)
        return checked_column(plugin.score_all, scores, len(table))
    except BaseException as error:
        raise_plugin_failed(plugin.name, "Score", error)


def overrides_normalize(plugin: ScorePlugin) -> bool:
    """Return True if the plugin has a NormalizeScore of its own instead of a `normalizer`."""
    return type(plugin).normalize is not ScorePlugin.normalize


def run_normalize(plugin: ScorePlugin, cycle: Cycle, pod: Pod, raw: Scores) -> Scores:
    """Return the final scores (0..100) for the raw scores of all feasible nodes. PluginFailed if the plugin fails."""
    final = raw
    if plugin.normalizer is not None or overrides_normalize(plugin):
        try:
            if cycle.call_observer is None:
                final = plugin.normalize(cycle, pod, raw)
            else:
                final = cycle.call_observer(plugin.name, NORMALIZE, plugin.normalize, cycle, pod, raw)
            final = checked_column(plugin.normalize, final, len(raw))
        except BaseException as error:
            raise_plugin_failed(plugin.name, "NormalizeScore", error)
    check_range(plugin, final)
    return final


def rescale(plugin: ScorePlugin, normalizer: Normalizer, raw: Scores, span: object) -> Scores:
    """Return the final scores (0..100) of some nodes, given the span of all. PluginFailed if the plugin fails."""
    try:
        final = checked_column(normalizer.rescale, normalizer.rescale(raw, span), len(raw))
    except BaseException as error:
        raise_plugin_failed(plugin.name, "NormalizeScore", error)
    check_range(plugin, final)
    return final


def check_range(plugin: ScorePlugin, final: Scores) -> None:
    """Raise PluginFailed if a final score is not within 0..100."""
    if not final.size:
        return
    least, most = extremes(final, None)
    if least < 0 or most > MAX_NODE_SCORE:
        raise_out_of_range(plugin, most if most > MAX_NODE_SCORE else least)


def raise_out_of_range(plugin: ScorePlugin, score: int) -> NoReturn:
    """Raise PluginFailed for a final score outside of 0..100; it names the method that returned it."""
    normalizes = plugin.normalizer is not None or overrides_normalize(plugin)
    method = plugin.normalize if normalizes else plugin.score
    hint = "" if normalizes else "; set `normalizer`, or scale it"
    error = InvalidReturnValue(method, score, f"0 to {MAX_NODE_SCORE}{hint}", shown=str(score))
    raise_plugin_failed(plugin.name, "NormalizeScore", error)
