"""Choosing a node: chance among the best, nominated pods and their room, and what is kept for how long."""

from __future__ import annotations

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
from pyscheduler.core.decide import decider as decider_module
from pyscheduler.core.decide.decider import Choice, Decider
from pyscheduler.core.decide.equivalence_cache import EquivalenceCache
from pyscheduler.core.decide.order import EveryNode
from pyscheduler.core.framework.handle import CoreHandle
from pyscheduler.core.framework.profile import Profile, Weighted
from pyscheduler.core.instrument import Instrument
from pyscheduler.core.queue.nominator import Nominator
from pyscheduler.core.state import ClusterState, PodSignatures
from pyscheduler.intree import NodeAffinity, NodeResourcesFit, PrioritySort
from pyscheduler.testing import NodeBuilder, PodBuilder, node, pod

HANDLE = CoreHandle()


class Ranked(ScorePlugin):
    """Scores a node by its `rank` label, the best of those that fit made 100."""

    name = "Ranked"
    reads = Reads.OWN_NODE
    normalizer = DefaultNormalizeScore()

    def score(self, cycle: Cycle, pod: Pod, node: NodeInfo) -> int:
        return int(node.labels.get("rank", "0"))


class Chatty(FilterPlugin):
    """Never gives the same reason twice."""

    name = "Chatty"
    reads = Reads.OWN_NODE_AND_PODS
    given = 0

    def filter(self, cycle: Cycle, pod: Pod, node: NodeInfo) -> Rejection | None:
        self.given += 1
        return Rejection(f"reason {self.given}")


class Bench:
    """A decider over some nodes."""

    def __init__(self, *nodes: NodeBuilder, filters: tuple[Any, ...] = (NodeResourcesFit,), scores: Any = ()) -> None:
        self.state, self.nominator, self.shapes = ClusterState(), Nominator(), PodSignatures()
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
        self.decider = Decider(profile, self.state, self.nominator, Instrument())

    def decide(self, built: PodBuilder) -> Choice | Diagnosis:
        tried = built.build(self.shapes)
        return self.decider.decide(Cycle(0.0, "default-scheduler", tried.uid), tried)

    def chosen(self, built: PodBuilder) -> str:
        decided = self.decide(built)
        assert isinstance(decided, Choice)
        return decided.node.name

    def refused(self, built: PodBuilder) -> str:
        decided = self.decide(built)
        assert isinstance(decided, Diagnosis)
        return decided.message


def test_the_best_total_is_picked_and_chance_decides_between_equals_only() -> None:
    totals = np.array([3, 7, -1, 7], np.int64)
    picked = {EveryNode().pick(totals, Cycle(0.0, "p", f"uid-{i}")) for i in range(30)}
    assert picked == {1, 3}
    assert EveryNode().pick(np.array([3, 7, 6], np.int64), Cycle(0.0, "p", "uid")) == 1


def test_the_same_attempt_picks_the_same_and_the_next_one_may_not() -> None:
    totals = np.zeros(50, np.int64)
    first = [EveryNode().pick(totals, Cycle(0.0, "p", "uid", attempt)) for attempt in range(10)]
    assert first == [EveryNode().pick(totals, Cycle(9.9, "p", "uid", attempt)) for attempt in range(10)]
    assert len(set(first)) > 1


def test_the_nominated_node_is_taken_if_it_fits_though_another_is_better() -> None:
    bench = Bench(node("n1"), node("n2").label("rank", "9"), scores=(Ranked,))
    assert bench.chosen(pod("a")) == "n2"
    assert bench.chosen(pod("a").nominated("n1")) == "n1"


@pytest.mark.parametrize("nominated", ["full", "gone"])
def test_a_nominated_node_that_does_not_fit_is_passed_over(nominated: str) -> None:
    bench = Bench(node("n1"), node("full", cpu="1"))
    assert bench.chosen(pod("a").requests(cpu="2").nominated(nominated)) == "n1"


def test_what_refused_the_nominated_node_is_named_for_the_nodes_that_pre_filter_left_out() -> None:
    """As kube-scheduler has it, though it was another plugin that left them out."""
    bench = Bench(node("n1"), node("n2"), filters=(NodeAffinity, NodeResourcesFit))
    by_name = {"matchFields": [{"key": "metadata.name", "operator": "In", "values": ["n1"]}]}
    large = pod("a").requests(cpu="9").node_affinity(by_name)
    assert "1 node(s) didn't satisfy plugin(s) [NodeAffinity]." in bench.refused(large)
    told = bench.refused(large.nominated("n1"))
    assert "1 node(s) didn't satisfy plugin(s) [NodeAffinity NodeResourcesFit]." in told


def test_the_room_of_a_nominated_pod_is_left_to_it_by_its_equals() -> None:
    bench = Bench(node("n1", cpu="2"))
    bench.nominator.add(pod("promised").priority(5).requests(cpu="2").build(), "n1")
    assert bench.refused(pod("equal").priority(5).requests(cpu="1")) == "0/1 nodes are available: 1 Insufficient cpu."
    assert bench.chosen(pod("higher").priority(6).requests(cpu="1")) == "n1"


def test_a_node_whose_room_is_promised_counts_in_no_score() -> None:
    nodes = (node("n1", cpu="2").label("rank", "100"), node("n2").label("rank", "2"), node("n3").label("rank", "1"))
    bench = Bench(*nodes, scores=(Ranked,))
    bench.nominator.add(pod("promised").requests(cpu="2").build(), "n1")
    # Next to n1's 100, n2 and n3 would come to 2 and 1 of 100; among themselves they come to 100 and 50.
    assert bench.chosen(pod("a").requests(cpu="1")) == "n2"


def promised(nodes: int) -> Bench:
    """The emptiest of some nodes is promised; its equals have looked at all of them, and one sits on each."""
    big = node("n0", cpu="64")
    bench = Bench(big, *(node(f"n{i}", cpu="8") for i in range(1, nodes)), scores=(NodeResourcesFit,))
    for i in range(nodes):
        bench.state.place(pod(f"sits-{i}").requests(cpu="1").build(bench.shapes), f"n{i}")
    assert bench.chosen(pod("before").requests(cpu="1")) == "n0"
    bench.nominator.add(pod("promised").requests(cpu="63").build(), "n0")
    for i in range(3):
        assert bench.chosen(pod(f"a{i}").requests(cpu="1")) != "n0"
    return bench


SEVERAL_AND_MANY = pytest.mark.parametrize("nodes", [3, 40])


@SEVERAL_AND_MANY
def test_room_that_is_promised_is_left_when_pods_go_from_there(nodes: int) -> None:
    bench = promised(nodes)
    assert bench.state.remove(pod("sits-0").build().uid) is not None
    bench.nominator.add(pod("promised").requests(cpu="64").build(), "n0")
    assert bench.chosen(pod("b").requests(cpu="1")) != "n0"


@SEVERAL_AND_MANY
def test_room_that_is_promised_is_left_when_pods_go_everywhere_and_a_node_fills_up(nodes: int) -> None:
    bench = promised(nodes)
    bench.state.place(pod("fills").requests(cpu="7").build(bench.shapes), "n1")
    for i in range(nodes):
        assert bench.state.remove(pod(f"sits-{i}").build().uid) is not None
    bench.nominator.add(pod("promised").requests(cpu="64").build(), "n0")
    bench.state.place(pod("fills-too").requests(cpu="8").build(bench.shapes), "n2")
    assert bench.chosen(pod("b").requests(cpu="1")) != "n0"


@SEVERAL_AND_MANY
def test_a_promise_that_has_ended_holds_nobody_back(nodes: int) -> None:
    bench = promised(nodes)
    bench.nominator.remove(pod("promised").build().uid)
    assert bench.chosen(pod("b").requests(cpu="1")) == "n0"


@SEVERAL_AND_MANY
def test_a_promise_on_a_node_that_is_gone_counts_no_more(nodes: int) -> None:
    bench = promised(nodes)
    bench.state.set_node(node("last", cpu="64").build())
    bench.nominator.add(pod("another").requests(cpu="64").build(), "last")
    bench.chosen(pod("b").requests(cpu="1"))
    bench.state.remove_node("last")
    decided = bench.decide(pod("c").requests(cpu="1"))
    assert isinstance(decided, Choice)
    assert decided.feasible == nodes - 1


def test_what_a_node_lacks_is_told_with_its_nominated_pods_counted_in() -> None:
    bench = Bench(node("n1", cpu="2", memory="1Gi"), node("n2", cpu="1"))
    bench.nominator.add(pod("promised").requests(memory="1Gi").build(), "n1")
    refused = bench.refused(pod("a").requests(cpu="3", memory="1Mi"))
    assert refused == "0/2 nodes are available: 1 Insufficient memory, 2 Insufficient cpu."


def test_reasons_that_never_repeat_are_told_right_and_forgotten() -> None:
    bench, tried = Bench(node("n1"), filters=(Chatty,)), pod("a")
    sibling = tried.build(bench.shapes)
    for i in range(1, 5_000):
        assert bench.refused(tried) == f"0/1 nodes are available: 1 reason {i}."
        bench.state.usage_log.append(0)
    kept = bench.decider._cache_for(sibling)
    assert len(kept.filters.statuses) < 2_000


def test_few_nodes_and_many_shapes_do_not_fill_the_memory() -> None:
    bench = Bench(node("n1"))
    for i in range(2 * decider_module.MOST_KEPT):
        bench.chosen(pod("a").label("index", str(i)))
    assert len(bench.decider._kept) <= decider_module.MOST_KEPT


@pytest.mark.parametrize("tenants", [pod("a").annotation("a", "x" * 70_000), pod("a").label("a", "x" * 70_000)])
def test_of_a_pod_that_is_large_nothing_is_kept(tenants: PodBuilder) -> None:
    bench = Bench(node("n1"))
    assert bench.chosen(tenants) == bench.chosen(tenants) == "n1"
    assert not bench.decider._kept


def kept_of_a_hundred(monkeypatch: pytest.MonkeyPatch, least: int) -> list[EquivalenceCache]:
    """What is kept where there is memory for a few, after pods of a hundred templates."""
    monkeypatch.setattr(decider_module, "KEEP_BYTES", 100_000)
    monkeypatch.setattr(decider_module, "LEAST_KEPT", least)
    bench = Bench(*(node(f"n{i}") for i in range(200)))
    for i in range(100):
        bench.chosen(pod("a").requests(cpu=f"{i + 1}m"))
    return list(bench.decider._kept.values())


def test_what_is_kept_fits_the_memory_meant_for_it(monkeypatch: pytest.MonkeyPatch) -> None:
    kept = kept_of_a_hundred(monkeypatch, least=1)
    assert sum(each.bytes for each in kept) <= 110_000
    assert len(kept) > 5


def test_a_big_cluster_keeps_as_many_as_are_used_by_turns(monkeypatch: pytest.MonkeyPatch) -> None:
    assert len(kept_of_a_hundred(monkeypatch, least=60)) == 60
