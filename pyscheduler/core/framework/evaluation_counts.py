"""How often the plugins of a profile have been asked, counted where they are asked and read when somebody looks.

A Filter or Score plugin is asked once for each node that it answers for, whatever the form; PreFilter and PreScore
count unless the plugin leaves itself out, as in kube-scheduler. An answer that is kept is not asked for again.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping

from pyscheduler.api.plugin import Plugin


class EvaluationCounter:
    """A number that several places add to."""

    __slots__ = ("n",)

    def __init__(self) -> None:
        self.n = 0


CountersByPlugin = Mapping[str, EvaluationCounter]
"""By plugin."""


class EvaluationCounts:
    """The counts of the four points that kube-scheduler counts at."""

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
        """Extension point, plugin, number."""
        points = {
            "PreFilter": self.pre_filter,
            "Filter": self.filter,
            "PreScore": self.pre_score,
            "Score": self.score,
        }
        return ((point, plugin, count.n) for point, counts in points.items() for plugin, count in counts.items())


def _counts(plugins: Iterable[Plugin]) -> CountersByPlugin:
    return {plugin.name: EvaluationCounter() for plugin in plugins}
