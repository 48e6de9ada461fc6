"""PodGroupPodsCount: prefer the placement of a pod group in which most of its pods get a node (KEP-5732)."""

from __future__ import annotations

from collections.abc import Sequence

from pyscheduler.api import MAX_NODE_SCORE, NodeTable, Placement, PlacementScorePlugin, PodGroup


class PodGroupPodsCount(PlacementScorePlugin):
    """Score placements by the pods of the group that run already or would get a node, relative to the most."""

    name = "PodGroupPodsCount"

    def score_placement(self, placement: Placement, nodes: NodeTable) -> int:
        return len(placement.members)

    def normalize_placement_scores(self, group: PodGroup, scores: Sequence[int]) -> Sequence[int]:
        most = max(scores)
        return [score * MAX_NODE_SCORE // most for score in scores]
