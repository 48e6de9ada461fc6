"""Plugin that raises at the extension point named in the pod's label `break`."""

from __future__ import annotations

from pyscheduler.api import (
    Cycle,
    FilterPlugin,
    NodeInfo,
    NodeTable,
    Pod,
    PreFilterPlugin,
    PreScorePlugin,
    ScorePlugin,
    Scores,
)


class Brittle(PreFilterPlugin, FilterPlugin, PreScorePlugin, ScorePlugin):
    name = "Brittle"

    def pre_filter(self, cycle: Cycle, pod: Pod, nodes: NodeTable) -> None:
        _break(pod, "pre_filter")

    def filter(self, cycle: Cycle, pod: Pod, node: NodeInfo) -> None:
        _break(pod, "filter")

    def pre_score(self, cycle: Cycle, pod: Pod, nodes: NodeTable) -> None:
        _break(pod, "pre_score")

    def score(self, cycle: Cycle, pod: Pod, node: NodeInfo) -> int:
        _break(pod, "score")
        return 0

    def normalize(self, cycle: Cycle, pod: Pod, scores: Scores) -> Scores:
        _break(pod, "normalize")
        return scores


def _break(pod: Pod, point: str) -> None:
    if pod.labels.get("break") == point:
        raise RuntimeError("broke")
