"""Templates that all plugins sign alike share one equivalence cache, and no others do."""

from __future__ import annotations

import pytest

from pyscheduler.testing import Harness, PodBuilder, node, pod

UNSCHEDULABLE = "node.kubernetes.io/unschedulable"


def plain(name: str) -> PodBuilder:
    return pod(name).requests(cpu="100m").image("app:1")


def harness_with(*pods: PodBuilder) -> Harness:
    """Return a scheduler that has attempted these pods."""
    harness = Harness()
    harness.add(node("n0", cpu="4").image("known:1", 1 << 28), node("n1", cpu="4"))
    for incoming in pods:
        harness.add(incoming)
        harness.run()
    return harness


def caches(harness: Harness) -> int:
    (runtime,) = harness.machine.context.runtimes.values()
    return len(runtime.caches)


@pytest.mark.parametrize(
    "other",
    [
        pytest.param(plain("b").image("app:2"), id="an image that no node has"),
        pytest.param(plain("b").label("app", "other"), id="a label"),
        pytest.param(plain("b").spec(priorityClassName="high"), id="the name of the priority class"),
    ],
)
def test_templates_with_differences_that_no_plugin_reads_share_a_cache(other: PodBuilder) -> None:
    assert caches(harness_with(plain("a"), other)) == 1


@pytest.mark.parametrize(
    "other",
    [
        pytest.param(plain("b").image("known:1"), id="an image that a node has"),
        pytest.param(plain("b").requests(cpu="200m"), id="requests"),
        pytest.param(plain("b").priority(1), id="priority"),
        pytest.param(plain("b").host_port(80), id="a host port"),
        pytest.param(plain("b").tolerates("a", operator="Exists"), id="a toleration"),
    ],
)
def test_other_templates_have_a_cache_of_their_own(other: PodBuilder) -> None:
    assert caches(harness_with(plain("a"), other)) == 2


def test_pod_that_tolerates_cordoned_nodes_gets_one() -> None:
    harness = Harness()
    harness.add(node("n0").unschedulable())
    harness.add(pod("a"), pod("b").tolerates(UNSCHEDULABLE, operator="Exists"))
    harness.run()
    assert harness.assignments == {"b": "n0"}


def test_template_is_signed_again_when_a_node_has_pulled_its_image() -> None:
    harness = harness_with(plain("a"), plain("b").image("app:2"))
    harness.add(node("n1", cpu="4").image("app:1", 1 << 30).image("app:2", 1 << 30), plain("c"))
    harness.run()
    assert harness.assignments["c"] == "n1"
    assert caches(harness) == 2, "the old one, and the one of pods with app:1"


def test_unhashable_signed_value_names_the_plugin(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("pyscheduler.intree.node_ports.NodePorts.sign_group", lambda *_: [])
    harness = harness_with(plain("a"))
    assert not harness.assignments
    assert "NodePorts" in harness.pending_message("a")
