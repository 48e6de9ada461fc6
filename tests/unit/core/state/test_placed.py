"""Counts of placed pods: they follow added and removed pods and moved rows, are limited in number, and read-only."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import pytest

from pyscheduler.api import (
    PodAttributes,
    PodCount,
    PodRequirement,
    PodSelection,
    Requirement,
    Selector,
    required_labels,
)
from pyscheduler.api.pod import PodSignature
from pyscheduler.api.topology import Domains
from pyscheduler.core.state import ClusterState, PodSignatures, placed, pod_counters
from pyscheduler.testing import node, pod


@dataclass(frozen=True)
class App(PodCount):
    """Count of the pods of one app."""

    name: str
    terminating: bool = True

    def of(self, signature: PodSignature) -> int:
        return int(signature.labels.get("app") == self.name)


@dataclass(frozen=True)
class NumberedApp(App):
    """One of many counts of the pods of an app, and of those of both apps."""

    number: int = 0

    def of(self, signature: PodSignature) -> int:
        return int(signature.labels.get("app") in (self.name, "both"))


@dataclass(frozen=True)
class Apps(PodAttributes):
    """Value of the app label."""

    def of(self, signature: PodSignature) -> tuple[str, ...]:
        return (signature.labels["app"],) if "app" in signature.labels else ()


class PlacedPodsFixture:
    """Cluster of three nodes in two zones."""

    def __init__(self) -> None:
        self.state = ClusterState()
        self.signatures = PodSignatures()
        for name, zone in (("n1", "a"), ("n2", "b"), ("n3", "a")):
            self.state.set_node(node(name).label("zone", zone).build())

    def place(self, name: str, app: str, where: str) -> None:
        self.state.place(pod(name).label("app", app).on(where).build(self.signatures), where)

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


def test_counts_follow_added_and_removed_pods(world: PlacedPodsFixture) -> None:
    world.count("web")
    world.place("w4", "web", "n2")
    world.state.remove(next(iter(world.state.rows[2].pods)))
    assert world.count("web") == [1, 1, 1]


def test_counts_are_read_only(world: PlacedPodsFixture) -> None:
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
    expected = world.state.table().topology("zone").sum(world.state.table().count_pods(App("web")))
    assert by_zone()[1] == expected.sum()
    assert sorted(by_zone()[0].values()) == sorted(expected[1:].tolist())


def test_partial_table_counts_its_own_nodes_and_has_a_table_of_all(world: PlacedPodsFixture) -> None:
    part = world.state.table(np.array([2, 1]))
    assert part.count_pods(App("web")).tolist() == [2, 0]
    assert part.all_nodes.count_pods(App("web")).tolist() == [1, 0, 2]
    assert part.topology("zone").ids[0] == part.all_nodes.topology("zone").id_of("a")


def test_sums_by_domains_of_former_nodes_are_dropped(world: PlacedPodsFixture) -> None:
    for i in range(3):
        world.state.set_node(node(f"more-{i}").label("zone", "a").build())
        table = world.state.table()
        assert table.count_by_domain(App("web"), table.topology("zone")).total == 3
    assert [len(counter._sums) for counter in world.state.placed._counts.values()] == [1]


def test_counts_by_domain_follow_more_changes_than_a_counter_keeps(
    world: PlacedPodsFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(pod_counters, "CHANGES", 2)
    table = world.state.table()
    zones = table.topology("zone")
    for pods in (1, 9, 2):
        for i in range(pods):
            world.place(f"x{pods}-{i}", "web", "n2")
        sums = table.count_by_domain(App("web"), zones)
        assert sums.numbers.tolist() == zones.sum(table.count_pods(App("web"))).tolist()
        assert sums.total == sums.numbers.sum()
    assert world.count("web") == [1, 12, 2]


def test_counts_by_domain_include_new_pods_that_are_counted_in_one_step(
    world: PlacedPodsFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(pod_counters, "FEW", 1)
    table = world.state.table()
    zones = table.topology("zone")
    before = table.count_by_domain(App("web"), zones).total
    for name in ("n1", "n3"):
        new = pod(f"new-{name}").label("app", "web").label("v", "2").on(name)
        world.state.place(new.build(world.signatures), name)
    sums = table.count_by_domain(App("web"), zones)
    assert sums.numbers.tolist() == zones.sum(table.count_pods(App("web"))).tolist()
    assert sums.total == sums.numbers.sum() == before + 2


def test_set_that_no_counter_has_read_is_counted_where_its_rows_moved_to(world: PlacedPodsFixture) -> None:
    world.count("web")
    world.state.place(pod("new").label("app", "web").label("v", "2").on("n3").build(world.signatures), "n3")
    world.state.remove_node("n1")
    assert world.count("web") == [3, 0]


def test_dropped_count_no_longer_follows_the_pods(world: PlacedPodsFixture, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(placed, "KEEP_COUNTS", 1)
    monkeypatch.setattr(placed, "KEEP_BYTES", 0)
    for app in ("web", "db", "web", "db"):
        world.count(app)
    counters = [counter for pods in world.state.placed._sets.values() for counter in pods.counters]
    assert counters == list(world.state.placed._counts.values())


def test_number_of_sets_that_counts_follow_is_limited(
    world: PlacedPodsFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(placed, "MOST_COUNTED_SETS", 20)
    for i in range(10):
        world.place(f"web-{i}", "web", "n1")
        world.state.place(pod(f"v{i}").label("app", "web").label("v", str(i)).on("n2").build(world.signatures), "n2")
    for terminating in range(50):
        world.state.table().count_pods(App("web", terminating))  # type: ignore[arg-type]
    pods = world.state.placed
    followed = sum(len(each.counters) for each in pods._sets.values())
    assert pods._counted_sets == followed
    assert len(pods._counts) == placed.KEEP_COUNTS
    for uid in [uid for node_row in world.state.rows for uid in node_row.pods]:
        world.state.remove(uid)
    assert pods._counted_sets == 0


@pytest.mark.parametrize("cached", [False, True], ids=["new", "updated"])
@pytest.mark.parametrize("moves", [False, True], ids=["", "and a row moves meanwhile"])
def test_count_is_recomputed_after_a_plugin_raises(
    world: PlacedPodsFixture, cached: bool, moves: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    table = world.state.table()

    def read() -> tuple[list[int], int, dict[str, int]]:
        table = world.state.table()
        sums = table.count_by_domain(App("web"), table.topology("zone"))
        return world.count("web"), sums.total, dict(table.attribute_counts(Apps()))

    if cached:
        read()
    world.place("w4", "web", "n1")
    world.place("odd", "odd", "n2")
    with monkeypatch.context() as patch:
        for cls in (App, Apps):
            patch.setattr(cls, "of", _broken_for_odd(cls.of))
        for failing_read in (
            lambda: world.count("web"),
            lambda: table.count_by_domain(App("web"), table.topology("zone")),
            lambda: table.attribute_counts(Apps()),
        ):
            with pytest.raises(RuntimeError, match="odd"):
                failing_read()
        if moves:
            world.state.remove_node("n1")
    counts, apps = ([2, 0], {"web": 2}) if moves else ([2, 0, 2], {"web": 4})
    assert read() == (counts, sum(counts), apps | {"db": 1, "odd": 1})


def _broken_for_odd(of: Any) -> Any:
    def broken_of(self: Any, signature: PodSignature) -> Any:
        if signature.labels["app"] == "odd":
            raise RuntimeError("odd pod")
        return of(self, signature)

    return broken_of


@dataclass(frozen=True)
class SelectedApp(App):
    """Count of the pods of one app, that declares which pods it selects; it lists the evaluated pods."""

    evaluated: list[str] = field(default_factory=list, compare=False)

    @property
    def selection(self) -> PodSelection:
        return [required_labels(Selector((Requirement("app", "In", (self.name,)),)), None)]

    def of(self, signature: PodSignature) -> int:
        self.evaluated.append(signature.labels["app"])
        return super().of(signature)


def test_pods_of_new_signatures_are_evaluated_only_by_counts_that_select_them(world: PlacedPodsFixture) -> None:
    counts = {name: SelectedApp(name) for name in ("web", "db", "cache")}

    def read() -> dict[str, list[int]]:
        return {name: world.state.table().count_pods(count).tolist() for name, count in counts.items()}

    assert read() == {"web": [1, 0, 2], "db": [0, 1, 0], "cache": [0, 0, 0]}
    for count in counts.values():
        count.evaluated.clear()
    for i in range(3):
        world.state.place(pod(f"c{i}").label("app", "cache").label("i", str(i)).build(world.signatures), f"n{i + 1}")
    assert read() == {"web": [1, 0, 2], "db": [0, 1, 0], "cache": [1, 1, 1]}
    assert {name: count.evaluated for name, count in counts.items()} == {"web": [], "db": [], "cache": ["cache"] * 3}


def test_pods_that_end_before_a_count_is_read_leave_nothing_behind(world: PlacedPodsFixture) -> None:
    world.state.table().count_pods(SelectedApp("cache"))
    world.state.table().count_pods(App("web"))
    counters = [*world.state.placed._counts.values()]
    for i in range(10):
        world.state.place(pod("c").label("app", "cache").label("i", str(i)).build(world.signatures), "n1")
        if i % 2:
            world.state.table().count_pods(App("web"))
        world.state.remove(pod("c").build().uid)
    assert not any(counter.new_sets for counter in counters)
    assert not world.state.placed._new_sets


@dataclass(frozen=True)
class BrokenAttributes(PodAttributes):
    """Attributes that cannot be read."""

    def of(self, signature: PodSignature) -> tuple[str, ...]:
        raise RuntimeError("no attributes")


@dataclass(frozen=True)
class SelectedByBroken(App):
    """Count that selects pods by attributes that cannot be read."""

    @property
    def selection(self) -> PodSelection:
        return [[PodRequirement(BrokenAttributes(), ("x",))]]


def test_failing_attributes_select_every_pod(world: PlacedPodsFixture) -> None:
    table = world.state.table()
    table.count_pods(SelectedByBroken("web"))
    world.place("w4", "web-2", "n2")
    world.state.place(pod("w5").label("app", "web").label("i", "5").build(world.signatures), "n2")
    assert table.count_pods(SelectedByBroken("web-2")).tolist() == [0, 1, 0]
    assert table.count_pods(SelectedByBroken("web")).tolist() == [1, 1, 2]


def test_attribute_counts_follow_pods_and_nodes(world: PlacedPodsFixture) -> None:
    table = world.state.table()
    assert dict(table.attribute_counts(Apps())) == {"web": 3, "db": 1}
    world.state.remove_node("n2")
    assert dict(table.attribute_counts(Apps())) == {"web": 3}
    world.state.set_node(node("n2").build())
    assert dict(table.attribute_counts(Apps())) == {"web": 3, "db": 1}


def test_templates_version_changes_with_the_first_and_the_last_pod_of_a_template() -> None:
    """Not of each signature: each pod of an indexed Job, a StatefulSet or a DaemonSet may have its own."""
    world, versions = PlacedPodsFixture(), list[int]()

    def record() -> None:
        versions.append(world.state.placed.templates_version)

    record()
    for name, app in (("a", "web-0"), ("b", "web-1"), ("c", "web-1")):
        world.place(name, app, "n1")
        record()
    world.state.place(pod("d").requests(cpu="1").on("n2").build(world.signatures), "n2")
    record()
    world.state.place(pod("c").label("app", "web-1").deleting().on("n1").build(world.signatures), "n1")
    record()
    for name in ("a", "b", "c"):
        world.state.remove(pod(name).build().uid)
        record()

    empty, first, *siblings, another, deleting, less, still, none = versions
    assert empty != first
    assert siblings == [first, first]
    assert another != first
    assert (deleting, less, still) == (another, another, another)
    assert none not in (another, first)


def test_number_of_cached_counts_is_limited_by_memory(
    world: PlacedPodsFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(placed, "KEEP_BYTES", 0)
    for i in range(100):
        world.count(f"app-{i}")
    assert len(world.state.placed._counts) == placed.KEEP_COUNTS


def test_number_of_cached_counts_is_limited_in_small_clusters(
    world: PlacedPodsFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(placed, "MOST_COUNTS", 20)
    table = world.state.table()
    for i in range(100):
        world.count(f"app-{i}")
    for _ in range(9):
        zones = table.topology("zone")
        table.count_by_domain(App("app-99"), Domains(zones.ids, zones.known))
    pods = world.state.placed
    assert len(pods._counts) == 20
    assert max(len(counter._sums) for counter in pods._counts.values()) <= pod_counters._MAX_SUMS


def test_counts_that_grow_when_they_are_read_are_limited(
    world: PlacedPodsFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    for i in range(100):
        world.state.placed.counter(App(f"app-{i}"), 3)
    monkeypatch.setattr(placed, "KEEP_BYTES", 100_000)
    assert len(world.state.placed._counts) == 100
    for i in range(100):
        world.count(f"app-{i}")
    counts = world.state.placed._counts.values()
    assert len(counts) < 100
    assert sum(counter.bytes for counter in counts) < 100_000 + placed._UNACCOUNTED * 2_200


def test_number_of_counts_that_a_placed_pod_updates_is_limited(
    world: PlacedPodsFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(placed, "MOST_COUNTS_OF_SET", 20)
    table = world.state.table()
    for i in range(100):
        assert table.count_pods(NumberedApp("web", number=i)).tolist() == [1, 0, 2]
        assert table.count_pods(NumberedApp("db", number=i)).tolist() == [0, 1, 0]
    world.count("cache")
    world.place("late", "both", "n2")
    for i in range(100):
        assert table.count_pods(NumberedApp("web", number=i)).tolist() == [1, 1, 2]
        assert table.count_pods(NumberedApp("db", number=i)).tolist() == [0, 2, 0]
    sets = world.state.placed._sets.values()
    assert max(len(pods.counters) for pods in sets) == 20
    assert App("cache") in world.state.placed._counts, "counts of other pods stay"


def test_terminating_pods_are_counted_only_if_the_count_includes_them(world: PlacedPodsFixture) -> None:
    assert world.count("web", terminating=False) == [1, 0, 2]
    world.state.replace(pod("w1").label("app", "web").on("n1").deleting().build(world.signatures))
    assert world.count("web", terminating=False) == [0, 0, 2]
    assert world.count("web") == [1, 0, 2]


def test_lower_priorities_and_terminating_pods_follow_the_pods(world: PlacedPodsFixture) -> None:
    placed_pods = world.state.placed
    assert not placed_pods.has_lower_priority(0)
    assert placed_pods.has_lower_priority(1)
    world.state.place(pod("low").priority(-5).on("n2").build(world.signatures), "n2")
    assert placed_pods.has_lower_priority(0)
    assert placed_pods.nodes_with_terminating_pods() == []
    low = world.state.info("n2")
    world.state.replace(pod("low").priority(-5).on("n2").deleting().build(world.signatures))
    assert not placed_pods.has_lower_priority(0)
    assert placed_pods.nodes_with_terminating_pods() == [low]
    world.state.remove(pod("low").build().uid)
    assert placed_pods.nodes_with_terminating_pods() == []


def test_sums_of_hosts_take_no_memory_before_they_are_read(world: PlacedPodsFixture) -> None:
    table = world.state.table()
    sums = table.count_by_domain(App("web"), table.topology("kubernetes.io/hostname"))
    [counter] = world.state.placed._counts.values()
    total, unevaluated_by = sums.total, counter.bytes
    world.place("w9", "web", "n1")
    assert sums.numbers.sum() == total + 1
    assert counter.bytes > unevaluated_by


def test_views_keep_their_version_while_only_pods_of_known_sets_change(world: PlacedPodsFixture) -> None:
    zones = world.state.table().topology("zone")
    numbers = world.state.placed.count_by_domain(App("web"), zones).numbers
    version = world.state.placed.views_version
    world.place("w9", "web", "n1")
    world.state.remove("w1")
    assert world.state.placed.views_version == version
    assert numbers is world.state.placed.count_by_domain(App("web"), zones).numbers


def _new_set(world: PlacedPodsFixture) -> None:
    world.place("c1", "cache", "n1")


def _removed_node(world: PlacedPodsFixture) -> None:
    world.state.remove_node("n1")


def _displaced_sums(world: PlacedPodsFixture) -> None:
    table = world.state.table()
    for _ in range(pod_counters._MAX_SUMS):
        ids = table.topology("zone").ids.copy()
        table.count_by_domain(App("web"), Domains(ids, table.topology("zone").known))


def _dropped_counter(world: PlacedPodsFixture) -> None:
    for i in range(placed.KEEP_COUNTS):
        world.count(f"other-{i}")


@pytest.mark.parametrize("change", [_new_set, _removed_node, _displaced_sums, _dropped_counter])
def test_views_get_another_version_when_one_may_be_out_of_date(
    world: PlacedPodsFixture, change: Callable[[PlacedPodsFixture], None], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(placed, "MOST_COUNTS", 4)
    monkeypatch.setattr(placed, "KEEP_COUNTS", 4)
    world.state.table().count_by_domain(App("web"), world.state.table().topology("zone"))
    version = world.state.placed.views_version
    change(world)
    assert world.state.placed.views_version != version
