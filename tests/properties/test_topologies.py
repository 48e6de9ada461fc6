"""Domains of nodes, their sizes, and sums of pods by domain follow nodes and pods that come and go."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from pyscheduler.api import Domains, PodCount, PodSignature
from pyscheduler.core.state import ClusterState, sparse_column
from pyscheduler.core.state.pod_counters import RowCounter
from pyscheduler.core.state.sparse_column import SparseColumn
from pyscheduler.core.state.topologies import Topologies, Topology
from pyscheduler.testing import node, pod
from tests.properties.profiles import assert_caught, quick

ZONE, HOST = "zone", "host"
NODES = 5
Change = tuple[str, int, int]
CHANGES = st.lists(
    st.tuples(
        st.sampled_from(["node", "node", "remove", "remove", "pod", "pod", "end", "read", "touch", "column"]),
        *2 * [st.integers(0, NODES - 1)],
    ),
    max_size=30,
)


@dataclass(frozen=True, slots=True)
class Weight(PodCount):
    """Weight of a pod by its label."""

    @property
    def terminating(self) -> bool:
        return True

    def of(self, signature: PodSignature) -> int:
        return int(signature.labels["weight"])


class Cluster:
    """Nodes with a pod each in two zones or none, of which some get other hosts."""

    def __init__(self) -> None:
        self.state = ClusterState()
        self._seen: dict[str, tuple[Domains, list[int]]] = {}
        self._placed: list[str] = []
        self._number = 0
        for row in range(NODES):
            self.do(("node", row, row % 3))
            self.do(("pod", row, row))
        self.do(("read", 0, 0))

    def do(self, change: Change) -> None:
        kind, where, what = change
        name = f"n{where}"
        self._number += 1
        match kind:
            case "node":
                built = node(name).label(HOST, f"h{self._number}" if what else f"h{where}")
                self.state.set_node((built.label(ZONE, f"z{what}") if what else built).build())
            case "remove":
                self.state.remove_node(name)
            case "pod":
                built_pod = pod(f"p{self._number}").label("weight", str(what)).build()
                self.state.place(built_pod, name)
                self._placed.append(built_pod.uid)
            case "end" if self._placed:
                self.state.remove(self._placed.pop(where % len(self._placed)))
            case "touch":
                self.state.topology(ZONE)
            case "column":
                assert self.state.table().count_pods(Weight()).tolist() == self._weights()
            case "read":
                counter = self.state.placed.counter(Weight(), len(self.state))
                assert [counter.cells.item(row) for row in range(len(self.state))] == self._weights()
                self.check(ZONE)
                self.check(HOST)

    def check(self, key: str) -> None:
        domains, rows = self.state.topology(key), self.state.rows
        assert domains.ids.tolist() == [domains.id_of(each.labels.get(key)) for each in rows]
        fresh = Domains(domains.ids.copy(), domains.known)
        assert domains.sizes.tolist() == np.bincount(domains.ids, minlength=domains.size).tolist()
        assert domains.non_empty_count == fresh.non_empty_count
        assert domains.unlabelled.tolist() == fresh.unlabelled.tolist()
        last, ids = self._seen.get(key, (None, []))
        assert domains is not last or domains.ids.tolist() == ids, "equal objects have equal domains"
        self._seen[key] = domains, domains.ids.tolist()
        self._check_sums(key, domains)

    def _weights(self) -> list[int]:
        weight = Weight()
        return [sum(weight.of(each.signature) for each in node.pods.values()) for node in self.state.rows]

    def _check_sums(self, key: str, domains: Domains) -> None:
        expected = Counter[str | None]()
        for each, weight in zip(self.state.rows, self._weights(), strict=True):
            expected[each.labels.get(key)] += weight
        del expected[None]
        sums = self.state.placed.count_by_domain(Weight(), domains)
        assert {value: sums.at(domains.id_of(value)) for value in expected} == expected
        assert sums.nonzero_count == sum(1 for amount in expected.values() if amount)
        if self._number % 2:  # otherwise it stays sparse
            return
        assert {value: sums.numbers.item(domains.id_of(value)) for value in expected} == expected
        assert sums.numbers.sum() == sums.total == expected.total()
        assert len(sums.numbers) == domains.size


def check_sequence(changes: list[Change]) -> None:
    cluster = Cluster()
    for change in [*changes, ("read", 0, 0)]:
        cluster.do(change)


@pytest.mark.parametrize("most", [0, 64], ids=["by column", "sparse"])
def test_domains_and_sums_equal_those_of_all_nodes(most: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sparse_column, "_MIN_SPARSE", most)
    quick(300)(given(CHANGES)(check_sequence))()


def test_sizes_that_were_not_read_before_a_removal_are_those_of_the_nodes_left() -> None:
    cluster = Cluster()
    cluster.do(("node", 0, 2))  # a relabelled node drops the topology
    cluster.do(("touch", 0, 0))
    cluster.do(("remove", 2, 0))
    cluster.do(("read", 0, 0))


def test_domains_keep_their_sums_when_a_node_is_added() -> None:
    cluster = Cluster()
    cluster.do(("remove", 2, 0))
    before = cluster.state.topology(ZONE)
    sums = cluster.state.placed.count_by_domain(Weight(), before)
    cluster.do(("node", 2, 2))
    after = cluster.state.topology(ZONE)
    assert after is not before
    assert cluster.state.placed.count_by_domain(Weight(), after) is sums


# -- planted bugs --------------------------------------------------------------------------------------------------


def _keep_domains_of_relabelled_nodes(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(Topologies, "drop_changed", lambda *_: None)


def _keep_sizes(patch: pytest.MonkeyPatch) -> None:
    resize = Topology.resize
    patch.setattr(Topology, "resize", lambda self, n, domain, _: resize(self, n, domain, 0))


def _forget_added_nodes(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(Topologies, "add_last_node", lambda *_: None)


def _count_moved_pods_twice(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(RowCounter, "move", lambda self, source, target: self.add(target, 1, self.cells.item(source)))


def _keep_column_that_was_read(patch: pytest.MonkeyPatch) -> None:
    add = SparseColumn.add
    patch.setattr(SparseColumn, "add", lambda self, *args: None if self._array is not None else add(self, *args))


def _begin_columns_with_zeros(patch: pytest.MonkeyPatch) -> None:
    none = np.zeros(0, np.int64)
    patch.setattr(SparseColumn, "nonzero", lambda *_: (none.astype(np.intp), none))


def _count_rows_of_other_nodes(patch: pytest.MonkeyPatch) -> None:
    nonzero = SparseColumn.nonzero
    patch.setattr(SparseColumn, "nonzero", lambda self, n: nonzero(self, n - 1))


@pytest.mark.parametrize(
    "plant",
    [
        _keep_domains_of_relabelled_nodes,
        _keep_sizes,
        _forget_added_nodes,
        _count_moved_pods_twice,
        _keep_column_that_was_read,
        _begin_columns_with_zeros,
        _count_rows_of_other_nodes,
    ],
)
def test_property_catches_planted_bug(
    plant: Callable[[pytest.MonkeyPatch], None], monkeypatch: pytest.MonkeyPatch
) -> None:
    plant(monkeypatch)
    assert_caught(check_sequence, CHANGES, AssertionError, IndexError)
