"""Every node or kube-scheduler's share of them: which nodes pods get, attempt after attempt."""

from __future__ import annotations

import pytest

from pyscheduler.testing import Harness, node, pod

HEAD = "apiVersion: kubescheduler.config.k8s.io/v1\nkind: KubeSchedulerConfiguration\n"
OURS = "---\napiVersion: pyscheduler.io/v1\nkind: PySchedulerConfiguration\n"
ADAPTIVE = "percentageOfNodesToScore: 0\n"
TWO = f"{ADAPTIVE}profiles: [{{schedulerName: one}}, {{schedulerName: two}}]\n"
ZONE = "topology.kubernetes.io/zone"


def where(config: str, *pods: str, nodes: int = 250, seed: int = 0) -> list[str]:
    """The node of each pod, tried one after the other in a cluster of equal nodes."""
    harness = Harness(HEAD + config, seed=seed)
    harness.add(*(node(f"n{i}") for i in range(nodes)))
    for name in pods:
        harness.add(pod(name).requests(cpu="1"))
        harness.run()
    return [harness.assignments[name] for name in pods]


@pytest.mark.parametrize("config", [ADAPTIVE, f"{OURS}nodeOrder: KubeScheduler\n"])
def test_kube_schedulers_order_goes_round_the_cluster_by_shares(config: str) -> None:
    """48 % of 250 nodes are 120: n0 to n119, then n120 to n239, then n240 to n109, then n110 to n229."""
    assert where(config, "a", "b", "c", "d") == ["n0", "n120", "n240", "n110"]


def test_kube_schedulers_order_leaves_nothing_to_chance() -> None:
    assert {tuple(where(ADAPTIVE, "a", "b", seed=seed, nodes=5)) for seed in range(5)} == {("n0", "n1")}


def test_without_it_chance_decides_between_equals_all_over_the_cluster() -> None:
    chosen = {where("", "a", seed=seed)[0] for seed in range(8)}
    assert len(chosen) > 4


def test_every_node_is_looked_at_unless_a_share_is_asked_for() -> None:
    for config, best in (("", "n200"), (ADAPTIVE, "n0"), ("percentageOfNodesToScore: 100\n", "n200")):
        harness = Harness(HEAD + config)
        harness.add(*(node(f"n{i}", cpu="64" if i == 200 else "4") for i in range(250)))
        harness.add(pod("a").requests(cpu="1"))
        harness.run()
        assert harness.assignments == {"a": best}, config


def test_profiles_go_round_together() -> None:
    harness = Harness(HEAD + TWO)
    harness.add(*(node(f"n{i}") for i in range(250)))
    for name, profile in (("a", "one"), ("b", "two"), ("c", "one")):
        harness.add(pod(name).scheduler(profile).requests(cpu="1"))
        harness.run()
    assert harness.assignments == {"a": "n0", "b": "n120", "c": "n240"}


def test_zones_take_turns_and_a_node_that_left_is_not_missed() -> None:
    harness = Harness(HEAD + ADAPTIVE)
    harness.add(*(node(f"n{i}", cpu="1").label(ZONE, "ab"[i // 2]) for i in range(4)))
    harness.delete_node("n2")
    for name in "abc":
        harness.add(pod(name).requests(cpu="1"))
        harness.run()
    assert harness.assignments == {"a": "n0", "b": "n3", "c": "n1"}


def test_a_pod_that_fits_nowhere_moves_no_start() -> None:
    """All nodes were looked at: the next search starts where this one did."""
    harness = Harness(HEAD + ADAPTIVE)
    harness.add(*(node(f"n{i}") for i in range(250)), pod("huge").requests(cpu="64"))
    harness.run()
    harness.add(pod("a").requests(cpu="1"))
    harness.run()
    assert harness.assignments == {"a": "n0"}
