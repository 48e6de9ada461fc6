"""Rows have one number where they are alike and two where they are not, and one that fits speaks for each kind."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from pyscheduler.api import Cycle, NodeEquivalence, NodeInfo, Pod, PodCount, PodSignature, ScorePlugin
from pyscheduler.core.decide import node_equivalence as module
from pyscheduler.core.decide.node_equivalence import NodeEquivalenceClasses
from pyscheduler.core.framework.handle import CoreHandle
from pyscheduler.core.state import ClusterState
from pyscheduler.testing import node, pod
from tests.properties.profiles import assert_caught, quick

ZONE, RACK = "zone", "rack"
ROWS, ROOM = 30, 40


class Nobody(ScorePlugin):
    """In whose name it is told what is alike."""

    name = "Nobody"

    def score(self, cycle: Cycle, pod: Pod, node: NodeInfo) -> int:
        raise AssertionError("nobody asks")


@dataclass(frozen=True, slots=True)
class Weighs(PodCount):
    """What pods weigh by a label: below 0 for some."""

    label: str

    @property
    def terminating(self) -> bool:
        return True

    def of(self, signature: PodSignature) -> int:
        return int(signature.labels.get(self.label, "0"))


NOBODY = Nobody(None, CoreHandle())
LIKENESSES = (
    NodeEquivalence((ZONE,), ()),
    NodeEquivalence((), (Weighs("up"),)),
    NodeEquivalence((ZONE, RACK), (Weighs("up"), Weighs("down"))),
    NodeEquivalence((), ()),
)
Touch = tuple[list[tuple[int, int]], list[bool] | None, int]
"""Pods that come (up) or go (down) by row, who fits if others do than before, and what is told."""
TOUCHES = st.lists(
    st.tuples(
        st.lists(st.tuples(st.integers(0, ROWS - 1), st.integers(-2, 4)), max_size=9),
        st.none() | st.lists(st.booleans(), min_size=ROWS, max_size=ROWS),
        st.sampled_from([2, 2, 2, 2, *range(len(LIKENESSES))]),
    ),
    min_size=1,
    max_size=12,
)


class NodeClassFixture:
    """Thirty nodes in three zones of some racks; those in the last zone have no rack."""

    def __init__(self) -> None:
        self.state = ClusterState()
        for row in range(ROWS):
            built = node(f"n{row:02}").label(ZONE, f"z{row % 3}")
            self.state.set_node((built.label(RACK, f"r{row % 4}") if row % 3 < 2 else built).build())
        self.kinds = NodeEquivalenceClasses(self.state)
        self.fits = np.ones(ROWS, np.bool_)
        self._pods = 0

    def do(self, touch: Touch) -> None:
        pods, fits, told = touch
        refit = fits is not None
        if fits is not None:
            self.fits = np.array(fits, np.bool_)
        for row, weight in pods:
            self._pods += 1
            built = pod(f"p{self._pods}").label("up", str(max(weight, 0))).label("down", str(5 * min(weight, 0)))
            self.state.place(built.build(), f"n{row:02}")
        rows = [row for row, _ in pods]
        fitting: Any = slice(0, ROWS) if self.fits.all() else np.flatnonzero(self.fits)
        touched: Any = sorted(set(rows)) if len(rows) <= 6 else np.array(rows, np.intp)
        likeness = LIKENESSES[told]
        self.kinds.refresh([(NOBODY, likeness)], ROOM, touched, fitting, refit)
        if self.kinds.size <= module.MOST:
            self.check(likeness)

    def check(self, likeness: NodeEquivalence) -> None:
        seen = [self._seen(row, likeness) for row in range(ROWS)]
        kinds = self.kinds.of.tolist()
        assert len(set(zip(seen, kinds, strict=False))) == len(set(seen)) == len(set(kinds[:ROWS]))
        fitting = np.flatnonzero(self.fits).tolist()
        assert sorted(set(np.array(kinds)[fitting])) == self.kinds.numbers.tolist() == _of(kinds, self.kinds.rows)
        assert set(self.kinds.rows.tolist()) <= set(fitting)

    def _seen(self, row: int, likeness: NodeEquivalence) -> tuple[Any, ...]:
        at = self.state.rows[row]
        sums = (sum(count.of(each.signature) for each in at.pods.values()) for count in likeness.counts)
        return (*(at.labels.get(key) for key in likeness.topologies), *sums)


def _of(kinds: list[int], rows: Iterable[int]) -> list[int]:
    return [kinds[row] for row in rows]


def prove(touches: list[Touch]) -> None:
    world = NodeClassFixture()
    for touch in touches:
        world.do(touch)


def test_who_is_alike_has_one_number_and_one_that_fits_speaks_for_all() -> None:
    quick(150)(given(TOUCHES)(prove))()


def test_beyond_so_many_numbers_each_is_asked_until_nodes_change() -> None:
    world, told, everyone = NodeClassFixture(), [(NOBODY, LIKENESSES[2])], slice(0, ROWS)
    assert world.kinds.refresh(told, ROOM, [], everyone, refit=True)
    world.state.place(pod("heavy").label("up", str(module.MOST)).build(), "n00")
    assert not world.kinds.refresh(told, ROOM, [0], everyone, refit=False)
    assert not world.kinds.refresh(told, ROOM, [0], everyone, refit=False), "nor the next time"
    world.state.set_node(node("n00").label(ZONE, "z0").build())
    world.state.remove("heavy")
    assert world.kinds.refresh(told, ROOM, [0], everyone, refit=False)


def test_where_hardly_two_are_alike_each_is_asked() -> None:
    world = NodeClassFixture()
    for row in range(ROWS):
        world.state.place(pod(f"p{row}").label("up", str(row // 2)).build(), f"n{row:02}")
    assert world.kinds.refresh([(NOBODY, LIKENESSES[1])], ROOM, [], slice(0, ROWS), refit=True)
    world.state.place(pod("odd").label("up", "99").build(), "n00")
    assert not world.kinds.refresh([(NOBODY, LIKENESSES[1])], ROOM, [0], slice(0, ROWS), refit=False)


# -- planted bugs --------------------------------------------------------------------------------------------------


def _one_that_leaves_goes_on_speaking(patch: pytest.MonkeyPatch) -> None:
    def move(self: NodeEquivalenceClasses, row: int, number: int) -> None:
        self.of[row] = number

    patch.setattr(NodeEquivalenceClasses, "_move", move)


def _of_many_nobody_speaks_anew(patch: pytest.MonkeyPatch) -> None:
    renumber_many = NodeEquivalenceClasses._renumber_many

    def renumber(self: NodeEquivalenceClasses, touched: Any, columns: Any) -> bool:
        rows = self.rows
        known = renumber_many(self, touched, columns)
        self.rows = rows
        return known

    patch.setattr(NodeEquivalenceClasses, "_renumber_many", renumber)


def _who_ceases_to_fit_goes_on_speaking(patch: pytest.MonkeyPatch) -> None:
    follow: Any = NodeEquivalenceClasses.refresh
    patch.setattr(NodeEquivalenceClasses, "refresh", lambda self, *rest: follow(self, *rest[:-1], not len(self.rows)))


def _there_is_no_end_to_an_axis(patch: pytest.MonkeyPatch) -> None:
    reach = module._Axis.reach

    def endless(self: module._Axis, column: Any, stride: int) -> int:
        end = reach(self, column, stride)
        self.width = 1 << 40
        return end

    patch.setattr(module._Axis, "reach", endless)


def _nothing_is_below_0(patch: pytest.MonkeyPatch) -> None:
    reach = module._Axis.reach

    def above(self: module._Axis, column: Any, stride: int) -> int:
        end = reach(self, column, stride)
        self.least = max(self.least, 0)
        return end

    patch.setattr(module._Axis, "reach", above)


@pytest.mark.parametrize(
    "plant",
    [
        _one_that_leaves_goes_on_speaking,
        _of_many_nobody_speaks_anew,
        _who_ceases_to_fit_goes_on_speaking,
        _there_is_no_end_to_an_axis,
        _nothing_is_below_0,
    ],
)
def test_a_kind_that_is_none_is_noticed(
    plant: Callable[[pytest.MonkeyPatch], None], monkeypatch: pytest.MonkeyPatch
) -> None:
    plant(monkeypatch)
    assert_caught(prove, TOUCHES, AssertionError, IndexError)
