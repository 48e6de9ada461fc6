"""Score plugins that are not normalised and depend on the node and its pods only: computed at each use, never cached.

Reading a cache would cost more: with hundreds of signatures its entries are no longer in the CPU caches when used.
"""

from __future__ import annotations

from pyscheduler.api.cycle import Cycle
from pyscheduler.api.nodes import NodeInfo, NodeTable
from pyscheduler.api.normalize import MAX_NODE_SCORE, Scores
from pyscheduler.api.plugin import ScorePlugin
from pyscheduler.api.pod import Pod
from pyscheduler.api.return_values import check_score
from pyscheduler.core.framework.evaluation_counts import EvaluationCounter
from pyscheduler.core.framework.plugin_failure import raise_plugin_failed
from pyscheduler.core.framework.profile import Weighted
from pyscheduler.core.framework.result_checks import check_scores
from pyscheduler.core.result_cache.invalidation import Change, Scope, invalidation_scopes
from pyscheduler.core.result_cache.score_column import check_range, out_of_range


class UncachedScore:
    """One such plugin and its weight."""

    __slots__ = ("evaluations", "plugin", "weight")

    def __init__(self, weighted: Weighted, evaluations: EvaluationCounter) -> None:
        self.plugin = weighted.plugin
        self.weight = weighted.weight
        self.evaluations = evaluations

    @staticmethod
    def applies_to(plugin: ScorePlugin) -> bool:
        """Return True if the plugin's scores should not be cached."""
        is_not_normalized = plugin.normalizer is None and type(plugin).normalize is ScorePlugin.normalize
        reach = invalidation_scopes(plugin, plugin.score_reads)
        return is_not_normalized and reach[Change.USAGE] is Scope.ROWS and reach[Change.ATTEMPT] is Scope.NOWHERE

    def of(self, cycle: Cycle, pod: Pod, node: NodeInfo) -> int:
        """Return the weighted score of one node. PluginFailed if the plugin raises or the score is out of range."""
        self.evaluations.n += 1
        plugin, observer = self.plugin, cycle.call_observer
        try:
            if observer is None:
                score = plugin.score(cycle, pod, node)
            else:
                score = observer(plugin.name, "Score", plugin.score, cycle, pod, node)
            if type(score) is not int:
                check_score(plugin.score, score)
                score = int(score)
            if not 0 <= score <= MAX_NODE_SCORE:
                raise out_of_range(plugin, score)
        except BaseException as error:
            raise_plugin_failed(plugin.name, "Score", error)
        return score * self.weight

    def of_all(self, cycle: Cycle, pod: Pod, table: NodeTable) -> Scores:
        """Return the weighted scores of many nodes. PluginFailed as for one node."""
        plugin, observer, n = self.plugin, cycle.call_observer, len(table)
        self.evaluations.n += n
        try:
            if observer is None:
                scores = plugin.score_all(cycle, pod, table)
            else:
                scores = observer(plugin.name, "Score", plugin.score_all, cycle, pod, table)
            check_scores(plugin.score_all, scores, n)
        except BaseException as error:
            raise_plugin_failed(plugin.name, "Score", error)
        check_range(plugin, scores)
        return scores if self.weight == 1 else scores * self.weight
