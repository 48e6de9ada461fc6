"""Classes of equivalent nodes: the class table has for the class of each node the node's own domains and counts."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from pyscheduler.api import Cycle, NodeEquivalence, NodeInfo, Pod, PodCount, PodSignature, ScorePlugin
from pyscheduler.core.framework.handle import empty_handle
from pyscheduler.core.result_cache import node_classes as module
from pyscheduler.core.result_cache.node_classes import NodeClasses
from pyscheduler.core.state import ClusterState
from pyscheduler.testing import node, pod
from tests.properties.profiles import assert_caught, quick

ZONE, RACK = "zone", "rack"
ROWS = 30


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
Change = tuple[list[tuple[int, int]], list[tuple[int, bool]], list[int], bool, int]
"""Pods added per node with their weight; nodes that move to another zone, or are removed (True) or return; the
equivalences to use; whether the classes are copied; and which of the copies is used from then on."""
CHANGES = st.lists(
    st.tuples(
        st.lists(st.tuples(st.integers(0, ROWS - 1), st.integers(-2, 4)), max_size=20),
        st.lists(st.tuples(st.integers(0, ROWS - 1), st.booleans()), max_size=3),
        st.lists(st.sampled_from([2, 2, 2, 2, *range(len(EQUIVALENCES))]), min_size=1, max_size=2),
        st.booleans(),
        st.integers(0, 2),
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
        self.classes = NodeClasses(self.state)
        self._copies = [self.classes]
        self._pods = 0
        self._last: dict[NodeClasses, list[int]] = {}
        """Class of each row, as of the last moves."""

    def do(self, change: Change) -> None:
        pods, nodes, choices, is_copied, used = change
        if is_copied:
            self._copies.append(self.classes.copy())
        self.classes = self._copies[-1 - used % len(self._copies)]
        for row, weight in pods:
            self.place(row, weight)
        for number, is_removed in nodes:
            name = f"n{number:02}"
            if not is_removed or self.state.remove_node(name) is None:
                self.state.set_node(node(name).label(ZONE, f"z{self._pods % 4}").build())
        self.refresh(*choices)

    def place(self, row: int, weight: int) -> None:
        self._pods += 1
        built = pod(f"p{self._pods}").label("up", str(max(weight, 0))).label("down", str(5 * min(weight, 0)))
        self.state.place(built.build(), f"n{row:02}")

    def refresh(self, *choices: int) -> None:
        self.classes.refresh([(PLUGIN, EQUIVALENCES[choice]) for choice in choices], "Score")
        for choice in choices:
            self.check(EQUIVALENCES[choice])

    def check_moves(self) -> None:
        of, moves = self.classes.of.tolist(), self.classes.moves
        if moves is not None:
            last = self._last[self.classes]
            for row, before, now in moves:
                assert last[row] == before
                last[row] = now
            assert of == last
        self._last[self.classes], self.classes.moves = of, []

    def check(self, equivalence: NodeEquivalence) -> None:
        of, table, every = self.classes.of, self.classes.table, self.state.table()
        assert len(of) == len(every)
        assert len(table) == self.classes.size
        assert np.bincount(of, minlength=len(table)).tolist() == self.classes.counts.tolist()
        self.check_moves()
        for key in equivalence.topologies:
            assert table.topology(key).ids.take(of).tolist() == every.topology(key).ids.tolist()
        for count in equivalence.counts:
            actual = [sum(count.of(other.signature) for other in node.pods.values()) for node in every]
            assert table.count_pods(count).take(of).tolist() == actual


def check_sequence(changes: list[Change]) -> None:
    fixture = NodeClassFixture()
    for change in changes:
        fixture.do(change)


def test_class_table_has_the_values_of_each_node() -> None:
    quick(150)(given(CHANGES)(check_sequence))()


def test_nodes_of_one_zone_and_count_share_a_class() -> None:
    fixture = NodeClassFixture()
    fixture.place(4, 1)
    fixture.refresh(0, 1)
    of = fixture.classes.of.tolist()
    assert of[0] == of[3] == of[6] != of[1] == of[7] != of[4]


def test_one_more_pod_moves_one_node_without_numbering_all() -> None:
    fixture = NodeClassFixture()
    fixture.place(4, 1)
    fixture.refresh(1)
    table, before = fixture.classes.table, fixture.classes.of.tolist()
    fixture.place(5, 1)
    fixture.refresh(1)
    assert fixture.classes.table is table
    assert [row for row, number in enumerate(fixture.classes.of.tolist()) if number != before[row]] == [5]


def test_every_node_is_a_class_while_there_are_too_many(monkeypatch: pytest.MonkeyPatch) -> None:
    fixture = NodeClassFixture()
    monkeypatch.setattr(module, "MAX_CLASSES", 9)
    for _ in range(2):
        fixture.refresh(2)
        assert fixture.classes.of.tolist() == list(range(ROWS))
    fixture.refresh(0)
    assert len(set(fixture.classes.of.tolist())) == 3


def test_key_that_no_node_had_becomes_a_topology() -> None:
    fixture, equivalence = NodeClassFixture(), NodeEquivalence(("later", ZONE))
    for name in ("", "n03", "n04"):
        if name:
            fixture.state.set_node(node(name).label(ZONE, "z0").label("later", name).build())
        fixture.classes.refresh([(PLUGIN, equivalence)], "Filter")
        fixture.check(equivalence)


def test_node_that_came_and_went_with_its_pods_is_left_out() -> None:
    fixture = NodeClassFixture()
    fixture.place(2, 1)
    fixture.refresh(1)
    fixture.state.set_node(node("n30").label(ZONE, "z0").build())
    fixture.place(ROWS, 1)
    fixture.state.remove_node("n30")
    fixture.place(2, 1)
    fixture.refresh(1)


def test_counts_are_read_again_after_their_counter_was_dropped() -> None:
    fixture = NodeClassFixture()
    fixture.place(2, 1)
    fixture.refresh(1)
    placed = fixture.state.placed
    placed._drop(placed._counts.pop(WeightOfLabel("up")))
    fixture.place(3, 2)
    fixture.refresh(1)
    assert all(counter.is_kept for pods in placed._sets.values() for counter in pods.counters)


def test_numbers_far_apart_need_few_classes() -> None:
    fixture = NodeClassFixture()
    for row, weight in ((3, 1_000_000), (4, 5_000_000), (3, 7)):
        fixture.place(row, weight)
        fixture.refresh(0, 1)
        assert fixture.classes.size < 4 * 10


def test_a_thousand_counts_are_not_read_to_find_that_there_are_too_many_classes() -> None:
    fixture = NodeClassFixture()
    counts = tuple(WeightOfLabel(f"label-{i}") for i in range(1_000))
    fixture.classes.refresh([(PLUGIN, NodeEquivalence((), counts))], "Filter")
    assert fixture.classes.is_by_row
    assert len(fixture.state.placed._counts) < 10


def test_every_node_is_a_class_without_an_equivalence() -> None:
    fixture = NodeClassFixture()
    fixture.refresh(2)
    fixture.classes.refresh([(PLUGIN, EQUIVALENCES[0]), (PLUGIN, None)], "Filter")
    assert fixture.classes.of.tolist() == list(range(ROWS))
    fixture.state.set_node(node("new").label(ZONE, "z9").build())
    fixture.classes.refresh([(PLUGIN, None)], "Filter")
    fixture.check(EQUIVALENCES[2])


def test_what_the_equivalence_lacks_cannot_be_read() -> None:
    fixture = NodeClassFixture()
    fixture.refresh(0)
    table = fixture.classes.table
    for read in (
        lambda: table.topology(RACK),
        lambda: table.count_pods(WeightOfLabel("up")),
        lambda: table.requested("cpu"),
        lambda: table.unschedulable,
        lambda: table[0],
        lambda: list(table),
    ):
        with pytest.raises(LookupError, match="equivalence of nodes does not include"):
            read()
    assert table.total == len(table.all_nodes) == ROWS


# -- planted bugs --------------------------------------------------------------------------------------------------


def _ignore_changed_counts(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(NodeClasses, "_update_counts", lambda *_: True)


def _ignore_changed_domains(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(NodeClasses, "_update_nodes", lambda *_: True)


def _forget_row(place: int) -> Callable[[pytest.MonkeyPatch], None]:
    """Return a bug: of the rows with changed nodes, one keeps its class."""

    def plant(patch: pytest.MonkeyPatch) -> None:
        numbered = NodeClasses._numbered

        def forget(self: NodeClasses, rows: Any) -> Any:
            numbers = numbered(self, rows)
            if numbers is not None and len(numbers):
                numbers[place] = self._cells[rows[place]] if rows[place] < len(self._cells) else 0
            return numbers

        patch.setattr(NodeClasses, "_numbered", forget)

    return plant


def _keep_counts_of_removed_rows(patch: pytest.MonkeyPatch) -> None:
    update = NodeClasses._update_nodes

    def keep(self: NodeClasses) -> bool:
        self.of = self.of[: len(self._state)]
        return update(self)

    patch.setattr(NodeClasses, "_update_nodes", keep)


def _ignore_other_equivalence(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(NodeClasses, "_covers", lambda self, *_: bool(self._equivalences))


def _keep_values(patch: pytest.MonkeyPatch) -> None:
    class_table = NodeClasses._class_table
    tables: dict[int, Any] = {}

    def once(self: NodeClasses) -> Any:
        return tables.setdefault(id(self.of), class_table(self))

    patch.setattr(NodeClasses, "_class_table", once)


def _share_when_copied(attribute: str) -> Callable[[pytest.MonkeyPatch], None]:
    """Return a bug: a copy and the original change the same object."""

    def plant(patch: pytest.MonkeyPatch) -> None:
        copied = NodeClasses.copy

        def share(self: NodeClasses) -> NodeClasses:
            twin = copied(self)
            setattr(twin, attribute, getattr(self, attribute))
            if attribute == "of":
                twin._cells = self._cells
            return twin

        patch.setattr(NodeClasses, "copy", share)

    return plant


def _keep_moves_when_copied(patch: pytest.MonkeyPatch) -> None:
    copied = NodeClasses.copy

    def keep(self: NodeClasses) -> NodeClasses:
        twin = copied(self)
        twin.moves = []
        return twin

    patch.setattr(NodeClasses, "copy", keep)


def _move_from_the_first_coordinate(patch: pytest.MonkeyPatch) -> None:
    def move(self: NodeClasses, axis: Any, row: int) -> bool:
        self.of[row] += axis.coordinate_of.setdefault(axis.counter.cells.item(row), 0) * axis.stride
        return True

    patch.setattr(NodeClasses, "_move", move)


@pytest.mark.parametrize(
    "plant",
    [
        _ignore_changed_counts,
        _ignore_changed_domains,
        _forget_row(0),
        _forget_row(-1),
        _keep_counts_of_removed_rows,
        _ignore_other_equivalence,
        _keep_values,
        _move_from_the_first_coordinate,
        _share_when_copied("of"),
        _share_when_copied("counts"),
        _share_when_copied("_counts"),
        _keep_moves_when_copied,
    ],
)
def test_property_catches_planted_bug(
    plant: Callable[[pytest.MonkeyPatch], None], monkeypatch: pytest.MonkeyPatch
) -> None:
    plant(monkeypatch)
    assert_caught(check_sequence, CHANGES, AssertionError, IndexError, LookupError)
