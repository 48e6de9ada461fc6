"""Node selection: tie-breaking, nominated nodes, resources reserved for nominated pods, and the size of the caches."""

from __future__ import annotations

import re
from types import ModuleType
from typing import Any

import numpy as np
import pytest

from pyscheduler.api import (
    Cycle,
    DefaultNormalizeScore,
    Diagnosis,
    FilterPlugin,
    NodeInfo,
    Pod,
    PreFilterPlugin,
    PreScorePlugin,
    Reads,
    Rejection,
    ScorePlugin,
)
from pyscheduler.core.framework.handle import empty_handle
from pyscheduler.core.framework.profile import Profile, Weighted
from pyscheduler.core.instrument import Instrument
from pyscheduler.core.queue.nominator import Nominator
from pyscheduler.core.result_cache import equivalence_cache
from pyscheduler.core.result_cache.equivalence_cache import EquivalenceCache
from pyscheduler.core.scheduling import schedule_one
from pyscheduler.core.scheduling import schedule_pod as schedule_pod_module
from pyscheduler.core.scheduling.node_order import random_best
from pyscheduler.core.scheduling.profile_runtime import ProfileRuntime
from pyscheduler.core.scheduling.schedule_pod import ScheduleResult, schedule_pod
from pyscheduler.core.state import ClusterState, PodSignatures
from pyscheduler.intree import NodeAffinity, NodeResourcesFit, PrioritySort
from pyscheduler.testing import NodeBuilder, PodBuilder, node, pod

HANDLE = empty_handle()


class Ranked(ScorePlugin):
    """Score a node by its `rank` label, normalised so that the best feasible one gets 100."""

    name = "Ranked"
    reads = Reads.OWN_NODE
    normalizer = DefaultNormalizeScore()

    def score(self, cycle: Cycle, pod: Pod, node: NodeInfo) -> int:
        return int(node.labels.get("rank", "0"))


class UniqueReasons(FilterPlugin):
    """Reject every node with a new reason each time."""

    name = "UniqueReasons"
    reads = Reads.OWN_NODE_AND_PODS
    count = 0

    def filter(self, cycle: Cycle, pod: Pod, node: NodeInfo) -> Rejection | None:
        self.count += 1
        return Rejection(f"reason {self.count}")


class Bench:
    """The runtime of a profile over a few nodes."""

    def __init__(self, *nodes: NodeBuilder, filters: tuple[Any, ...] = (NodeResourcesFit,), scores: Any = ()) -> None:
        self.state, self.nominator, self.signatures = ClusterState(), Nominator(), PodSignatures()
        for built in nodes:
            self.state.set_node(built.build())
        plugins = tuple(cls(cls.Args(), HANDLE) for cls in filters)
        scoring = tuple(cls(cls.Args(), HANDLE) for cls in scores)
        profile = Profile(
            "default-scheduler",
            PrioritySort(PrioritySort.Args(), HANDLE),
            pre_filter=tuple(p for p in plugins if isinstance(p, PreFilterPlugin)),
            filter=plugins,
            pre_score=tuple(p for p in scoring if isinstance(p, PreScorePlugin)),
            score=tuple(Weighted(p, 1) for p in scoring),
        )
        self.runtime = ProfileRuntime.of(profile, self.state, self.nominator, Instrument())

    def decide(self, built: PodBuilder) -> ScheduleResult | Diagnosis:
        built_pod = built.build(self.signatures)
        return schedule_pod(self.runtime, Cycle(0.0, "default-scheduler", built_pod.uid), built_pod)

    def selected_node(self, built: PodBuilder) -> str:
        result = self.decide(built)
        assert isinstance(result, ScheduleResult)
        return result.node.name

    def message_for(self, built: PodBuilder) -> str:
        result = self.decide(built)
        assert isinstance(result, Diagnosis)
        return result.message


@pytest.mark.parametrize("module", [schedule_one, schedule_pod_module], ids=["schedule_one", "schedule_pod"])
def test_outline_of_the_cycle_names_its_functions_in_the_order_of_their_definitions(module: ModuleType) -> None:
    outline = re.findall(r"^ +(\w+)(?= {2,}|$)", module.__doc__ or "", re.MULTILINE)
    assert len(outline) > 5
    functions = [getattr(module, name) for name in outline]
    here = [function.__code__.co_firstlineno for function in functions if function.__module__ == module.__name__]
    assert here == sorted(here)


def test_random_tie_break_only_among_best_totals() -> None:
    totals = np.array([3, 7, -1, 7], np.int64)
    picked = {random_best(totals, Cycle(0.0, "p", f"uid-{i}")) for i in range(30)}
    assert picked == {1, 3}
    assert random_best(np.array([3, 7, 6], np.int64), Cycle(0.0, "p", "uid")) == 1


def test_tie_break_is_reproducible_per_attempt() -> None:
    totals = np.zeros(50, np.int64)
    first = [random_best(totals, Cycle(0.0, "p", "uid", attempt)) for attempt in range(10)]
    assert first == [random_best(totals, Cycle(9.9, "p", "uid", attempt)) for attempt in range(10)]
    assert len(set(first)) > 1


def test_nominated_node_is_preferred_to_a_better_one() -> None:
    bench = Bench(node("n1"), node("n2").label("rank", "9"), scores=(Ranked,))
    assert bench.selected_node(pod("a")) == "n2"
    assert bench.selected_node(pod("a").nominated("n1")) == "n1"


@pytest.mark.parametrize("nominated", ["full", "gone"])
def test_infeasible_nominated_node_is_skipped(nominated: str) -> None:
    bench = Bench(node("n1"), node("full", cpu="1"))
    assert bench.selected_node(pod("a").requests(cpu="2").nominated(nominated)) == "n1"


def test_message_of_excluded_nodes_names_plugin_that_rejected_nominated_node() -> None:
    """As kube-scheduler does, although another plugin excluded them."""
    bench = Bench(node("n1"), node("n2"), filters=(NodeAffinity, NodeResourcesFit))
    by_name = {"matchFields": [{"key": "metadata.name", "operator": "In", "values": ["n1"]}]}
    large = pod("a").requests(cpu="9").node_affinity(by_name)
    assert "1 node(s) didn't satisfy plugin(s) [NodeAffinity]." in bench.message_for(large)
    message = bench.message_for(large.nominated("n1"))
    assert "1 node(s) didn't satisfy plugin(s) [NodeAffinity NodeResourcesFit]." in message


def test_resources_of_nominated_pod_are_reserved_against_equal_priority() -> None:
    bench = Bench(node("n1", cpu="2"))
    bench.nominator.add(pod("nominated").priority(5).requests(cpu="2").build(), "n1")
    assert (
        bench.message_for(pod("equal").priority(5).requests(cpu="1")) == "0/1 nodes are available: 1 Insufficient cpu."
    )
    assert bench.selected_node(pod("higher").priority(6).requests(cpu="1")) == "n1"


def test_reserved_node_is_excluded_from_score_normalization() -> None:
    nodes = (node("n1", cpu="2").label("rank", "100"), node("n2").label("rank", "2"), node("n3").label("rank", "1"))
    bench = Bench(*nodes, scores=(Ranked,))
    bench.nominator.add(pod("nominated").requests(cpu="2").build(), "n1")
    # With n1's rank of 100 included, n2 and n3 would score 2 and 1; without it they score 100 and 50.
    assert bench.selected_node(pod("a").requests(cpu="1")) == "n2"


def reserve_emptiest_node(nodes: int) -> Bench:
    """The emptiest of some nodes is reserved for a nominated pod.

    Pods of the same signature have been evaluated on all nodes, and each node runs one of them.
    """
    big = node("n0", cpu="64")
    bench = Bench(big, *(node(f"n{i}", cpu="8") for i in range(1, nodes)), scores=(NodeResourcesFit,))
    for i in range(nodes):
        bench.state.place(pod(f"sits-{i}").requests(cpu="1").build(bench.signatures), f"n{i}")
    assert bench.selected_node(pod("before").requests(cpu="1")) == "n0"
    bench.nominator.add(pod("nominated").requests(cpu="63").build(), "n0")
    for i in range(3):
        assert bench.selected_node(pod(f"a{i}").requests(cpu="1")) != "n0"
    return bench


FEW_AND_MANY_NODES = pytest.mark.parametrize("nodes", [3, 40])


@FEW_AND_MANY_NODES
def test_reservation_holds_after_pod_removal_on_that_node(nodes: int) -> None:
    bench = reserve_emptiest_node(nodes)
    assert bench.state.remove(pod("sits-0").build().uid) is not None
    bench.nominator.add(pod("nominated").requests(cpu="64").build(), "n0")
    assert bench.selected_node(pod("b").requests(cpu="1")) != "n0"


@FEW_AND_MANY_NODES
def test_reservation_holds_after_changes_on_all_nodes(nodes: int) -> None:
    bench = reserve_emptiest_node(nodes)
    bench.state.place(pod("fills").requests(cpu="7").build(bench.signatures), "n1")
    for i in range(nodes):
        assert bench.state.remove(pod(f"sits-{i}").build().uid) is not None
    bench.nominator.add(pod("nominated").requests(cpu="64").build(), "n0")
    bench.state.place(pod("fills-too").requests(cpu="8").build(bench.signatures), "n2")
    assert bench.selected_node(pod("b").requests(cpu="1")) != "n0"


@FEW_AND_MANY_NODES
def test_removed_nomination_frees_the_node(nodes: int) -> None:
    bench = reserve_emptiest_node(nodes)
    bench.nominator.remove(pod("nominated").build().uid)
    assert bench.selected_node(pod("b").requests(cpu="1")) == "n0"


@FEW_AND_MANY_NODES
def test_nomination_on_deleted_node_is_ignored(nodes: int) -> None:
    bench = reserve_emptiest_node(nodes)
    bench.state.set_node(node("last", cpu="64").build())
    bench.nominator.add(pod("another").requests(cpu="64").build(), "last")
    bench.selected_node(pod("b").requests(cpu="1"))
    bench.state.remove_node("last")
    result = bench.decide(pod("c").requests(cpu="1"))
    assert isinstance(result, ScheduleResult)
    assert result.feasible == nodes - 1


def test_insufficient_resources_include_nominated_pods() -> None:
    bench = Bench(node("n1", cpu="2", memory="1Gi"), node("n2", cpu="1"))
    bench.nominator.add(pod("nominated").requests(memory="1Gi").build(), "n1")
    message = bench.message_for(pod("a").requests(cpu="3", memory="1Mi"))
    assert message == "0/2 nodes are available: 1 Insufficient memory, 2 Insufficient cpu."


def test_unique_rejection_reasons_are_reported_and_dropped() -> None:
    bench, built_pod = Bench(node("n1"), filters=(UniqueReasons,)), pod("a")
    sibling = built_pod.build(bench.signatures)
    for i in range(1, 5_000):
        assert bench.message_for(built_pod) == f"0/1 nodes are available: 1 reason {i}."
        bench.state.usage_log.append(0)
    cache = bench.runtime.caches.get(sibling)
    assert cache is not None
    assert len(cache.rows.filters.statuses) < 2_000


def test_number_of_caches_is_bounded_on_small_clusters(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(equivalence_cache, "MAX_CACHES", 16)
    bench = Bench(node("n1"))
    for i in range(40):
        bench.selected_node(pod("a").requests(cpu=f"{i + 1}m"))
    assert len(bench.runtime.caches) == 16


def test_cached_results_stay_right_when_all_signed_values_are_dropped(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(equivalence_cache, "MAX_SIGNED", 4)
    bench = Bench(node("n1", cpu="1"), node("n2", cpu="4"))
    for i in range(40):
        assert bench.selected_node(pod("a").requests(cpu=f"{2000 + i % 10}m")) == "n2"
    assert len(bench.runtime.caches) <= 4


@pytest.mark.parametrize("large_pod", [pod("a").annotation("a", "x" * 70_000), pod("a").label("a", "x" * 70_000)])
def test_large_pods_are_not_cached(large_pod: PodBuilder) -> None:
    bench = Bench(node("n1"))
    assert bench.selected_node(large_pod) == bench.selected_node(large_pod) == "n1"
    assert len(bench.runtime.caches) == 0


def caches_after_100_groups(monkeypatch: pytest.MonkeyPatch, minimum: int) -> list[EquivalenceCache]:
    """Return the caches left after pods of a hundred signature groups, with memory for a few only."""
    monkeypatch.setattr(equivalence_cache, "MAX_CACHE_BYTES", 400_000)
    monkeypatch.setattr(equivalence_cache, "MIN_CACHES", minimum)
    bench = Bench(*(node(f"n{i}") for i in range(200)))
    for i in range(100):
        bench.selected_node(pod("a").requests(cpu=f"{i + 1}m"))
    return list(bench.runtime.caches)


def test_caches_fit_the_memory_limit(monkeypatch: pytest.MonkeyPatch) -> None:
    caches = caches_after_100_groups(monkeypatch, minimum=1)
    assert sum(cache.bytes for cache in caches) <= 400_000
    assert len(caches) > 5


def test_minimum_number_of_caches_overrides_memory_limit(monkeypatch: pytest.MonkeyPatch) -> None:
    assert len(caches_after_100_groups(monkeypatch, minimum=60)) == 60
