"""Abuses with many pods by a tenant with the right to create pods: pods of other tenants are scheduled all the same."""

from __future__ import annotations

import tracemalloc
from collections.abc import Iterable
from typing import Any

import pytest

from pyscheduler.api import Status
from pyscheduler.config.gates import parse
from pyscheduler.config.load import default, loads
from pyscheduler.core.commands import Evict
from pyscheduler.core.evaluation.uncached_evaluation import filter_with_nominated_pods
from pyscheduler.core.queue.inflight import MOST_EVENTS
from pyscheduler.core.scheduling import filtered_nodes
from pyscheduler.intree.gang_scheduling import POD_GROUPS
from pyscheduler.intree.preemption.budgets import PDB
from pyscheduler.testing import Harness, NodeBuilder, PodBuilder, node, pod
from pyscheduler_plugins.pod_group import POD_GROUP as OUR_POD_GROUP
from pyscheduler_plugins.pod_group import POD_GROUP_LABEL
from tests.hostile.pod_fixture import HostilePodFixture, cpu, plain
from tests.unit.config.files import config

GANGS = default(parse(["GenericWorkload=true"]))
OUR_GANGS = """
apiVersion: kubescheduler.config.k8s.io/v1
kind: KubeSchedulerConfiguration
profiles:
- schedulerName: default-scheduler
  plugins: {multiPoint: {enabled: [{name: Gang}]}}
"""
HIGH = 10**9
MANY = 1_000


def unschedulable(name: str) -> PodBuilder:
    """Return a pod that fits no node."""
    return pod(name).requests(cpu="1000")


def cluster(*nodes: NodeBuilder, pods: Iterable[PodBuilder] = ()) -> Harness:
    made = Harness()
    made.add(*(nodes or (node("n1", pods="1000"),)))
    made.add(*pods)
    return made


def attempts(of: Harness) -> int:
    return of.machine.context.attempts


def attempts_until_bound(of: Harness, name: str, most: int = 10_000) -> int:
    """Return the number of attempts until the pod is bound."""
    before = attempts(of)
    for _ in range(most):
        if name in of.assignments:
            return attempts(of) - before
        commands = of.machine.cycle(of.now)
        assert commands is not None, f"{name} is not tried"
        of._execute(commands)
    raise AssertionError(f"{name} is not bound after {most} attempts")


# -- many pods -----------------------------------------------------------------------------------------------------


def test_unschedulable_pods_are_tried_once_and_then_wait() -> None:
    harness = cluster(pods=(unschedulable(f"h{i}") for i in range(MANY)))
    harness.run()
    assert attempts(harness) == MANY
    harness.advance(60)
    assert attempts(harness) == MANY, "no event has happened that could help them"
    harness.add(pod("neighbour"))
    assert attempts_until_bound(harness, "neighbour") == 1


def test_unschedulable_pods_of_highest_priority_are_tried_once() -> None:
    harness = cluster(pods=(unschedulable(f"h{i}").priority(HIGH) for i in range(MANY)))
    harness.add(pod("neighbour"))
    assert attempts_until_bound(harness, "neighbour") == MANY + 1
    harness.add(pod("another"))
    assert attempts_until_bound(harness, "another") == 1


def test_unschedulable_pods_are_tried_once_per_requeueing_event() -> None:
    harness = cluster(pods=(unschedulable(f"h{i}").priority(HIGH) for i in range(100)))
    harness.run()
    for second in range(60):
        # A pod that runs and ends frees resources, which requeues every pod that needs some.
        harness.add(pod(f"bait-{second}"), pod(f"neighbour-{second}"))
        harness.run()
        assert f"neighbour-{second}" in harness.assignments
        harness.delete_pod(f"bait-{second}")
        while (commands := harness.machine.cycle(harness.now)) is not None:
            harness._execute(commands)
        harness.now += 1.0
    # While the queue is empty otherwise, pods are popped before their backoff ends.
    assert attempts(harness) <= 100 * 61 + 2 * 60


def test_updates_in_a_loop_do_not_requeue_unschedulable_pod() -> None:
    harness = cluster(pods=[unschedulable("h")])
    harness.run()
    for i in range(MANY):
        harness.add(unschedulable("h").label("turn", str(i)).annotation("turn", str(i)))
        harness.run()
    assert attempts(harness) == 1


def test_updates_in_a_loop_do_not_requeue_gated_pod() -> None:
    harness = cluster(pods=[pod("gated").gate("mine")])
    for i in range(MANY):
        harness.add(pod("gated").gate("mine").label("turn", str(i)))
        harness.run()
    assert attempts(harness) == 0


def test_pods_created_and_deleted_in_a_loop_leave_queue_empty() -> None:
    harness = cluster()
    for i in range(MANY):
        harness.add(unschedulable(f"h{i}"))
        harness.run()
        harness.delete_pod(f"h{i}")
    queue = harness.machine.context.queue
    assert (len(queue), queue.in_flight_count, len(queue.nominator)) == (0, 0, 0)


# -- priority and nominations --------------------------------------------------------------------------------------


def test_pods_with_preemption_policy_never_evict_no_pod() -> None:
    harness = cluster(node("n1", cpu="1"), pods=[pod("neighbour").requests(cpu="1").on("n1")])
    harness.add(*(pod(f"p{i}").requests(cpu="1").priority(HIGH).spec(preemptionPolicy="Never") for i in range(50)))
    harness.run()
    assert harness.evicted() == []


def test_high_priority_pods_evict_no_more_than_needed() -> None:
    neighbours = [pod(f"neighbour-{i}").requests(cpu="1").on("n1") for i in range(10)]
    harness = cluster(node("n1", cpu="10"), node("n2", cpu="2"), pods=neighbours)
    harness.add(*(pod(f"p{i}").requests(cpu="1").priority(HIGH) for i in range(5)))
    harness.run()
    harness.advance(60)
    assert len(harness.evicted()) == 3
    assert sum(name.startswith("p") for name in harness.assignments) == 5


def test_victims_are_not_evicted_again_by_further_preemptors() -> None:
    neighbours = [pod(f"neighbour-{i}").requests(cpu="1").on("n1") for i in range(4)]
    harness = cluster(node("n1", cpu="4"), pods=neighbours)
    harness.graceful = True
    harness.add(*(pod(f"p{i}").requests(cpu="4").priority(HIGH + i) for i in range(200)))
    harness.run()
    harness.advance(30)
    evicted = [c.victim.uid for c in harness.commands if isinstance(c, Evict)]
    assert sorted(evicted) == sorted(set(evicted)), "each is evicted once"


def test_thousands_of_budgets_for_each_pod_take_no_memory_for_each(traced: None) -> None:
    harness = cluster(*(node(f"n{i}", cpu="10") for i in range(20)))
    harness.add(*(pod(f"victim-{i}").requests(cpu="1").label("app", "web").on(f"n{i % 20}") for i in range(200)))
    for i in range(1_000):
        budget = {"metadata": {"namespace": "default", "name": f"b{i}"}, "status": {"disruptionsAllowed": i % 2}}
        harness.add_object(PDB, {**budget, "spec": {"selector": {"matchLabels": {"app": "web"}}}})
    harness.add(pod("first").requests(cpu="10").priority(HIGH))
    harness.run()
    tracemalloc.reset_peak()
    before, _ = tracemalloc.get_traced_memory()
    harness.add(pod("second").requests(cpu="10").priority(HIGH))
    harness.run()
    harness.advance(10)
    assert {"first", "second"} <= set(harness.assignments)
    assert tracemalloc.get_traced_memory()[1] - before < 4 << 20


def test_self_made_nominations_block_no_higher_priority_and_no_other_node() -> None:
    harness = cluster(node("n1", cpu="4"), node("n2", cpu="4"))
    harness.add(*(unschedulable(f"h{i}").nominated("n1") for i in range(200)))
    harness.run()
    harness.add(pod("higher").requests(cpu="4").priority(1), pod("equal").requests(cpu="4"))
    harness.run()
    assert sorted(harness.assignments) == ["equal", "higher"]


def test_nominations_are_removed_with_their_pods() -> None:
    harness = cluster(pods=(unschedulable(f"h{i}").nominated(f"nowhere-{i}") for i in range(200)))
    harness.run()
    for i in range(200):
        harness.delete_pod(f"h{i}")
    assert not list(harness.machine.context.queue.nominator.nodes())


@pytest.mark.parametrize("kind", ["plain", "spread"])
def test_nodes_with_nominated_pods_are_not_filtered_one_by_one(kind: str, monkeypatch: pytest.MonkeyPatch) -> None:
    harness = cluster(*(node(f"n{i}", cpu="4") for i in range(50)))
    harness.graceful = True
    harness.add(*(pod(f"victim-{i}").requests(cpu="3").priority(-1).on(f"n{i}") for i in range(40)))
    harness.add(*(pod(f"p{i}").requests(cpu="3").priority(HIGH).node_selector(only=f"n{i}") for i in range(40)))
    for i in range(40):
        harness.add(node(f"n{i}", cpu="4").label("only", f"n{i}"))
    harness.run()
    assert len(harness.machine.context.queue.nominator) == 40
    one_by_one = []

    def record(*given: Any) -> Status | None:
        one_by_one.append(given)
        return filter_with_nominated_pods(*given)

    monkeypatch.setattr(filtered_nodes, "filter_with_nominated_pods", record)
    for i in range(5):
        other = pod(f"neighbour-{i}").requests(cpu="1").label("own", str(i))
        spread = {"maxSkew": 9, "topologyKey": "kubernetes.io/hostname", "whenUnsatisfiable": "DoNotSchedule"}
        constraints = [{**spread, "labelSelector": {"matchLabels": {"own": str(i)}}}]
        harness.add(other if kind == "plain" else other.spec(topologySpreadConstraints=constraints))
        harness.run()
        assert int(harness.assignments[f"neighbour-{i}"][1:]) >= 40, "the others are held for nominated pods"
    assert not one_by_one


# -- gangs ---------------------------------------------------------------------------------------------------------


def test_gangs_that_can_never_be_complete_reserve_nothing() -> None:
    harness = Harness(GANGS)
    harness.add(node("n1", pods="1000"))
    for i in range(300):
        spec = {"schedulingPolicy": {"gang": {"minCount": 10**9}}}
        harness.add_object(POD_GROUPS[0], {"metadata": {"namespace": "default", "name": f"g{i}"}, "spec": spec})
        harness.add(pod(f"m{i}").requests(cpu="100m").spec(schedulingGroup={"podGroupName": f"g{i}"}))
    harness.run()
    assert not list(harness.handle.waiting_pods)
    harness.add(pod("neighbour").requests(cpu="4"))
    harness.run()
    assert harness.assignments == {"neighbour": "n1"}


def test_gang_plugin_reserves_nothing_for_gangs_that_can_never_be_complete() -> None:
    harness = Harness(OUR_GANGS)
    harness.add(node("n1", pods="1000"))
    for i in range(300):
        harness.add_object(
            OUR_POD_GROUP, {"metadata": {"namespace": "default", "name": f"g{i}"}, "spec": {"minMember": 10**9}}
        )
        harness.add(pod(f"m{i}").requests(cpu="100m").label(POD_GROUP_LABEL, f"g{i}"))
    harness.run()
    assert not list(harness.handle.waiting_pods)
    harness.add(pod("neighbour").requests(cpu="4"))
    harness.run()
    assert harness.assignments == {"neighbour": "n1"}


@pytest.mark.parametrize(
    "spec",
    [None, [], "gang", {"minMember": "many"}, {"minMember": -1}, {"minMember": None}, {"minMember": 1e400}, {}],
    ids=str,
)
def test_invalid_pod_group_affects_only_its_own_pods(spec: object) -> None:
    harness = Harness(OUR_GANGS)
    harness.add(node("n1"))
    harness.add_object(OUR_POD_GROUP, {"metadata": {"namespace": "default", "name": "g"}, "spec": spec})
    harness.add(pod("member").label(POD_GROUP_LABEL, "g"), pod("neighbour"))
    harness.run()
    assert "neighbour" in harness.assignments


def test_events_while_a_gang_waits_are_bounded() -> None:
    # Without the cycle for groups, members are attempted one by one, and wait in Permit.
    text = config("profiles: [{plugins: {podGroup: {disabled: [{name: GangScheduling}]}}}]")
    harness = Harness(loads(text, gates=parse(["GenericWorkload=true"])))
    harness.add(node("n1", cpu="2", pods="1000"), node("n2", cpu="100", pods="1000").taint("theirs"))
    spec = {"schedulingPolicy": {"gang": {"minCount": 3}}}
    harness.add_object(POD_GROUPS[0], {"metadata": {"namespace": "default", "name": "g"}, "spec": spec})
    harness.add(*(pod(f"m{i}").requests(cpu="1").spec(schedulingGroup={"podGroupName": "g"}) for i in range(3)))
    harness.run()
    assert len(list(harness.handle.waiting_pods)) == 2
    for i in range(3 * MOST_EVENTS):
        harness.add(pod("busy").on("n2").label("turn", str(i)))
    assert sum(harness.machine.context.queue.in_flight_counts().values()) <= MOST_EVENTS + 2
    harness.advance(1_000)
    assert not list(harness.handle.waiting_pods) or len(list(harness.handle.waiting_pods)) == 2


# -- selectors against selectors -----------------------------------------------------------------------------------


@pytest.mark.parametrize("terms", [10, 300])
@pytest.mark.parametrize("kind", ["required", "preferred"])
def test_pods_with_many_terms_do_not_slow_down_other_pods(terms: int, kind: str) -> None:
    calm, harness = (HostilePodFixture() for _ in range(2))
    for i in range(3_000 // terms):
        many = [
            {"topologyKey": "kubernetes.io/hostname", "labelSelector": {"matchLabels": {f"k{i}-{j}": "v"}}}
            for j in range(terms)
        ]
        hostile = plain(f"hostile-{i}")
        if kind == "required":
            hostile = hostile.pod_anti_affinity(*many)
        else:
            weighted = [{"weight": 1, "podAffinityTerm": each} for each in many]
            hostile = hostile.spec(
                affinity={"podAntiAffinity": {"preferredDuringSchedulingIgnoredDuringExecution": weighted}}
            )
        harness.handle_pods(hostile)
        harness.run()

    def neighbours(of: HostilePodFixture, name: str, number: int) -> None:
        for i in range(number):  # of a StatefulSet: each has a label of its own
            of.handle_pods(plain(f"{name}-{i}").namespace("theirs").label("pod-name", f"{name}-{i}"))
            of.run()

    for each in (calm, harness):
        neighbours(each, "first", 1)  # which compiles the terms
    undisturbed = cpu(lambda: neighbours(calm, "neighbour", 200))
    assert cpu(lambda: neighbours(harness, "neighbour", 200)) < 4 * undisturbed + 0.2
    assert sum(name.startswith("neighbour") for name in harness.assignments) == 200
