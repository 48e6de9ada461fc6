"""DefaultPreemption: victims, candidate nodes, and the message if there are none."""

from __future__ import annotations

from collections.abc import Iterable
from contextlib import AbstractContextManager
from typing import Any

import numpy as np
import pytest
from msgspec.structs import replace
from numpy.typing import NDArray

from pyscheduler.api import (
    POD,
    Action,
    ClusterEvent,
    Code,
    Cycle,
    Diagnosis,
    DryRun,
    DryRuns,
    Mask,
    NodeToStatus,
    Pod,
    PotentialVictims,
    PreemptionSearch,
    Reprieve,
)
from pyscheduler.api.pod import LARGE
from pyscheduler.core.framework.handle import CoreHandle
from pyscheduler.core.scheduling.schedule_pod import schedule_pod
from pyscheduler.intree import DefaultPreemption
from pyscheduler.intree.preemption import potential_victims
from pyscheduler.intree.preemption.victims import by_importance
from pyscheduler.testing import Harness, PodBuilder, node, pod

from .cluster import build, pod_deleted, requeues
from .storage import KINDS, bound, spec, using, volume, within

(PDB,) = DefaultPreemption.watches
EARLY, LATE = "2026-01-01T00:00:00Z", "2026-01-02T00:00:00Z"
NO_VICTIMS = "No preemption victims found for incoming pod"
NOT_HELPFUL = "Preemption is not helpful for scheduling"


def low(name: str, on: str = "n1", priority: int = 0, started: str = EARLY, cpu: str = "1") -> PodBuilder:
    built = pod(name).on(on).priority(priority).requests(cpu=cpu).label("app", name.rstrip("0123456789"))
    return built.started(started) if started else built


def high(cpu: str = "1") -> PodBuilder:
    return pod("high").priority(100).requests(cpu=cpu)


def budget(name: str, allowed: Any, selector: Any, **status: Any) -> dict[str, Any]:
    spec = {} if selector is None else {"selector": selector}
    meta = {"name": name, "namespace": status.pop("namespace", "default")}
    return {"metadata": meta, "spec": spec, "status": {"disruptionsAllowed": allowed, **status}}


def search(*objects: Any, of: PodBuilder, budgets: tuple[dict[str, Any], ...] = ()) -> PreemptionSearch:
    """Run a preemption search for a pod; `objects` are nodes and placed pods."""
    harness = Harness()
    for each in budgets:
        harness.add_object(PDB, each)
    harness.add(*objects)
    context = harness.machine.context
    subject = of.build(context.shapes)
    cycle = Cycle(harness.now, subject.scheduler_name, subject.uid)
    diagnosis = schedule_pod(context.runtimes[subject.scheduler_name], cycle, subject)
    assert isinstance(diagnosis, Diagnosis)
    plugin = next(p for p in context.profiles[subject.scheduler_name].post_filter if isinstance(p, DefaultPreemption))
    return plugin.search(cycle, subject, diagnosis)


def victims(found: PreemptionSearch) -> list[str]:
    return [victim.name for victim in found.victims]


# -- victims on one node -----------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("placed", "cpu", "gone"),
    [
        pytest.param([low("a"), low("b", priority=5)], "1", ["a"], id="lowest priority"),
        pytest.param([low("a"), low("b", started=LATE)], "1", ["b"], id="latest start of equal priority"),
        pytest.param([low("a"), low("b")], "1", ["b"], id="last of equal pods"),
        pytest.param([low("a", started=""), low("b", started="")], "1", ["b"], id="not started: in their order"),
        pytest.param([low("a", started=""), low("b", started=LATE)], "1", ["a"], id="not started counts as latest"),
        pytest.param([low("a", started="soon"), low("b", started=LATE)], "1", ["a"], id="invalid start time"),
        pytest.param([low("a", priority=1), low("b", priority=2)], "2", ["b", "a"], id="victims by importance"),
        pytest.param([low("a", cpu="2"), low("b", cpu="0")], "1", ["a"], id="no unnecessary victim"),
        pytest.param([low("a", cpu="1"), low("b", priority=100)], "1", ["a"], id="no pod of same priority"),
    ],
)
def test_victims_are_fewest_and_least_important_pods(placed: list[PodBuilder], cpu: str, gone: list[str]) -> None:
    found = search(node("n1", cpu="2"), *placed, of=high(cpu))
    message = f"preemption: found a potential placement for pod on node n1, preempting {len(gone)} victims"
    assert (found.status, found.nominated_node, found.message) == (Code.SUCCESS, "n1", message)
    assert victims(found) == gone


ALL_A = {"matchLabels": {"app": "a"}}


@pytest.mark.parametrize(
    ("budgets", "gone", "violations"),
    [
        pytest.param([budget("x", 0, ALL_A)], "b", 0, id="no disruptions allowed"),
        pytest.param([budget("x", 1, ALL_A)], "a", 0, id="one disruption allowed"),
        pytest.param([budget("x", 1, ALL_A), budget("y", 0, ALL_A)], "b", 0, id="every budget counts"),
        pytest.param([budget("x", 0, ALL_A), budget("y", 1, ALL_A)], "b", 0, id="order of budgets does not matter"),
        pytest.param([budget("x", None, ALL_A)], "b", 0, id="missing status"),
        pytest.param([budget("x", 0, {})], "a", 0, id="empty selector covers no pod"),
        pytest.param([budget("x", 0, None)], "a", 0, id="missing selector covers no pod"),
        pytest.param(
            [budget("x", 0, {"matchExpressions": [{"key": "app", "operator": "Is"}]})], "a", 0, id="invalid operator"
        ),
        pytest.param([budget("x", 0, "app=a")], "a", 0, id="selector of wrong type"),
        pytest.param([{**budget("x", 0, ALL_A), "spec": ["?"]}], "a", 0, id="spec of wrong type"),
        pytest.param([budget("x", "many", ALL_A)], "a", 0, id="allowed disruptions of wrong type"),
        pytest.param([budget("x", 0, ALL_A, namespace="other")], "a", 0, id="another namespace"),
        pytest.param([budget("x", 0, ALL_A, disruptedPods={"a": EARLY})], "a", 0, id="already in disruptedPods"),
        pytest.param([budget("x", 0, {"matchExpressions": [{"key": "app", "operator": "Exists"}]})], "a", 1, id="both"),
    ],
)
def test_pods_without_pdb_violation_are_preferred_victims(
    budgets: list[dict[str, Any]], gone: str, violations: int
) -> None:
    placed = (low("a"), low("b", priority=5))
    found = search(node("n1", cpu="2"), *placed, of=high(), budgets=tuple(budgets))
    assert victims(found) == [gone]
    assert found.candidates["n1"].pdb_violations == violations


def test_victims_are_sorted_by_importance() -> None:
    placed = (low("a", priority=1), low("b", priority=5))
    assert victims(search(node("n1", cpu="2"), *placed, of=high("2"), budgets=(budget("x", 0, ALL_A),))) == ["b", "a"]


def test_pod_of_same_priority_is_never_a_victim() -> None:
    apart = {"labelSelector": {"matchLabels": {"app": "b"}}, "topologyKey": "kubernetes.io/hostname"}
    subject = high().spec(affinity={"podAntiAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": [apart]}})
    found = search(node("n1"), low("a"), low("b", priority=100), of=subject)
    assert not found.candidates
    assert "1 node(s) didn't match pod anti-affinity rules" in found.message


def test_reprieved_pods_use_up_disruption_budget() -> None:
    placed = (low("a1", priority=5), low("a2", priority=4), low("b", priority=6, cpu="0"))
    found = search(node("n1", cpu="2"), *placed, of=high(), budgets=(budget("x", 1, ALL_A),))
    assert victims(found) == ["a1"], "a1 is within the budget; a2 violates it and is reprieved first"
    assert found.candidates["n1"].pdb_violations == 0


# -- choice of the node -----------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("on_n1", "on_n2"),
    [
        pytest.param([("b", 90, EARLY)], [("a", 0, LATE)], id="fewest PDB violations"),
        pytest.param([("b", 1, EARLY), ("c", 1, EARLY)], [("d", 2, LATE)], id="lowest of the highest priorities"),
        pytest.param([("b", 2, EARLY), ("c", 0, EARLY)], [("d", 2, LATE), ("e", 1, LATE)], id="smallest sum"),
        pytest.param([("b", 2, EARLY)], [("c", 2, LATE), ("d", -(1 << 31), LATE)], id="fewest pods"),
        pytest.param([("b", 0, LATE)], [("c", 0, EARLY)], id="latest start"),
        pytest.param([("b", 0, "")], [("c", 0, LATE)], id="not started"),
    ],
)
def test_node_with_least_loss_is_nominated(
    on_n1: list[tuple[str, int, str]], on_n2: list[tuple[str, int, str]]
) -> None:
    placed = [
        low(name, on, priority, started, cpu=str(2 // len(pods)))
        for on, pods in (("n1", on_n1), ("n2", on_n2))
        for name, priority, started in pods
    ]
    found = search(node("n2", cpu="2"), node("n1", cpu="2"), *placed, of=high("2"), budgets=(budget("x", 0, ALL_A),))
    assert set(found.candidates) == {"n1", "n2"}
    assert (found.nominated_node, found.ties) == ("n1", ("n1",))


def test_equally_good_nodes_are_ties() -> None:
    nodes = [node(f"n{i}", cpu="1") for i in range(5)]
    found = search(*nodes, *(low(f"a{i}", f"n{i}") for i in range(5)), of=high())
    assert sorted(found.ties) == [f"n{i}" for i in range(5)]
    assert found.nominated_node == found.ties[0]


# -- no candidates -----------------------------------------------------------------------------------------------------


def test_message_counts_nodes_by_reason() -> None:
    nodes = (node("n1", cpu="2"), node("n2", cpu="1"), node("n3", cpu="2"), node("n4", cpu="3"))
    placed = (low("a", "n1", 100, cpu="1"), low("b", "n3", 100, cpu="1"), low("c", "n3"), low("d", "n4", 100, cpu="2"))
    found = search(*nodes, *placed, of=high("2"))
    assert (found.status, found.nominated_node) == (Code.UNSCHEDULABLE, "")
    assert found.message == (
        f"preemption: 0/4 nodes are available: 1 Insufficient cpu, 1 {NOT_HELPFUL}, 2 {NO_VICTIMS}."
    )


def test_nominated_pods_are_counted_in_rejections() -> None:
    promised = pod("promised").priority(200).nominated("n1")
    placed = (low("a", priority=300, cpu="3"), low("b"))
    found = search(node("n1", cpu="4", pods="2"), *placed, promised, of=high("2"))
    assert found.message == "preemption: 0/1 nodes are available: 1 Insufficient cpu, 1 Too many pods."


def test_removing_one_pod_frees_shared_host_port() -> None:
    """Two pods cannot really share a port; kube-scheduler's NodeInfo drops it with the first pod."""
    placed = (low("a", cpu="0").host_port(80), low("b", priority=200, cpu="0").host_port(80))
    found = search(node("n1"), *placed, of=high().host_port(80))
    assert victims(found) == ["a"]


# -- eligibility -------------------------------------------------------------------------------------------------------


def ending(reason: str = "PreemptionByScheduler", priority: int = 0) -> PodBuilder:
    return low("a", priority=priority).deleting().condition(type="DisruptionTarget", status="True", reason=reason)


@pytest.mark.parametrize(
    ("subject", "placed", "message"),
    [
        (high().spec(preemptionPolicy="Never"), low("a"), "not eligible due to preemptionPolicy=Never."),
        (high().nominated("n1"), ending(), "not eligible due to a terminating pod on the nominated node."),
        (high().nominated("n1"), low("a"), ""),
        (high().nominated("n1"), ending("EvictionByEvictionAPI"), ""),
        (high().nominated("gone"), ending(), ""),
        (high(), ending(), ""),
    ],
)
def test_preemption_eligibility(subject: PodBuilder, placed: PodBuilder, message: str) -> None:
    found = search(node("n1", cpu="1"), placed, of=subject)
    placement = "found a potential placement for pod on node n1, preempting 1 victims"
    assert found.message == f"preemption: {message or placement}"
    assert found.nominated_node == (None if message else "n1"), "a pod that is not eligible keeps its nomination"


def test_unresolvable_nominated_node_is_replaced() -> None:
    nodes = node("n1", cpu="1").unschedulable(), node("n2", cpu="1")
    found = search(*nodes, ending(), low("b", "n2"), of=high().nominated("n1"))
    assert found.nominated_node == "n2"


# -- args and events ------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("percentage", "absolute", "nodes", "enough"),
    [(10, 100, 50, 50), (10, 100, 900, 100), (10, 100, 5000, 500), (10, 1, 25, 2), (100, 0, 7, 7), (0, 3, 9, 3)],
)
def test_number_of_candidates(percentage: int, absolute: int, nodes: int, enough: int) -> None:
    assert DefaultPreemption.Args(percentage, absolute).num_candidates(nodes) == enough


class CountingDryRuns(DryRuns):
    """Dry runs that record the nodes on which they run, one by one or in a batch."""

    def __init__(self, handle: CoreHandle, at_once: bool) -> None:
        self._handle, self._dry_runs = handle, handle.dry_runs
        self._at_once = at_once
        self.tried: list[str] = []

    def open(self, cycle: Cycle, pod: Pod, node_name: str) -> AbstractContextManager[DryRun]:
        self.tried.append(node_name)
        return self._dry_runs.open(cycle, pod, node_name)

    def filter_without_lower_priority(
        self, cycle: Cycle, pod: Pod, rows: NDArray[np.intp]
    ) -> tuple[NodeToStatus, Mask]:
        return self._dry_runs.filter_without_lower_priority(cycle, pod, rows)

    def reprieve_pods(self, cycle: Cycle, pod: Pod, victims: PotentialVictims) -> Reprieve:
        result = self._dry_runs.reprieve_pods(cycle, pod, victims)
        if not self._at_once:
            return Reprieve(result.stays, np.ones_like(result.needs_dry_run))
        names = [node.name for node in self._handle.nodes.table()]
        self.tried += [names[row] for row in victims.rows]
        return result


@pytest.mark.parametrize(
    ("guarded", "tried"),
    [
        pytest.param(frozenset(), 9, id="as many as configured"),
        pytest.param(frozenset(range(20)), 20, id="all if each violates a PDB"),
        pytest.param(frozenset({0}), 9, id="a candidate with violation counts"),
    ],
)
@pytest.mark.parametrize("at_once", [False, True])
def test_dry_run_stops_at_enough_candidates(guarded: frozenset[int], tried: int, at_once: bool) -> None:
    harness = Harness()
    harness.add_object(PDB, budget("x", 0, ALL_A))
    harness.add(*(node(f"n{i}", cpu="1") for i in range(20)))
    harness.add(*(low(f"{'a' if i in guarded else 'b'}{i}", f"n{i}") for i in range(20)))
    context = harness.machine.context
    seen: set[frozenset[str]] = set()
    for attempt in range(1, 9):
        subject, dry_runs = high().build(context.shapes), CountingDryRuns(harness.handle, at_once)
        cycle = Cycle(harness.now, "default-scheduler", "high", attempt)
        diagnosis = schedule_pod(context.runtimes["default-scheduler"], cycle, subject)
        assert isinstance(diagnosis, Diagnosis)
        plugin: Any = DefaultPreemption(DefaultPreemption.Args(0, 9), replace(harness.handle, dry_runs=dry_runs))
        result = plugin.post_filter(cycle, subject, diagnosis)
        assert result.node_name in dry_runs.tried
        assert len(dry_runs.tried) == tried
        seen.add(frozenset(dry_runs.tried[:9]))
    assert len(seen) > 3, "it starts somewhere else each time"


def test_search_in_several_batches_covers_each_node_once() -> None:
    harness = Harness()
    harness.add_object(PDB, budget("x", 0, ALL_A))
    harness.add(*(node(f"n{i}", cpu="1") for i in range(70)), *(low(f"a{i}", f"n{i}") for i in range(70)))
    subject, dry_runs = high().build(harness.machine.context.shapes), CountingDryRuns(harness.handle, at_once=True)
    cycle = Cycle(harness.now, "default-scheduler", "high")
    diagnosis = schedule_pod(harness.machine.context.runtimes["default-scheduler"], cycle, subject)
    assert isinstance(diagnosis, Diagnosis)
    plugin: Any = DefaultPreemption(DefaultPreemption.Args(0, 9), replace(harness.handle, dry_runs=dry_runs))
    plugin.post_filter(cycle, subject, diagnosis)
    assert sorted(dry_runs.tried) == sorted(f"n{i}" for i in range(70)), "each violates the budget, so none is enough"


def test_no_node_helps_if_all_are_unresolvable() -> None:
    found = search(node("n1", cpu="1").unschedulable(), node("n2", cpu="1").unschedulable(), low("a"), of=high())
    assert (found.candidates, found.message) == ({}, f"preemption: 0/2 nodes are available: 2 {NOT_HELPFUL}.")


@pytest.mark.parametrize(
    ("percentage", "absolute", "problem"),
    [
        (101, 100, "minCandidateNodesPercentage: Invalid value: 101: not in valid range [0, 100]"),
        (-1, 100, "minCandidateNodesPercentage: Invalid value: -1: not in valid range [0, 100]"),
        (10, -1, "minCandidateNodesAbsolute: Invalid value: -1: not in valid range [0, inf)"),
        (
            0,
            0,
            "[minCandidateNodesPercentage: Invalid value: 0: cannot be zero at the same time as "
            "minCandidateNodesAbsolute, minCandidateNodesAbsolute: Invalid value: 0: cannot be zero at the same time "
            "as minCandidateNodesPercentage]",
        ),
    ],
)
def test_invalid_args_are_rejected(percentage: int, absolute: int, problem: str) -> None:
    with pytest.raises(ValueError, match=r".") as caught:
        DefaultPreemption.Args(percentage, absolute)
    assert str(caught.value) == problem


def test_pre_enqueue_reruns_on_deletion_without_requeueing() -> None:
    plugin = build(DefaultPreemption)
    assert not requeues(plugin, high(), pod_deleted(low("a")))
    assert [(i.resource, i.actions) for i in plugin.events_to_register()] == [(POD, Action.DELETE)]
    assert plugin.events_to_register()[0].covers(ClusterEvent("AssignedPod", Action.DELETE))
    assert plugin.pre_enqueue(high().build()) is None


# -- repeated searches -------------------------------------------------------------------------------------------------


class RepeatedSearch:
    """Searches for victims repeatedly with one plugin, as a scheduler does."""

    def __init__(self, *objects: Any, budgets: tuple[dict[str, Any], ...] = ()) -> None:
        self.harness = Harness()
        for each in budgets:
            self.harness.add_object(PDB, each)
        self.harness.add(*objects)
        self.plugin = DefaultPreemption(DefaultPreemption.Args(), self.harness.handle)
        self._preemptors: list[Pod] = []

    def victims(self, of: PodBuilder) -> list[str]:
        context = self.harness.machine.context
        subject = of.build(context.shapes)
        self._preemptors.append(subject)  # a signature is cached while there is a pod of it
        cycle = Cycle(self.harness.now, subject.scheduler_name, subject.uid)
        diagnosis = schedule_pod(context.runtimes[subject.scheduler_name], cycle, subject)
        assert isinstance(diagnosis, Diagnosis)
        return victims(self.plugin.search(cycle, subject, diagnosis))


def test_dry_run_is_repeated_after_new_nomination() -> None:
    searches = RepeatedSearch(node("n1", cpu="3"), low("a"), low("b", started=LATE), low("c", priority=1))
    assert searches.victims(high()) == ["b"]
    searches.harness.add(pod("rival").priority(100).requests(cpu="1").nominated("n1"))
    assert searches.victims(high()) == ["a", "b"]


def test_changed_budget_changes_the_victims() -> None:
    searches = RepeatedSearch(node("n1", cpu="2"), low("a"), low("b", priority=5), budgets=(budget("x", 0, ALL_A),))
    assert searches.victims(high()) == ["b"]
    searches.harness.add_object(PDB, budget("x", 1, ALL_A))
    assert searches.victims(high()) == ["a"]


def test_dry_run_is_repeated_for_recreated_node() -> None:
    searches = RepeatedSearch(node("n1", cpu="2"), low("a"), low("b", priority=5))
    assert searches.victims(high()) == ["a"]
    for name in ("a", "b"):
        searches.harness.delete_pod(name)
    searches.harness.delete_node("n1")
    searches.harness.add(node("n1", cpu="1"), low("c", cpu="500m"), low("d", cpu="500m", started=LATE))
    assert searches.victims(high()) == ["c", "d"]


def test_victims_depend_on_the_request() -> None:
    searches = RepeatedSearch(node("n1", cpu="2"), low("a"), low("b", priority=5))
    assert searches.victims(high("1")) == ["a"]
    assert searches.victims(high("2")) == ["b", "a"]


def test_victims_depend_on_the_priority() -> None:
    searches = RepeatedSearch(node("n1", cpu="2"), low("a"), low("b", priority=5))
    assert searches.victims(high("2")) == ["b", "a"]
    assert searches.victims(high("1").priority(1)) == ["a"]


def test_pod_that_starts_later_is_preferred() -> None:
    nodes = node("n1", cpu="1"), node("n2", cpu="1")
    searches = RepeatedSearch(*nodes, low("a"), low("b", "n2", started=LATE))
    assert searches.victims(high()) == ["b"]
    searches.harness.add(low("b", "n2", started=EARLY), low("a", started=LATE))
    assert searches.victims(high()) == ["a"]


@pytest.fixture
def sorted_nodes(monkeypatch: pytest.MonkeyPatch) -> list[set[str]]:
    """Names of the pods of each node whose pods are sorted."""
    nodes: list[set[str]] = []

    def recorded(pods: Iterable[Pod]) -> list[Pod]:
        result = by_importance(pods)
        nodes.append({pod.name for pod in result})
        return result

    monkeypatch.setattr(potential_victims, "by_importance", recorded)
    return nodes


def test_only_pods_of_changed_nodes_are_sorted_again(sorted_nodes: list[set[str]]) -> None:
    searches = RepeatedSearch(*(node(f"n{i}", cpu="1") for i in range(3)), *(low(f"a{i}", f"n{i}") for i in range(3)))
    searches.victims(high())
    assert sorted(sorted_nodes, key=min) == [{"a0"}, {"a1"}, {"a2"}]
    searches.harness.add(low("a1", "n1", priority=1))
    searches.victims(high())
    assert sorted_nodes[3:] == [{"a1"}]


def test_columns_of_potential_victims_do_not_grow_without_bound() -> None:
    searches = RepeatedSearch(node("n1", cpu="1"), low("a"))
    table = searches.harness.handle.nodes.table()
    cache = searches.plugin._potential_victims
    first = cache.of(100, 1)
    for _ in range(potential_victims._SPARE):
        first.refresh(table, [0])
    assert cache.of(100, 1) is first
    for _ in range(3):
        first.refresh(table, [0])
    assert cache.of(100, 1) is not first
    assert searches.victims(high()) == ["a"]


IN_A_ZONE = {"nodeAffinity": within("z1")}


def test_preemptors_that_differ_in_their_claims() -> None:
    searches = RepeatedSearch(node("n1", cpu="1"), low("a"))
    volumes = {"here": volume("here"), "there": volume("there"), "in-a-zone": spec(volume("in-a-zone"), **IN_A_ZONE)}
    for name, made in volumes.items():
        for each in (bound(name, name), made):
            searches.harness.add_object(KINDS[each["kind"]], each)
    found = [
        searches.victims(using(claim, name=f"with-{claim}").priority(100).requests(cpu="1"))
        for claim in ("here", "there", "in-a-zone")
    ]
    assert found == [["a"], ["a"], []]


def test_columns_with_large_pods_are_dropped() -> None:
    searches = RepeatedSearch(node("n1", cpu="1"), low("a").label("x", "y" * (LARGE + 1)))
    assert searches.victims(high()) == ["a"]
    assert not searches.plugin._potential_victims._columns
