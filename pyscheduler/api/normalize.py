"""How raw scores become 0..100: the part of NormalizeScore that most plugins share.

A normaliser is split in two so that it can be kept up to date cheaply: `span` is what the result depends on beyond a
node's own raw score, and while it stays the same only changed nodes are rescaled.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Hashable
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

MAX_NODE_SCORE = 100
"""The best score a plugin may give a node, before its weight."""

Scores = NDArray[np.int64]


class Normalizer(ABC):
    """Maps the raw scores of all feasible nodes to 0..100."""

    @abstractmethod
    def span(self, scores: Scores) -> Hashable:
        """What all raw scores together contribute, e.g. their maximum. `scores` is never empty."""

    def span_between(self, least: int, most: int) -> Hashable | None:  # noqa: ARG002
        """The same from the least and the greatest raw score alone, where they are enough; else None."""
        return None

    @abstractmethod
    def rescale(self, scores: Scores, span: Any) -> Scores:
        """The normalised form of some raw scores, each by itself, given the span of all."""


@dataclass(frozen=True, slots=True)
class DefaultNormalizeScore(Normalizer):
    """The best raw score becomes 100, the others in proportion; reversed, the least is best.

    Matches kube-scheduler's DefaultNormalizeScore: integer division; if all are 0 they stay 0, or become 100 reversed.
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
