"""Results by class of equivalent nodes equal uncached ones if the pods of a template follow each other."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pyscheduler.core.framework.plugin_failure import PluginFailed
from pyscheduler.core.result_cache.class_results import ClassResults
from pyscheduler.core.result_cache.class_totals import ClassTotals
from pyscheduler.core.result_cache.row_results import RowResults
from pyscheduler.intree import InterPodAffinity, PodTopologySpread
from tests.properties.evaluation_model import EvaluationWorld
from tests.properties.probe_plugins import Class
from tests.properties.profiles import assert_caught, quick
from tests.properties.sample_objects import AFFINITY_KINDS, CONSTRAINED_KINDS
from tests.properties.test_incremental import (
    BY_CLASS,
    NORMALIZED,
    Plant,
    Story,
    run,
    skip_top_score_updates,
    stories,
)


def batched(kinds: Sequence[int]) -> list[Sequence[int]]:
    return [kinds[i : i + 2] for i in range(0, len(kinds), 2)]


ONLY_CLASSES: tuple[Class, ...] = (PodTopologySpread, InterPodAffinity)
"""Without scores by row, only its class changes the total of a row."""
RECURRING = (*batched(AFFINITY_KINDS), *batched(CONSTRAINED_KINDS[2:6]), CONSTRAINED_KINDS[6:7])
"""Kinds of pods with affinity or spreading: pairs that differ in labels only."""
RECURRING_STORIES = st.tuples(stories("place", "remove", "remove", "mark"), st.sampled_from(RECURRING))


def property_of_recurring(classes: tuple[Class, ...]) -> Callable[[tuple[Story, Sequence[int]]], None]:
    """Return the property for stories in which all attempts are of two kinds."""

    def check(drawn: tuple[Story, Sequence[int]]) -> None:
        story, kinds = drawn
        run(EvaluationWorld(classes, kinds), story)

    return check


@pytest.mark.parametrize(
    "classes", [BY_CLASS, NORMALIZED, ONLY_CLASSES], ids=["totals by row", "normalized by row", "no totals by row"]
)
def test_results_by_class_equal_uncached_ones_for_recurring_signatures(classes: tuple[Class, ...]) -> None:
    quick(100)(given(RECURRING_STORIES)(property_of_recurring(classes)))()


# -- planted bugs --------------------------------------------------------------------------------------------------


def _keep_class_filters(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(ClassResults, "_filter_key", lambda self, _: id(self._classes.table))


def _keep_class_scores(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(ClassResults, "_score_key", lambda self, _, scored, *_of: (id(self._classes.table), scored.tobytes()))


def _keep_scores_of_other_classes(patch: pytest.MonkeyPatch) -> None:
    key: Any = ClassResults._score_key

    patch.setattr(ClassResults, "_score_key", lambda self, cycle, scored, of: key(self, cycle, scored[:0], of))


def _keep_totals_of_moved_rows(patch: pytest.MonkeyPatch) -> None:
    count = ClassTotals._count

    def forget(self: ClassTotals, move: Any) -> None:
        count(self, move)
        self._moved.clear()

    patch.setattr(ClassTotals, "_count", forget)


def _keep_counts_of_classes(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(ClassTotals, "_count", lambda *_: None)


def _keep_totals_of_changed_rows(patch: pytest.MonkeyPatch) -> None:
    refresh = ClassTotals.refresh

    def skip(self: ClassTotals, classes: Any, rows: RowResults, sums: Any) -> None:
        self._changes, self._read = rows.scores.top_scores.changes, len(rows.scores.top_scores.changes)
        refresh(self, classes, rows, sums)

    patch.setattr(ClassTotals, "refresh", skip)


def _keep_feasible_rows_of_classes(patch: pytest.MonkeyPatch) -> None:
    follow = ClassTotals.follow

    def keep(self: ClassTotals, *rest: Any) -> None:
        feasible = self._feasible
        follow(self, *rest)
        self._feasible = feasible

    patch.setattr(ClassTotals, "follow", keep)


def _keep_sums_of_classes(patch: pytest.MonkeyPatch) -> None:
    refresh = ClassTotals.refresh

    def keep(self: ClassTotals, classes: Any, rows: RowResults, sums: Any) -> None:
        refresh(self, classes, rows, self._sums if len(self._sums) == len(sums) else sums)

    patch.setattr(ClassTotals, "refresh", keep)


@pytest.mark.parametrize(
    "plant",
    [
        _keep_class_filters,
        _keep_class_scores,
        _keep_scores_of_other_classes,
        _keep_totals_of_changed_rows,
        _keep_counts_of_classes,
        _keep_feasible_rows_of_classes,
        _keep_sums_of_classes,
        skip_top_score_updates,
    ],
)
def test_property_catches_wrong_results_of_classes(plant: Plant, monkeypatch: pytest.MonkeyPatch) -> None:
    plant(monkeypatch)
    assert_caught(
        property_of_recurring(BY_CLASS), RECURRING_STORIES, AssertionError, PluginFailed, ValueError, IndexError
    )


def test_property_catches_forgotten_moves(monkeypatch: pytest.MonkeyPatch) -> None:
    _keep_totals_of_moved_rows(monkeypatch)
    check = property_of_recurring(ONLY_CLASSES)
    assert_caught(check, RECURRING_STORIES, AssertionError, ValueError)
