"""The largest pods that the API server accepts, on 5,000 nodes: no attempt and no event exceeds its bound.

Costs are counted in plain pods of the same moment, so a slow or busy machine does not exceed the bounds. They are about
twice the measurements: see docs/threat-model.md.
"""

from __future__ import annotations

import json

import pytest

from pyscheduler.api.cycle import EVALUATION_LIMIT
from pyscheduler.testing import NodeBuilder, PodBuilder, node
from tests.hostile.largest import NAMES, SERIAL, largest
from tests.hostile.pod_fixture import HostilePodFixture, cpu, plain

NODES = 5_000
MOST_FOR_AN_ATTEMPT = 4_000
"""Plain pods; 0.2 s of CPU at most on an idle machine."""
MOST_FOR_READING = 5_000
MOST_FOR_AN_EVENT = 500
PLAIN_PODS = 50
TOO_EXPENSIVE = "evaluations per attempt"
pytestmark = pytest.mark.slow


def node_of(i: int) -> NodeBuilder:
    made = node(f"n{i}", cpu="64", pods="1000").zone(f"z{i % 3}").label(SERIAL, str(i))
    return made.taint("team", f"t{i}") if i % 10 == 0 else made


@pytest.fixture(scope="module")
def cluster() -> HostilePodFixture:
    """5,000 nodes, 500 of them with a taint of their own, and pods of 1,000 templates."""
    made = HostilePodFixture(nodes=0)
    for i in range(NODES):
        made.handle_node(node_of(i).manifest)
        made.handle_pods(plain(f"placed-{i}").label("app", f"a{i % 1000}").on(f"n{i}"))
    made.handle_pods(plain("warm"))
    made.run()
    return made


def plain_pod(cluster: HostilePodFixture) -> float:
    """Return the CPU seconds of a plain pod."""
    names = [f"plain-{i}" for i in range(PLAIN_PODS)]

    def schedule() -> None:
        for name in names:
            cluster.handle_pods(plain(name))
            cluster.run()

    seconds = cpu(schedule)
    for name in names:
        cluster.delete_pod(name)
    cluster.clear_history()
    return seconds / PLAIN_PODS


def costs(cluster: HostilePodFixture, name: str) -> tuple[float, float, float, float]:
    """Return the costs of reading the pod, one attempt, a node event and a pod event, in plain pods."""
    raw, before = largest(name), plain_pod(cluster)
    read = cpu(lambda: cluster.handle_pod(raw))
    attempt = cpu(cluster.run)
    changed = node_of(7).label("turn", "x").manifest
    cluster.handle_node(changed)  # the first event compiles the pod's terms
    changed_node = cpu(lambda: cluster.handle_node(node_of(7).manifest))
    changed_pod = cpu(lambda: cluster.handle_pods(plain("event").label("app", "else").on("n3")))
    cluster.run()
    cluster.delete_pod("event")
    cluster.delete_pod("hostile")
    cluster.run()
    cluster.clear_history()
    unit = max(before, plain_pod(cluster))
    return read / unit, attempt / unit, changed_node / unit, changed_pod / unit


@pytest.mark.parametrize("name", NAMES)
def test_largest_pods_stay_within_bounds(cluster: HostilePodFixture, name: str) -> None:
    read, attempt, changed_node, changed_pod = costs(cluster, name)
    assert read < MOST_FOR_READING
    assert attempt < MOST_FOR_AN_ATTEMPT
    assert changed_node < MOST_FOR_AN_EVENT
    assert changed_pod < MOST_FOR_AN_EVENT
    largest.cache_clear()


def test_pod_beyond_evaluation_limit_waits_with_reason_and_is_not_requeued(cluster: HostilePodFixture) -> None:
    cluster.handle_pod(largest("spreading, distinct topologies, hard"))
    cluster.run()
    reason = cluster.harness.pending_message("hostile")
    assert reason.startswith("topology spread with ")
    assert reason.endswith(f"terms over 5000 nodes exceeds the limit of {EVALUATION_LIMIT} {TOO_EXPENSIVE}")
    attempts = cluster.attempts
    cluster.handle_node(node_of(NODES).manifest)
    cluster.handle_pods(plain("other").on("n1"))
    cluster.delete_pod("other")
    cluster.run()
    assert cluster.attempts == attempts
    cluster.delete_pod("hostile")
    cluster.check_invariants()


def spread_over(keys: int) -> PodBuilder:
    constraints = [
        {"maxSkew": 1, "topologyKey": f"t{i}", "whenUnsatisfiable": "ScheduleAnyway", "labelSelector": {}}
        for i in range(keys)
    ]
    return plain("spread").spec(topologySpreadConstraints=constraints)


@pytest.mark.parametrize(("terms", "is_bound"), [(10, True), (2_000, True), (2_001, False)])
def test_evaluation_limit_counts_terms_times_nodes(terms: int, is_bound: bool) -> None:
    few = HostilePodFixture(nodes=EVALUATION_LIMIT // 2_000)
    few.handle_pod(json.dumps(spread_over(terms).manifest).encode())
    few.run()
    assert ("spread" in few.assignments) is is_bound
