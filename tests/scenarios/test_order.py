"""Node order across attempts: all nodes, or kube-scheduler's percentage of them."""

from __future__ import annotations

import pytest

from pyscheduler.testing import Harness, node, pod

HEAD = "apiVersion: kubescheduler.config.k8s.io/v1\nkind: KubeSchedulerConfiguration\n"
OURS = "---\napiVersion: pyscheduler.io/v1\nkind: PySchedulerConfiguration\n"
ADAPTIVE = "percentageOfNodesToScore: 0\n"
TWO = f"{ADAPTIVE}profiles: [{{schedulerName: one}}, {{schedulerName: two}}]\n"
ZONE = "topology.kubernetes.io/zone"


def assigned_nodes(config: str, *pods: str, nodes: int = 250, seed: int = 0) -> list[str]:
    """Return the node of each pod, scheduled one after the other in a cluster of equal nodes."""
    harness = Harness(HEAD + config, seed=seed)
    harness.add(*(node(f"n{i}") for i in range(nodes)))
    for name in pods:
        harness.add(pod(name).requests(cpu="1"))
        harness.run()
    return [harness.assignments[name] for name in pods]


@pytest.mark.parametrize("config", [ADAPTIVE, f"{OURS}nodeOrder: KubeScheduler\n"])
def test_kube_schedulers_order_continues_after_the_nodes_of_the_last_attempt(config: str) -> None:
    """48 % of 250 nodes are 120: n0 to n119, then n120 to n239, then n240 to n109, then n110 to n229."""
    assert assigned_nodes(config, "a", "b", "c", "d") == ["n0", "n120", "n240", "n110"]


def test_kube_schedulers_order_does_not_depend_on_the_seed() -> None:
    assert {tuple(assigned_nodes(ADAPTIVE, "a", "b", seed=seed, nodes=5)) for seed in range(5)} == {("n0", "n1")}


def test_default_order_breaks_ties_by_the_seed_across_the_cluster() -> None:
    chosen = {assigned_nodes("", "a", seed=seed)[0] for seed in range(8)}
    assert len(chosen) > 4


def test_all_nodes_are_filtered_unless_a_percentage_is_configured() -> None:
    for config, best in (("", "n200"), (ADAPTIVE, "n0"), ("percentageOfNodesToScore: 100\n", "n200")):
        harness = Harness(HEAD + config)
        harness.add(*(node(f"n{i}", cpu="64" if i == 200 else "4") for i in range(250)))
        harness.add(pod("a").requests(cpu="1"))
        harness.run()
        assert harness.assignments == {"a": best}, config


def test_profiles_share_the_start_node() -> None:
    harness = Harness(HEAD + TWO)
    harness.add(*(node(f"n{i}") for i in range(250)))
    for name, profile in (("a", "one"), ("b", "two"), ("c", "one")):
        harness.add(pod(name).scheduler(profile).requests(cpu="1"))
        harness.run()
    assert harness.assignments == {"a": "n0", "b": "n120", "c": "n240"}


def test_zones_alternate_and_a_deleted_node_is_skipped() -> None:
    harness = Harness(HEAD + ADAPTIVE)
    harness.add(*(node(f"n{i}", cpu="1").label(ZONE, "ab"[i // 2]) for i in range(4)))
    harness.delete_node("n2")
    for name in "abc":
        harness.add(pod(name).requests(cpu="1"))
        harness.run()
    assert harness.assignments == {"a": "n0", "b": "n3", "c": "n1"}


def test_pod_that_fits_no_node_does_not_move_the_start_node() -> None:
    """All nodes were filtered, so the next search starts at the same node."""
    harness = Harness(HEAD + ADAPTIVE)
    harness.add(*(node(f"n{i}") for i in range(250)), pod("huge").requests(cpu="64"))
    harness.run()
    harness.add(pod("a").requests(cpu="1"))
    harness.run()
    assert harness.assignments == {"a": "n0"}
