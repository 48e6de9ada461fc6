"""The largest pods that the API server takes, against 5,000 nodes: no attempt and no event takes long for any of them.

The bounds are twice what was measured on a machine that does nothing else: see docs/threat-model.md.
"""

from __future__ import annotations

import json

import pytest

from pyscheduler.api.cycle import EVALUATION_LIMIT
from pyscheduler.testing import NodeBuilder, PodBuilder, node
from tests.hostile.largest import NAMES, SERIAL, largest
from tests.hostile.pod_fixture import HostilePodFixture, cpu, plain

NODES = 5_000
MOST_FOR_AN_ATTEMPT = 0.4
"""CPU seconds; at most 0.2 where nothing else runs."""
MOST_FOR_READING = 1.0
MOST_FOR_AN_EVENT = 0.1
TOO_EXPENSIVE = "evaluations per attempt"
pytestmark = pytest.mark.slow


def node_of(i: int) -> NodeBuilder:
    made = node(f"n{i}", cpu="64", pods="1000").zone(f"z{i % 3}").label(SERIAL, str(i))
    return made.taint("team", f"t{i}") if i % 10 == 0 else made


@pytest.fixture(scope="module")
def world() -> HostilePodFixture:
    """5,000 nodes, 500 of them with a taint of their own, and pods of 1,000 kinds on them."""
    made = HostilePodFixture(nodes=0)
    for i in range(NODES):
        made.see_node(node_of(i).manifest)
        made.see(plain(f"placed-{i}").label("app", f"a{i % 1000}").on(f"n{i}"))
    made.see(plain("warm"))
    made.run()
    return made


def costs(world: HostilePodFixture, name: str) -> tuple[float, float, float, float]:
    """CPU seconds for reading the pod, one attempt, a node's event and a pod's event beside it."""
    raw = largest(name)
    read = cpu(lambda: world.see_pod(raw))
    attempt = cpu(world.run)
    changed = node_of(7).label("turn", "x").manifest
    world.see_node(changed)  # what is compiled for events at the first of them
    changed_node = cpu(lambda: world.see_node(node_of(7).manifest))
    changed_pod = cpu(lambda: world.see(plain("event").label("app", "else").on("n3")))
    world.run()
    world.gone("event")
    world.gone("hostile")
    world.run()
    world.clear_history()
    return read, attempt, changed_node, changed_pod


@pytest.mark.parametrize("name", NAMES)
def test_the_largest_pod_takes_no_attempt_and_no_event_long(world: HostilePodFixture, name: str) -> None:
    found = costs(world, name)
    for _ in range(2):
        if found[1] < MOST_FOR_AN_ATTEMPT:
            break
        found = tuple(map(min, found, costs(world, name)))  # type: ignore[assignment]
    read, attempt, changed_node, changed_pod = found
    assert read < MOST_FOR_READING
    assert attempt < MOST_FOR_AN_ATTEMPT
    assert changed_node < MOST_FOR_AN_EVENT
    assert changed_pod < MOST_FOR_AN_EVENT
    largest.cache_clear()


def test_a_pod_beyond_the_limit_waits_with_a_reason_and_wakes_for_no_event(world: HostilePodFixture) -> None:
    world.see_pod(largest("spreading, distinct topologies, hard"))
    world.run()
    reason = world.harness.pending_message("hostile")
    assert reason.startswith("topology spread with ")
    assert reason.endswith(f"terms over 5000 nodes exceeds the limit of {EVALUATION_LIMIT} {TOO_EXPENSIVE}")
    attempts = world.attempts
    world.see_node(node_of(NODES).manifest)
    world.see(plain("other").on("n1"))
    world.gone("other")
    world.run()
    assert world.attempts == attempts
    world.gone("hostile")
    world.sound()


def spread_over(keys: int) -> PodBuilder:
    constraints = [
        {"maxSkew": 1, "topologyKey": f"t{i}", "whenUnsatisfiable": "ScheduleAnyway", "labelSelector": {}}
        for i in range(keys)
    ]
    return plain("spread").spec(topologySpreadConstraints=constraints)


@pytest.mark.parametrize(("terms", "is_bound"), [(10, True), (2_000, True), (2_001, False)])
def test_the_limit_counts_terms_times_nodes(terms: int, is_bound: bool) -> None:
    few = HostilePodFixture(nodes=EVALUATION_LIMIT // 2_000)
    few.see_pod(json.dumps(spread_over(terms).manifest).encode())
    few.run()
    assert ("spread" in few.assignments) is is_bound
