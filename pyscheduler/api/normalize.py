"""Normalisation of raw scores to 0..100: the part of NormalizeScore that most plugins share.

A normaliser has two steps so that results can be cached: `span` extracts from all raw scores what the result of a node
depends on apart from its own score. While it is unchanged, only changed nodes are rescaled.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Hashable
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

MAX_NODE_SCORE = 100
"""Highest score of a node before the plugin's weight is applied (kube-scheduler's MaxNodeScore)."""

Scores = NDArray[np.int64]
"""Array of int64 scores, one per node."""


class Normalizer(ABC):
    """Conversion of the raw scores of all feasible nodes to 0..100."""

    @abstractmethod
    def span(self, scores: Scores) -> Hashable:
        """Return what `rescale` needs of all raw scores, such as their maximum. `scores` is never empty."""

    def span_between(self, least: int, most: int) -> Hashable | None:  # noqa: ARG002
        """Return the span computed from the lowest and the highest raw score, or None if those do not suffice."""
        return None

    @abstractmethod
    def rescale(self, scores: Scores, span: Any) -> Scores:
        """Return the normalised scores for some raw scores, given the span of all."""


@dataclass(frozen=True, slots=True)
class DefaultNormalizeScore(Normalizer):
    """Scale scores so that the highest becomes 100; with `reverse`, the lowest raw scores become the highest.

    Matches kube-scheduler's DefaultNormalizeScore: integer division; if all scores are 0 they stay 0, or become 100
    with `reverse`.
    """

    reverse: bool = False

    def span(self, scores: Scores) -> int:
        return int(scores.max())

    def span_between(self, least: int, most: int) -> int:  # noqa: ARG002
        return most

    def rescale(self, scores: Scores, span: int) -> Scores:
        if span == 0:
            return np.full_like(scores, MAX_NODE_SCORE) if self.reverse else scores
        scaled = MAX_NODE_SCORE * scores // span
        return MAX_NODE_SCORE - scaled if self.reverse else scaled
