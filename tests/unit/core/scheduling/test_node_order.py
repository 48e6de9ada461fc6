"""Kube-scheduler's search order: the sample of feasible nodes, the start of the next search, and tie-breaking."""

from __future__ import annotations

import random
from collections.abc import Sequence

import numpy as np
import pytest

from pyscheduler.api import Cycle, FilterPlugin, NodeInfo, NodeNames, Pod, PreFilterPlugin, Reads, Rejection
from pyscheduler.api.diagnosis import Diagnosis
from pyscheduler.core.framework.handle import empty_handle
from pyscheduler.core.framework.profile import Profile, Weighted
from pyscheduler.core.instrument import Instrument
from pyscheduler.core.queue.nominator import Nominator
from pyscheduler.core.scheduling.node_order import (
    KubeSchedulerOrder,
    NextStartNode,
    num_feasible_nodes_to_find,
    top_of_heap,
)
from pyscheduler.core.scheduling.profile_runtime import ProfileRuntime
from pyscheduler.core.scheduling.schedule_pod import ScheduleResult, schedule_pod
from pyscheduler.core.state import ClusterState
from pyscheduler.intree import PrioritySort
from pyscheduler.testing import NodeBuilder, PodBuilder, node, pod
from tests.unit.core.scheduling.test_schedule_pod import Ranked

HANDLE = empty_handle()
ZONE = "topology.kubernetes.io/zone"


# -- sample size ---------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("nodes", "percentage", "enough"),
    [
        pytest.param(99, 5, 99, id="small clusters are searched completely"),
        pytest.param(100, 5, 100, id="never below 100"),
        pytest.param(1000, 5, 100, id="5 % would be 50"),
        pytest.param(1000, 30, 300, id="percentage"),
        pytest.param(1000, 100, 1000, id="all"),
        pytest.param(1000, 0, 420, id="adaptive: 50 - 1000/125 = 42 %"),
        pytest.param(5000, 0, 500, id="adaptive: 10 %"),
        pytest.param(5999, 0, 299, id="adaptive: down to 5 %, rounded down"),
        pytest.param(150, 0, 100, id="adaptive: 49 % would be 73"),
    ],
)
def test_number_of_nodes_to_find(nodes: int, percentage: int, enough: int) -> None:
    assert num_feasible_nodes_to_find(nodes, percentage) == enough


# -- ties ----------------------------------------------------------------------------------------------------------


def heap_top(totals: Sequence[int]) -> int:
    """Transcription of Go's heap.Init with nodeScoreHeap.Less; return the index at the top."""
    heap = list(enumerate(totals))
    n = len(heap)
    for start in range(n // 2 - 1, -1, -1):
        i = start
        while (left := 2 * i + 1) < n:
            j = left
            if left + 1 < n and heap[left + 1][1] > heap[left][1]:
                j = left + 1
            if heap[j][1] <= heap[i][1]:
                break
            heap[i], heap[j] = heap[j], heap[i]
            i = j
    return heap[0][0]


@pytest.mark.parametrize(
    ("totals", "index"),
    [
        pytest.param([7], 0, id="single node"),
        pytest.param([7, 7, 7, 7], 0, id="all equal: first"),
        pytest.param([1, 7, 7], 1, id="left before right"),
        pytest.param([1, 2, 7, 7], 3, id="the left subtree's leaf before the right child"),
        pytest.param([1, 7, 2, 7, 7], 1, id="a parent before its children"),
        pytest.param([1, 2, 3, 4, 9, 9, 9], 4, id="left subtree, but not its leftmost leaf"),
    ],
)
def test_top_of_heap(totals: list[int], index: int) -> None:
    assert heap_top(totals) == index
    assert top_of_heap(np.array(totals, np.int64)) == index


def test_top_of_heap_equals_go_for_random_totals() -> None:
    rng = random.Random(36)
    for _ in range(3000):
        totals = [rng.randrange(4) for _ in range(rng.randrange(1, 70))]
        assert top_of_heap(np.array(totals, np.int64)) == heap_top(totals), totals


# -- search order --------------------------------------------------------------------------------------------------


class Search:
    """A search over nodes n0, n1 … with the given start and percentage."""

    def __init__(self, nodes: int, percentage: int = 5, scored: bool = True, start: int = 0) -> None:
        self.state = ClusterState()
        for i in range(nodes):
            self.state.set_node(node(f"n{i}").build())
        self.start = NextStartNode(start)
        self.order = KubeSchedulerOrder(self.state, self.start, percentage, scored)

    def feasible_rows(
        self, fits: Sequence[int], evaluated: Sequence[int] | None = None, nominated: int | None = None
    ) -> list[int]:
        mask = np.zeros(len(self.state), np.bool_)
        mask[list(fits)] = True
        rows = None if evaluated is None else np.array(evaluated, np.intp)
        return [int(row) for row in self.order.find_feasible_rows(mask, rows, nominated)]


def test_search_stops_after_enough_nodes_and_next_one_continues() -> None:
    search = Search(250)
    assert search.feasible_rows(range(250)) == list(range(100))
    assert search.start.index == 100
    assert search.feasible_rows(range(250)) == list(range(100, 200))
    assert search.feasible_rows(range(250)) == [*range(200, 250), *range(50)]
    assert search.start.index == 50


def test_infeasible_nodes_before_the_stop_count_as_processed() -> None:
    """The odd ones of 250 nodes fit: n201 is the 101st feasible one, after 100 feasible and 101 infeasible nodes."""
    search = Search(250)
    assert search.feasible_rows(range(1, 250, 2)) == list(range(1, 200, 2))
    assert search.start.index == 201


def test_start_is_unchanged_after_a_full_round() -> None:
    search = Search(250, start=30)
    assert search.feasible_rows([10, 40, 20]) == [40, 10, 20]
    assert search.start.index == 30


def test_small_cluster_is_searched_from_the_same_start() -> None:
    search = Search(5, start=3)
    assert search.feasible_rows(range(5)) == [3, 4, 0, 1, 2]
    assert search.start.index == 3


def test_search_stops_at_first_feasible_node_without_scoring() -> None:
    search = Search(5, scored=False)
    assert [search.feasible_rows([1, 2, 4]) for _ in range(4)] == [[1], [2], [4], [1]]


def test_start_moves_modulo_all_nodes_with_named_nodes() -> None:
    search = Search(10, start=7)
    assert search.feasible_rows([2, 5], evaluated=[2, 3, 5]) == [
        5,
        2,
    ]  # 7 mod 3 = 1: the search starts at the second of them
    assert search.start.index == 0


def test_rejected_nominated_node_counts_as_processed() -> None:
    search = Search(250)
    search.feasible_rows([i for i in range(250) if i != 240], nominated=240)
    assert search.start.index == 101
    search.feasible_rows([i for i in range(250) if i != 110], nominated=110)
    assert search.start.index == 202


def test_start_wraps_after_nodes_were_deleted() -> None:
    search = Search(10, start=8)
    for i in range(5, 10):
        search.state.remove_node(f"n{i}")
    assert search.feasible_rows(range(5)) == [3, 4, 0, 1, 2]


# -- whole attempts ------------------------------------------------------------------------------------------------


class OnlyLabel(PreFilterPlugin):
    """Restrict the search to the nodes named by the pod's `only` label."""

    name = "OnlyLabel"

    def pre_filter(self, cycle: Cycle, pod: Pod, nodes: object) -> NodeNames | Rejection | None:
        only = pod.labels.get("only")
        if only == "":
            return Rejection("no node allowed")
        return NodeNames(frozenset(only.split("."))) if only else None


class NotFull(FilterPlugin):
    """Reject nodes with a `full` label."""

    name = "NotFull"
    reads = Reads.OWN_NODE

    def filter(self, cycle: Cycle, pod: Pod, node: NodeInfo) -> Rejection | None:
        return Rejection("full") if "full" in node.labels else None


class Bench:
    """The runtime of a profile with kube-scheduler's search order."""

    def __init__(self, *nodes: NodeBuilder, percentage: int = 0) -> None:
        self.state, self.nominator, self.start = ClusterState(), Nominator(), NextStartNode()
        for built in nodes:
            self.state.set_node(built.build())
        self.profile = Profile(
            "default-scheduler",
            PrioritySort(PrioritySort.Args(), HANDLE),
            pre_filter=(OnlyLabel(None, HANDLE),),
            filter=(NotFull(None, HANDLE),),
            score=(Weighted(Ranked(None, HANDLE), 1),),
            percentage_of_nodes_to_score=percentage,
        )
        self.runtime = ProfileRuntime.of(self.profile, self.state, self.nominator, Instrument(), self.start)

    def selected_node(self, built: PodBuilder, runtime: ProfileRuntime | None = None) -> str:
        built_pod = built.build()
        result = schedule_pod(runtime or self.runtime, Cycle(0.0, "default-scheduler", built_pod.uid), built_pod)
        return result.node.name if isinstance(result, ScheduleResult) else ""


def rank(i: int, best: int, n: int) -> str:
    return str(n if i == best else i % 7)


def test_best_node_outside_the_sample_is_not_selected() -> None:
    bench = Bench(*(node(f"n{i}").label("rank", rank(i, 120, 1000)) for i in range(150)))
    first = [i % 7 for i in range(100)]
    assert bench.selected_node(pod("a")) == f"n{heap_top(first)}"
    assert bench.start.index == 100
    assert bench.selected_node(pod("b")) == "n120"


def test_scores_are_normalized_over_the_sample() -> None:
    """Ranks are scaled to the best of the sample: compared with 1000, ranks 8 and 9 both become 0 and tie."""
    nodes = [node(f"n{i}").label("rank", {3: "8", 4: "9", 120: "1000"}.get(i, "0")) for i in range(150)]
    assert Bench(*nodes).selected_node(pod("a")) == "n4"
    assert Bench(*nodes, percentage=100).selected_node(pod("a")) == "n120"


def test_equal_nodes_alternate_because_searches_continue() -> None:
    bench = Bench(*(node(f"n{i}") for i in range(250)))
    assert [bench.selected_node(pod(f"p{i}")) for i in range(3)] == ["n0", "n120", "n240"]  # 48 % of 250


def test_profiles_share_the_start_index() -> None:
    bench = Bench(*(node(f"n{i}") for i in range(250)))
    other = ProfileRuntime.of(bench.profile, bench.state, bench.nominator, Instrument(), bench.start)
    assert [bench.selected_node(pod("a")), bench.selected_node(pod("b"), other)] == ["n0", "n120"]


@pytest.mark.parametrize(
    ("built", "chosen"),
    [
        pytest.param(pod("a").nominated("n9"), "n9", id="nominated node selected"),
        pytest.param(pod("a").label("only", ""), "", id="PreFilter rejected the pod"),
    ],
)
def test_start_is_unchanged_without_a_search(built: PodBuilder, chosen: str) -> None:
    bench = Bench(*(node(f"n{i}") for i in range(250)))
    assert (bench.selected_node(built), bench.start.index) == (chosen, 0)


def test_start_moves_if_no_node_fits() -> None:
    bench = Bench(*(node(f"n{i}").label("full") for i in range(250)))
    bench.start.index = 249
    built_pod = pod("a").label("only", "n1.n2").build()
    result = schedule_pod(bench.runtime, Cycle(0.0, "default-scheduler", built_pod.uid), built_pod)
    assert isinstance(result, Diagnosis)
    assert bench.start.index == 1


def test_nodes_are_searched_zone_by_zone() -> None:
    bench = Bench(*(node(f"n{i}").label(ZONE, "ab"[i // 2]) for i in range(4)))
    assert bench.state.order.names() == ["n0", "n2", "n1", "n3"]
    bench.start.index = 1
    assert bench.selected_node(pod("a")) == "n2"
