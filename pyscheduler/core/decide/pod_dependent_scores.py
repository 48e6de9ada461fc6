"""What the Score plugins add to the total whose answers move: they are new as soon as any pod has come or gone.

Where all of them say which nodes score alike, one node of each kind is asked, and only where what a kind is worth has
changed need more than a row or two be added up again. Else they are asked of every node that fits.
"""

from __future__ import annotations

import operator

import numpy as np

from pyscheduler.api.cycle import Cycle
from pyscheduler.api.normalize import Scores
from pyscheduler.api.pod import Pod
from pyscheduler.core.decide.invalidation import DirtyRows
from pyscheduler.core.decide.node_equivalence import NodeEquivalenceClasses, PluginLikenesses
from pyscheduler.core.decide.score_column import ScoreColumn
from pyscheduler.core.decide.top_scores import NO_SCORES
from pyscheduler.core.state.cluster import ClusterState
from pyscheduler.kernels import Rows, add_up, look_up


class PodDependentScores:
    """The columns that move, and what they come to together."""

    def __init__(self, state: ClusterState) -> None:
        self._state = state
        self.columns: list[ScoreColumn] = []
        self._classes = NodeEquivalenceClasses(state)
        self._by_class = False
        """Whether one row of each kind was asked, and not all."""
        self._class_scores: Scores = NO_SCORES
        """What they add to the rows of each kind."""
        self._last_scores: list[Scores] = []
        """What each column last said of the kinds."""
        self._numbers = self._classes.numbers
        """The kinds that it was said of."""
        self._generation = -1

    @property
    def bytes(self) -> int:
        """Memory of what is kept beside the columns."""
        return self._classes.bytes

    def refresh(self, cycle: Cycle, pod: Pod, rows: DirtyRows | slice, fitting: Rows | slice, refit: bool) -> bool:
        """Bring them up to date after something has happened to some rows; whether they add to no others anything new.

        `fitting` names the rows that fit, `refit` is whether those are others than last time.
        """
        told = self._likenesses(cycle)
        if told is None:
            self._classes.invalidate()
        elif self._classes.refresh(told, len(self.columns[0].raw), rows, fitting, refit):
            return self._refresh_classes(cycle, pod)
        for column in self.columns:
            column.all_stale |= self._by_class
            column.refresh(cycle, pod, self._state, fitting, fitting, refit)
        self._by_class = False
        return False

    def add_to(self, rest: Scores, total: Scores) -> None:
        """Write what they add to each row, and the rest, to the total."""
        if self._by_class:
            look_up(total, self._classes.of, 0, self._class_scores, None)
            total += rest
        else:
            add_up(total, (rest, *[column.weighted for column in self.columns]))

    def of_row(self, row: int) -> int:
        """What they add to one row, after only few have had anything new added."""
        return self._class_scores.item(self._classes.of.item(row))

    def _likenesses(self, cycle: Cycle) -> PluginLikenesses | None:
        """By what each plugin says that nodes score alike; None if one does not say it."""
        told = []
        for column in self.columns:
            likeness = column.likeness(cycle)
            if likeness is None or any(count.is_large for count in likeness.counts):
                return None
            told.append((column.plugin, likeness))
        return told

    def _refresh_classes(self, cycle: Cycle, pod: Pod) -> bool:
        """Ask of one row of each kind; whether all kinds are worth what they were."""
        kinds, state = self._classes, self._state
        spoken = [column.score_representatives(cycle, pod, state, kinds.rows) for column in self.columns]
        known = self._by_class and self._generation == kinds.generation
        if known and self._numbers is kinds.numbers and all(map(operator.is_, spoken, self._last_scores)):
            return True
        if self._generation != kinds.generation:
            self._class_scores = np.zeros(kinds.size, np.int64)
        worth = spoken[0] if len(spoken) == 1 else np.add.reduce(spoken)
        known = known and bool((self._class_scores.take(kinds.numbers) == worth).all())
        self._class_scores[kinds.numbers] = worth
        self._by_class, self._generation, self._numbers, self._last_scores = (
            True,
            kinds.generation,
            kinds.numbers,
            spoken,
        )
        return known
