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
from pyscheduler.core.decide.kinds import Kinds, Told
from pyscheduler.core.decide.leaders import NO_SCORES
from pyscheduler.core.decide.score_column import ScoreColumn
from pyscheduler.core.decide.staleness import Touched
from pyscheduler.core.state.cluster import ClusterState
from pyscheduler.kernels import Rows, add_up, look_up


class MovingScores:
    """The columns that move, and what they come to together."""

    def __init__(self, state: ClusterState) -> None:
        self._state = state
        self.columns: list[ScoreColumn] = []
        self._kinds = Kinds(state)
        self._by_kind = False
        """Whether one row of each kind was asked, and not all."""
        self._worth: Scores = NO_SCORES
        """What they add to the rows of each kind."""
        self._spoken: list[Scores] = []
        """What each column last said of the kinds."""
        self._numbers = self._kinds.numbers
        """The kinds that it was said of."""
        self._generation = -1

    @property
    def bytes(self) -> int:
        """Memory of what is kept beside the columns."""
        return self._kinds.bytes

    def settle(self, cycle: Cycle, pod: Pod, rows: Touched | slice, fitting: Rows | slice, refit: bool) -> bool:
        """Bring them up to date after something has happened to some rows; whether they add to no others anything new.

        `fitting` names the rows that fit, `refit` is whether those are others than last time.
        """
        told = self._told(cycle)
        if told is None:
            self._kinds.forget()
        elif self._kinds.follow(told, len(self.columns[0].raw), rows, fitting, refit):
            return self._settle_kinds(cycle, pod)
        for column in self.columns:
            column.all_stale |= self._by_kind
            column.settle(cycle, pod, self._state, fitting, fitting, refit)
        self._by_kind = False
        return False

    def add_to(self, rest: Scores, total: Scores) -> None:
        """Write what they add to each row, and the rest, to the total."""
        if self._by_kind:
            look_up(total, self._kinds.of, 0, self._worth, None)
            total += rest
        else:
            add_up(total, (rest, *[column.weighted for column in self.columns]))

    def of_row(self, row: int) -> int:
        """What they add to one row, after only few have had anything new added."""
        return self._worth.item(self._kinds.of.item(row))

    def _told(self, cycle: Cycle) -> Told | None:
        """By what each plugin says that nodes score alike; None if one does not say it."""
        told = []
        for column in self.columns:
            likeness = column.likeness(cycle)
            if likeness is None or any(count.is_large for count in likeness.counts):
                return None
            told.append((column.plugin, likeness))
        return told

    def _settle_kinds(self, cycle: Cycle, pod: Pod) -> bool:
        """Ask of one row of each kind; whether all kinds are worth what they were."""
        kinds, state = self._kinds, self._state
        spoken = [column.speak(cycle, pod, state, kinds.rows) for column in self.columns]
        known = self._by_kind and self._generation == kinds.generation
        if known and self._numbers is kinds.numbers and all(map(operator.is_, spoken, self._spoken)):
            return True
        if self._generation != kinds.generation:
            self._worth = np.zeros(kinds.size, np.int64)
        worth = spoken[0] if len(spoken) == 1 else np.add.reduce(spoken)
        known = known and bool((self._worth.take(kinds.numbers) == worth).all())
        self._worth[kinds.numbers] = worth
        self._by_kind, self._generation, self._numbers, self._spoken = True, kinds.generation, kinds.numbers, spoken
        return known
