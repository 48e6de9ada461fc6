"""Number of evaluations per plugin and extension point, for plugin_evaluation_total.

A Filter or Score plugin counts once per evaluated node, in per-node and vectorised calls alike. PreFilter and PreScore
count unless the plugin returns Skip, as in kube-scheduler. Cached results do not count.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping

from pyscheduler.api.plugin import Plugin


class EvaluationCounter:
    """A counter shared by several callers."""

    __slots__ = ("n",)

    def __init__(self) -> None:
        self.n = 0


CountersByPlugin = Mapping[str, EvaluationCounter]
"""Counters by plugin name."""


class EvaluationCounts:
    """Counters of the four extension points that kube-scheduler counts."""

    __slots__ = ("filter", "pre_filter", "pre_score", "score")

    def __init__(
        self,
        pre_filter: Iterable[Plugin],
        filter: Iterable[Plugin],
        pre_score: Iterable[Plugin],
        score: Iterable[Plugin],
    ) -> None:
        self.pre_filter = _counts(pre_filter)
        self.filter = _counts(filter)
        self.pre_score = _counts(pre_score)
        self.score = _counts(score)

    def __iter__(self) -> Iterator[tuple[str, str, int]]:
        """Yield (extension point, plugin, count)."""
        points = {
            "PreFilter": self.pre_filter,
            "Filter": self.filter,
            "PreScore": self.pre_score,
            "Score": self.score,
        }
        return ((point, plugin, count.n) for point, counts in points.items() for plugin, count in counts.items())


def _counts(plugins: Iterable[Plugin]) -> CountersByPlugin:
    return {plugin.name: EvaluationCounter() for plugin in plugins}
