"""Node equivalence classes: equal rows share a number, different ones do not, and each class has a feasible
representative.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from pyscheduler.api import Cycle, NodeEquivalence, NodeInfo, Pod, PodCount, PodSignature, ScorePlugin
from pyscheduler.core.framework.handle import empty_handle
from pyscheduler.core.result_cache import node_equivalence as module
from pyscheduler.core.result_cache.node_equivalence import NodeEquivalenceClasses
from pyscheduler.core.state import ClusterState
from pyscheduler.testing import node, pod
from tests.properties.profiles import assert_caught, quick

ZONE, RACK = "zone", "rack"
ROWS, ROOM = 30, 40


class NeverScores(ScorePlugin):
    """The plugin that the equivalences are attributed to; it never scores."""

    name = "NeverScores"

    def score(self, cycle: Cycle, pod: Pod, node: NodeInfo) -> int:
        raise AssertionError("must not be called")


@dataclass(frozen=True, slots=True)
class WeightOfLabel(PodCount):
    """Weight of a pod by a label, negative for some."""

    label: str

    @property
    def terminating(self) -> bool:
        return True

    def of(self, signature: PodSignature) -> int:
        return int(signature.labels.get(self.label, "0"))


PLUGIN = NeverScores(None, empty_handle())
EQUIVALENCES = (
    NodeEquivalence((ZONE,), ()),
    NodeEquivalence((), (WeightOfLabel("up"),)),
    NodeEquivalence((ZONE, RACK), (WeightOfLabel("up"), WeightOfLabel("down"))),
    NodeEquivalence((), ()),
)
Change = tuple[list[tuple[int, int]], list[bool] | None, int]
"""Pods added per row with their weight, the feasible rows if they change, and the equivalence to use."""
CHANGES = st.lists(
    st.tuples(
        st.lists(st.tuples(st.integers(0, ROWS - 1), st.integers(-2, 4)), max_size=9),
        st.none() | st.lists(st.booleans(), min_size=ROWS, max_size=ROWS),
        st.sampled_from([2, 2, 2, 2, *range(len(EQUIVALENCES))]),
    ),
    min_size=1,
    max_size=12,
)


class NodeClassFixture:
    """Thirty nodes in three zones and some racks; those in the last zone have no rack."""

    def __init__(self) -> None:
        self.state = ClusterState()
        for row in range(ROWS):
            built = node(f"n{row:02}").label(ZONE, f"z{row % 3}")
            self.state.set_node((built.label(RACK, f"r{row % 4}") if row % 3 < 2 else built).build())
        self.classes = NodeEquivalenceClasses(self.state)
        self.fits = np.ones(ROWS, np.bool_)
        self._pods = 0

    def do(self, change: Change) -> None:
        pods, fits, choice = change
        feasible_changed = fits is not None
        if fits is not None:
            self.fits = np.array(fits, np.bool_)
        for row, weight in pods:
            self._pods += 1
            built = pod(f"p{self._pods}").label("up", str(max(weight, 0))).label("down", str(5 * min(weight, 0)))
            self.state.place(built.build(), f"n{row:02}")
        rows = [row for row, _ in pods]
        fitting: Any = slice(0, ROWS) if self.fits.all() else np.flatnonzero(self.fits)
        changed: Any = sorted(set(rows)) if len(rows) <= 6 else np.array(rows, np.intp)
        equivalence = EQUIVALENCES[choice]
        self.classes.refresh([(PLUGIN, equivalence)], ROOM, changed, fitting, feasible_changed)
        if self.classes.size <= module.MAX_CLASSES:
            self.check(equivalence)

    def check(self, equivalence: NodeEquivalence) -> None:
        keys = [self._key(row, equivalence) for row in range(ROWS)]
        classes = self.classes.of.tolist()
        assert len(set(zip(keys, classes, strict=False))) == len(set(keys)) == len(set(classes[:ROWS]))
        fitting = np.flatnonzero(self.fits).tolist()
        assert (
            sorted(set(np.array(classes)[fitting])) == self.classes.numbers.tolist() == _of(classes, self.classes.rows)
        )
        assert set(self.classes.rows.tolist()) <= set(fitting)

    def _key(self, row: int, equivalence: NodeEquivalence) -> tuple[Any, ...]:
        row_info = self.state.rows[row]
        sums = (sum(count.of(other.signature) for other in row_info.pods.values()) for count in equivalence.counts)
        return (*(row_info.labels.get(key) for key in equivalence.topologies), *sums)


def _of(classes: list[int], rows: Iterable[int]) -> list[int]:
    return [classes[row] for row in rows]


def check_sequence(changes: list[Change]) -> None:
    fixture = NodeClassFixture()
    for change in changes:
        fixture.do(change)


def test_equal_rows_share_a_class_with_a_feasible_representative() -> None:
    quick(150)(given(CHANGES)(check_sequence))()


@pytest.mark.parametrize(
    "moves",
    [
        pytest.param((0, 1), id="a representative leaves its class"),
        pytest.param((5, 2), id="a class gets its first row"),
    ],
)
def test_representatives_are_chosen_anew_if_one_of_many_changed_rows_affects_them(moves: tuple[int, int]) -> None:
    fixture, others = NodeClassFixture(), [(row, 0) for row in range(10, 18)]
    fixture.do(([(1, 1), (2, 1)], None, 1))
    fixture.do(([*others, moves], None, 1))
    fixture.do((others, None, 1))


def test_too_many_classes_disable_equivalence_until_nodes_change() -> None:
    fixture, equivalences, all_rows = NodeClassFixture(), [(PLUGIN, EQUIVALENCES[2])], slice(0, ROWS)
    assert fixture.classes.refresh(equivalences, ROOM, [], all_rows, feasible_changed=True)
    fixture.state.place(pod("heavy").label("up", str(module.MAX_CLASSES)).build(), "n00")
    assert not fixture.classes.refresh(equivalences, ROOM, [0], all_rows, feasible_changed=False)
    assert not fixture.classes.refresh(equivalences, ROOM, [0], all_rows, feasible_changed=False), (
        "at the next refresh either"
    )
    fixture.state.set_node(node("n00").label(ZONE, "z0").build())
    fixture.state.remove("heavy")
    assert fixture.classes.refresh(equivalences, ROOM, [0], all_rows, feasible_changed=False)


def test_too_small_classes_disable_equivalence() -> None:
    fixture = NodeClassFixture()
    for row in range(ROWS):
        fixture.state.place(pod(f"p{row}").label("up", str(row // 2)).build(), f"n{row:02}")
    assert fixture.classes.refresh([(PLUGIN, EQUIVALENCES[1])], ROOM, [], slice(0, ROWS), feasible_changed=True)
    fixture.state.place(pod("odd").label("up", "99").build(), "n00")
    assert not fixture.classes.refresh([(PLUGIN, EQUIVALENCES[1])], ROOM, [0], slice(0, ROWS), feasible_changed=False)


# -- planted bugs --------------------------------------------------------------------------------------------------


def _keep_representative_after_move(patch: pytest.MonkeyPatch) -> None:
    def move(self: NodeEquivalenceClasses, row: int, number: int) -> None:
        self.of[row] = number

    patch.setattr(NodeEquivalenceClasses, "_move", move)


def _keep_representatives_after_many_moves(patch: pytest.MonkeyPatch) -> None:
    renumber_many = NodeEquivalenceClasses._renumber_many

    def renumber(self: NodeEquivalenceClasses, changed: Any, columns: Any) -> bool:
        rows = self.rows
        renumbered = renumber_many(self, changed, columns)
        self.rows = rows
        return renumbered

    patch.setattr(NodeEquivalenceClasses, "_renumber_many", renumber)


def _keep_infeasible_representative(patch: pytest.MonkeyPatch) -> None:
    follow: Any = NodeEquivalenceClasses.refresh
    patch.setattr(NodeEquivalenceClasses, "refresh", lambda self, *rest: follow(self, *rest[:-1], not len(self.rows)))


def _unlimited_axis(patch: pytest.MonkeyPatch) -> None:
    set_range = module._Axis.set_range

    def unlimited(self: module._Axis, column: Any, stride: int) -> int:
        end = set_range(self, column, stride)
        self.width = 1 << 40
        return end

    patch.setattr(module._Axis, "set_range", unlimited)


def _no_negative_coordinates(patch: pytest.MonkeyPatch) -> None:
    set_range = module._Axis.set_range

    def non_negative(self: module._Axis, column: Any, stride: int) -> int:
        end = set_range(self, column, stride)
        self.low = max(self.low, 0)
        return end

    patch.setattr(module._Axis, "set_range", non_negative)


@pytest.mark.parametrize(
    "plant",
    [
        _keep_representative_after_move,
        _keep_representatives_after_many_moves,
        _keep_infeasible_representative,
        _unlimited_axis,
        _no_negative_coordinates,
    ],
)
def test_property_catches_planted_bug(
    plant: Callable[[pytest.MonkeyPatch], None], monkeypatch: pytest.MonkeyPatch
) -> None:
    plant(monkeypatch)
    assert_caught(check_sequence, CHANGES, AssertionError, IndexError)
