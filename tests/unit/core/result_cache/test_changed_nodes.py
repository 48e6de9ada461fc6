"""After a change of a node object, plugins run again for few nodes, not for all."""

from __future__ import annotations

from collections import Counter

import pytest

from pyscheduler.testing import Harness, NodeBuilder, PodBuilder, node, pod

NODES = 40
APP = "app:1"
NODE = node("n7").label("pool", "a")


def incoming(name: str) -> PodBuilder:
    return pod(name).requests(cpu="10m").image(APP)


@pytest.fixture
def harness() -> Harness:
    """Return a scheduler that has cached the results of pods with one image."""
    harness = Harness()
    harness.add(*(node(f"n{i}") for i in range(NODES)))
    for i in range(3):
        harness.add(incoming(f"warm-{i}"))
        harness.run()
    return harness


def nodes_evaluated(harness: Harness, change: NodeBuilder) -> int:
    """Change a node, schedule a pod and return the highest number of Filter or Score evaluations of a plugin."""
    before = evaluations(harness)
    harness.add(change, incoming("next"))
    harness.run()
    assert "next" in harness.assignments
    return max(n - before[plugin] for plugin, n in evaluations(harness).items())


def evaluations(harness: Harness) -> dict[tuple[str, str], int]:
    (profile,) = harness.machine.context.profiles.values()
    return {(point, plugin): n for point, plugin, n in profile.evaluations if point in ("Filter", "Score")}


@pytest.mark.parametrize(
    "change",
    [
        pytest.param(node("n7").image("other:1", 1 << 28), id="another image"),
        pytest.param(node("n7").label("team", "a"), id="a label"),
        pytest.param(node("n7").annotation("note", "a"), id="an annotation"),
        pytest.param(node("n7").taint("slow", effect="PreferNoSchedule"), id="a taint"),
        pytest.param(node("n7", cpu="8"), id="more cpu"),
    ],
)
def test_only_changed_nodes_are_evaluated(harness: Harness, change: NodeBuilder) -> None:
    assert nodes_evaluated(harness, change) <= 4  # that node and the last pod's, for Filter and once more for Score


def filters_that_ran(harness: Harness, *change: NodeBuilder) -> Counter[str]:
    """Change a node, schedule a pod that all filters below look at, and return their evaluations."""
    before = evaluations(harness)
    selective = incoming(f"pod-{len(harness.pods)}").node_selector(pool="a").tolerates("slow", operator="Exists")
    harness.add(*change, selective)
    harness.run()
    return Counter(
        {name: n - before[point, name] for (point, name), n in evaluations(harness).items() if point == "Filter"}
    )


@pytest.mark.parametrize(
    ("change", "readers"),
    [
        pytest.param(NODE.image("other:1", 1 << 28), "", id="another image"),
        pytest.param(NODE.annotation("note", "a"), "", id="an annotation"),
        pytest.param(NODE.label("team", "a"), "NodeAffinity", id="a label"),
        pytest.param(NODE.taint("slow"), "NodeUnschedulable TaintToleration", id="a taint"),
        pytest.param(NODE.unschedulable(), "NodeUnschedulable", id="cordoned"),
        pytest.param(NODE.capacity(cpu="8"), "NodeResourcesFit", id="more cpu"),
    ],
)
def test_filters_run_that_read_the_changed_part_of_a_node(change: NodeBuilder, readers: str) -> None:
    harness = Harness()
    harness.add(*(node(f"n{i}").label("pool", "a") for i in range(NODES)))
    filters_that_ran(harness)
    without_change = filters_that_ran(harness)
    with_change = filters_that_ran(harness, change)
    assert {*(with_change - without_change)} == {*readers.split()}


@pytest.mark.parametrize("returned", [None, 1, "labels"])
def test_invalid_parts_of_nodes_name_the_plugin(returned: object, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("pyscheduler.intree.node_ports.NodePorts.node_fields_of", lambda *_: returned)
    harness = Harness()
    harness.add(node("n"), incoming("before"))
    harness.run()
    harness.add(node("n").label("team", "a"), incoming("after"))
    harness.run()
    assert "after" not in harness.assignments
    assert "NodePorts" in harness.pending_message("after")


def test_all_nodes_are_scored_when_the_share_of_nodes_with_the_image_changes(harness: Harness) -> None:
    assert nodes_evaluated(harness, node("n7").image(APP, 1 << 30)) == NODES
    assert harness.assignments["next"] == "n7"


@pytest.mark.parametrize("removed", [1, 6, 7, NODES // 2])
def test_pods_are_scheduled_after_the_newest_nodes_have_been_removed(harness: Harness, removed: int) -> None:
    harness.add(*(node(f"n{i}").taint("slow", effect="PreferNoSchedule") for i in range(NODES - 1)))
    harness.add(node("n0").unschedulable(), incoming("before"))
    harness.run()
    assert harness.assignments["before"] == f"n{NODES - 1}"
    for i in range(removed):
        harness.delete_node(f"n{NODES - 1 - i}")
    harness.add(incoming("after"))
    harness.run()
    assert "after" in harness.assignments
