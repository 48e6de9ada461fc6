"""Sum of the pod-dependent Score plugins: their scores change on many nodes as soon as any pod is added or removed.

If all of them define node equivalence, only one representative per class is scored, and rows are summed again only
where the score of their class changed. Otherwise every feasible node is scored.
"""

from __future__ import annotations

import operator

import numpy as np

from pyscheduler.api.cycle import Cycle
from pyscheduler.api.normalize import Scores
from pyscheduler.api.pod import Pod
from pyscheduler.core.result_cache.invalidation import DirtyRows
from pyscheduler.core.result_cache.node_equivalence import NodeEquivalenceClasses, PluginEquivalences
from pyscheduler.core.result_cache.score_column import ScoreColumn
from pyscheduler.core.result_cache.top_scores import NO_SCORES
from pyscheduler.core.state.cluster import ClusterState
from pyscheduler.kernels import Rows, add_up, look_up


class PodDependentScores:
    """The volatile score columns and their sum."""

    def __init__(self, state: ClusterState) -> None:
        self._state = state
        self.columns: list[ScoreColumn] = []
        self._classes = NodeEquivalenceClasses(state)
        self._by_class = False
        """True if only one row of each class was scored."""
        self._class_scores: Scores = NO_SCORES
        """Sum of the columns per class number."""
        self._last_scores: list[Scores] = []
        """Last class scores of each column."""
        self._numbers = self._classes.numbers
        """Class numbers that these scores belong to."""
        self._generation = -1

    @property
    def bytes(self) -> int:
        """Memory of the equivalence classes in bytes, without the columns."""
        return self._classes.bytes

    def refresh(
        self, cycle: Cycle, pod: Pod, rows: DirtyRows | slice, fitting: Rows | slice, feasible_changed: bool
    ) -> bool:
        """Update the columns after changes to `rows`. Return True if the sums of all other rows are unchanged.

        `fitting` holds the feasible rows, `feasible_changed` is True if these changed.
        """
        equivalences = self._equivalences(cycle)
        if equivalences is None:
            self._classes.invalidate()
        elif self._classes.refresh(equivalences, len(self.columns[0].raw), rows, fitting, feasible_changed):
            return self._refresh_classes(cycle, pod)
        for column in self.columns:
            column.all_stale |= self._by_class
            column.refresh(cycle, pod, self._state, fitting, fitting, feasible_changed)
        self._by_class = False
        return False

    def add_to(self, others: Scores, total: Scores) -> None:
        """Write the sum of `others` and the columns to `total`."""
        if self._by_class:
            look_up(total, self._classes.of, 0, self._class_scores, None)
            total += others
        else:
            add_up(total, (others, *[column.weighted for column in self.columns]))

    def of_row(self, row: int) -> int:
        """Return the sum of the columns for one row. Valid only after `refresh` returned True."""
        return self._class_scores.item(self._classes.of.item(row))

    def _equivalences(self, cycle: Cycle) -> PluginEquivalences | None:
        """Return each plugin's node equivalence; None if a plugin defines none."""
        equivalences = []
        for column in self.columns:
            node_equivalence = column.equivalence(cycle)
            if node_equivalence is None:
                return None
            for count in node_equivalence.counts:
                if count.is_large:
                    return None
            equivalences.append((column.plugin, node_equivalence))
        return equivalences

    def _refresh_classes(self, cycle: Cycle, pod: Pod) -> bool:
        """Score one row of each class. Return True if all class scores are unchanged."""
        classes, state = self._classes, self._state
        scores = [column.score_representatives(cycle, pod, state, classes.rows) for column in self.columns]
        is_comparable = self._by_class and self._generation == classes.generation
        if is_comparable and self._numbers is classes.numbers and all(map(operator.is_, scores, self._last_scores)):
            return True
        if self._generation != classes.generation:
            self._class_scores = np.zeros(classes.size, np.int64)
        sums = scores[0] if len(scores) == 1 else np.add.reduce(scores)
        is_comparable = is_comparable and bool((self._class_scores.take(classes.numbers) == sums).all())
        self._class_scores[classes.numbers] = sums
        self._by_class, self._generation, self._numbers, self._last_scores = (
            True,
            classes.generation,
            classes.numbers,
            scores,
        )
        return is_comparable
