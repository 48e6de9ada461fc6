"""Counts of pods per node: kept by a journal, started afresh when it does not reach back, copies for who reads."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import pytest

from pyscheduler.api import PodAttributes, PodCount
from pyscheduler.api.pod import PodSignature
from pyscheduler.core.state import ClusterState, PodSignatures, placed
from pyscheduler.testing import node, pod


@dataclass(frozen=True)
class App(PodCount):
    """Pods of one app."""

    name: str
    terminating: bool = True

    def of(self, signature: PodSignature) -> int:
        return int(signature.labels.get("app") == self.name)


@dataclass(frozen=True)
class Apps(PodAttributes):
    """The apps that there are."""

    def of(self, signature: PodSignature) -> tuple[str, ...]:
        return (signature.labels["app"],) if "app" in signature.labels else ()


class PlacedPodsFixture:
    """Three nodes in two zones, and pods by name."""

    def __init__(self) -> None:
        self.state = ClusterState()
        self.shapes = PodSignatures()
        for name, zone in (("n1", "a"), ("n2", "b"), ("n3", "a")):
            self.state.set_node(node(name).label("zone", zone).build())

    def place(self, name: str, app: str, where: str) -> None:
        self.state.place(pod(name).label("app", app).on(where).build(self.shapes), where)

    def count(self, app: str, terminating: bool = True) -> list[int]:
        return [int(n) for n in self.state.table().count_pods(App(app, terminating))]


@pytest.fixture
def world() -> PlacedPodsFixture:
    world = PlacedPodsFixture()
    for name, app, where in (("w1", "web", "n1"), ("w2", "web", "n3"), ("w3", "web", "n3"), ("d1", "db", "n2")):
        world.place(name, app, where)
    return world


def test_pods_are_counted_per_node_and_by_domain(world: PlacedPodsFixture) -> None:
    assert world.count("web") == [1, 0, 2]
    table = world.state.table()
    zones = table.topology("zone")
    sums = zones.sum(table.count_pods(App("web")))
    assert sums[zones.id_of("a")] == 3
    assert sums[zones.id_of("b")] == 0
    assert zones.id_of("nowhere") == 0
    assert table.topology("unknown").ids.tolist() == [0, 0, 0]


def test_counts_follow_pods(world: PlacedPodsFixture) -> None:
    world.count("web")
    world.place("w4", "web", "n2")
    world.state.remove(next(iter(world.state.rows[2].pods)))
    assert world.count("web") == [1, 1, 1]


def test_what_is_counted_cannot_be_written_to(world: PlacedPodsFixture) -> None:
    with pytest.raises(ValueError, match="read-only"):
        world.state.table().count_pods(App("web"))[0] = 7


def test_counts_by_domain_follow_pods_and_nodes(world: PlacedPodsFixture) -> None:
    def by_zone() -> tuple[dict[str | None, int], int]:
        table = world.state.table()
        domains = table.topology("zone")
        sums = table.count_by_domain(App("web"), domains)
        return {zone: int(sums.numbers[domain]) for zone, domain in domains.known.items() if zone}, sums.total

    before = by_zone()
    world.place("w4", "web", "n2")
    world.place("w5", "web", "n1")
    assert by_zone() != before
    afresh = world.state.table().topology("zone").sum(world.state.table().count_pods(App("web")))
    assert by_zone()[1] == afresh.sum()
    assert sorted(by_zone()[0].values()) == sorted(afresh[1:].tolist())


def test_a_part_of_the_table_counts_its_own_nodes_and_knows_the_whole(world: PlacedPodsFixture) -> None:
    part = world.state.table(np.array([2, 1]))
    assert part.count_pods(App("web")).tolist() == [2, 0]
    assert part.all_nodes.count_pods(App("web")).tolist() == [1, 0, 2]
    assert part.topology("zone").ids[0] == part.all_nodes.topology("zone").id_of("a")


def test_one_that_fell_behind_starts_afresh(world: PlacedPodsFixture, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(placed, "JOURNAL", 2)
    world.count("web")
    for i in range(9):
        world.place(f"x{i}", "web", "n2")
    assert world.count("web") == [1, 9, 2]


@pytest.mark.parametrize("begun", [False, True], ids=["counting afresh", "reading on"])
@pytest.mark.parametrize("moves", [False, True], ids=["", "and a row moves meanwhile"])
def test_what_a_plugin_breaks_off_is_counted_afresh(
    world: PlacedPodsFixture, begun: bool, moves: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    table = world.state.table()

    def read() -> tuple[list[int], int, dict[str, int]]:
        table = world.state.table()
        sums = table.count_by_domain(App("web"), table.topology("zone"))
        return world.count("web"), sums.total, dict(table.attribute_counts(Apps()))

    if begun:
        read()
    world.place("w4", "web", "n1")
    world.place("odd", "odd", "n2")
    with monkeypatch.context() as patch:
        for cls in (App, Apps):
            patch.setattr(cls, "of", _broken_for_odd(cls.of))
        for ask in (
            lambda: world.count("web"),
            lambda: table.count_by_domain(App("web"), table.topology("zone")),
            lambda: table.attribute_counts(Apps()),
        ):
            with pytest.raises(RuntimeError, match="odd"):
                ask()
        if moves:
            world.state.remove_node("n1")
    counts, apps = ([2, 0], {"web": 2}) if moves else ([2, 0, 2], {"web": 4})
    assert read() == (counts, sum(counts), apps | {"db": 1, "odd": 1})


def _broken_for_odd(of: Any) -> Any:
    def asked(self: Any, signature: PodSignature) -> Any:
        if signature.labels["app"] == "odd":
            raise RuntimeError("what an odd pod")
        return of(self, signature)

    return asked


def test_what_pods_carry_is_listed_while_they_do(world: PlacedPodsFixture) -> None:
    table = world.state.table()
    assert dict(table.attribute_counts(Apps())) == {"web": 3, "db": 1}
    world.state.remove_node("n2")
    assert dict(table.attribute_counts(Apps())) == {"web": 3}
    world.state.set_node(node("n2").build())
    assert dict(table.attribute_counts(Apps())) == {"web": 3, "db": 1}


def test_surroundings_are_others_when_the_first_pod_of_a_template_comes_or_the_last_one_goes() -> None:
    """Not for each signature: pods of an indexed Job, a StatefulSet or a DaemonSet are all the first of their own."""
    world, seen = PlacedPodsFixture(), list[int]()

    def note() -> None:
        seen.append(world.state.dependency_version)

    note()
    for name, app in (("a", "web-0"), ("b", "web-1"), ("c", "web-1")):
        world.place(name, app, "n1")
        note()
    world.state.place(pod("d").requests(cpu="1").on("n2").build(world.shapes), "n2")
    note()
    world.state.place(pod("c").label("app", "web-1").deleting().on("n1").build(world.shapes), "n1")
    note()
    for name in ("a", "b", "c"):
        world.state.remove(pod(name).build().uid)
        note()

    nothing, first, *siblings, another, deleting, less, still, none = seen
    assert nothing != first
    assert siblings == [first, first]
    assert another != first
    assert (deleting, less, still) == (another, another, another)
    assert none not in (another, first)


def test_only_so_many_counts_are_kept(world: PlacedPodsFixture, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(placed, "KEEP_BYTES", 0)
    for i in range(100):
        world.count(f"app-{i}")
    assert len(world.state.placed._counts) == placed.KEEP_COUNTS


def test_however_few_the_nodes_there_is_an_end_to_the_counts(
    world: PlacedPodsFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(placed, "MOST_COUNTS", 20)
    table = world.state.table()
    for i in range(100):
        world.count(f"app-{i}")
        table.count_by_domain(App(f"app-{i}"), table.topology("zone"))
    kept = world.state.placed
    assert (len(kept._counts), len(kept._sums)) == (20, 20)


def test_pods_being_deleted_count_only_for_who_says_so(world: PlacedPodsFixture) -> None:
    assert world.count("web", terminating=False) == [1, 0, 2]
    world.state.replace(pod("w1").label("app", "web").on("n1").deleting().build(world.shapes))
    assert world.count("web", terminating=False) == [0, 0, 2]
    assert world.count("web") == [1, 0, 2]
