"""Plugins for `bench plugin` to measure."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from pyscheduler.api import (
    Cycle,
    FilterPlugin,
    NodeInfo,
    NodeTable,
    Pod,
    PreScorePlugin,
    QueuedPod,
    QueueSortPlugin,
    Reads,
    ScorePlugin,
    StateKey,
)

_TOTAL: StateKey[int] = StateKey("Sums")


class Roomy(FilterPlugin):
    """Reads the node's pods, and claims to read everything."""

    name = "Roomy"

    @dataclass(frozen=True)
    class Args:
        most: int = 100

    def filter(self, cycle: Cycle, pod: Pod, node: NodeInfo) -> None:
        assert len(node.pods) < self.args.most


class Labelled(FilterPlugin):
    """Reads node labels, and claims exactly that."""

    name = "Labelled"
    reads = Reads.OWN_NODE

    def filter(self, cycle: Cycle, pod: Pod, node: NodeInfo) -> None:
        node.labels.get("gpu")


class Timed(FilterPlugin):
    """Reads the time, so that the claim EVERYTHING is correct."""

    name = "Timed"

    def filter(self, cycle: Cycle, pod: Pod, node: NodeInfo) -> None:
        assert cycle.now >= 0


class Sums(PreScorePlugin, ScorePlugin):
    """Reads the pods of all nodes."""

    name = "Sums"

    def pre_score(self, cycle: Cycle, pod: Pod, nodes: NodeTable) -> None:
        cycle[_TOTAL] = sum(len(node.pods) for node in nodes)

    def score(self, cycle: Cycle, pod: Pod, node: NodeInfo) -> int:
        return min(100, cycle[_TOTAL])


class Counts(FilterPlugin):
    """Has state, so its reads cannot be inferred."""

    name = "Counts"

    def __init__(self, args: Any, handle: Any) -> None:
        super().__init__(args, handle)
        self._calls = 0

    def filter(self, cycle: Cycle, pod: Pod, node: NodeInfo) -> None:
        self._calls += 1


class ReturnsBool(FilterPlugin):
    """Returns what a predicate would."""

    name = "ReturnsBool"

    def filter(self, cycle: Cycle, pod: Pod, node: NodeInfo) -> Any:
        return True


class ScoresTooHigh(ScorePlugin):
    """Returns scores above 100 without a normalizer."""

    name = "ScoresTooHigh"

    def score(self, cycle: Cycle, pod: Pod, node: NodeInfo) -> int:
        return 1000


class SortsAndFilters(QueueSortPlugin, FilterPlugin):
    """Sorts the queue, of which there is one in a profile, and filters."""

    name = "SortsAndFilters"

    def sort_key(self, queued: QueuedPod) -> tuple[float]:
        return (queued.timestamp,)

    def filter(self, cycle: Cycle, pod: Pod, node: NodeInfo) -> None:
        assert node.name
