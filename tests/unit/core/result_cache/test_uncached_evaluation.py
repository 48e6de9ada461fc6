"""Uncached evaluation: a pod whose node affinity names its nodes is filtered and scored on these nodes alone."""

from __future__ import annotations

import pytest

from pyscheduler.testing import Harness, PodBuilder, node, pod
from tests.unit.intree.test_node_affinity import names

FEW, MANY = 2, 12
"""Numbers of named nodes that are evaluated one by one, and all at once."""


def build_harness() -> Harness:
    """Return a cluster of nodes n0 … n19 with one core each; n0 is tainted, n1 is full."""
    harness = Harness()
    harness.add(node("n0", cpu="1").taint("dedicated", "db"), *(node(f"n{i}", cpu="1") for i in range(1, 20)))
    harness.add(pod("full").requests(cpu="1").on("n1"))
    return harness


def restricted(count: int, name: str = "a") -> PodBuilder:
    """Return a pod of half a core with required affinity to the nodes n0 … by name."""
    return pod(name).requests(cpu="500m").node_affinity(*(names("In", f"n{i}") for i in range(count)))


@pytest.mark.parametrize("count", [FEW, MANY])
def test_no_node_outside_of_the_named_ones_is_evaluated(count: int) -> None:
    harness = build_harness()
    harness.add(restricted(count))
    harness.run()
    evaluations = harness.machine.context.profiles["default-scheduler"].evaluations.filter
    assert evaluations["TaintToleration"].n == count
    assert evaluations["NodeResourcesFit"].n == count - 1, "the taint of n0 rejects the pod first"


@pytest.mark.parametrize("count", [FEW, MANY])
def test_each_rejected_node_counts_with_its_first_reason(count: int) -> None:
    harness = build_harness()
    harness.add(*(pod(f"full-{i}").requests(cpu="1").on(f"n{i}") for i in range(2, count)))
    harness.add(restricted(count))
    harness.run()
    reasons = harness.pending_message("a").removeprefix("0/20 nodes are available: ").split(". ")[0].split(", ")
    assert set(reasons) == {
        f"{count - 1} Insufficient cpu",
        "1 node(s) had untolerated taint(s)",
        f"{20 - count} node(s) didn't satisfy plugin(s) [NodeAffinity]",
    }


@pytest.mark.parametrize("count", [3, MANY])
def test_pod_gets_the_emptiest_of_the_named_nodes(count: int) -> None:
    harness = build_harness()
    harness.add(*(pod(f"half-{i}").requests(cpu="500m").on(f"n{i}") for i in range(3, count)))
    harness.add(restricted(count))
    harness.run()
    assert harness.assignments["a"] == "n2"


@pytest.mark.parametrize("count", [3, MANY])
def test_node_reserved_for_a_preemptor_is_not_taken(count: int) -> None:
    harness = build_harness()
    harness.graceful = True
    harness.add(*(pod(f"full-{i}").requests(cpu="1").on(f"n{i}") for i in range(3, count)))
    harness.add(pod("victim").requests(cpu="500m").on("n2"))
    harness.add(pod("preemptor").priority(10).requests(cpu="1").node_affinity(names("In", "n2")))
    harness.run()
    assert harness.nominated("preemptor") == "n2"
    harness.add(restricted(count))
    harness.run()
    assert "a" not in harness.assignments, "beside the terminating victim, n2 has room for half a core"
