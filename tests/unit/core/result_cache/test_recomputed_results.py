"""Result cache: the nodes that a plugin filters and scores for the next pod of a template, after a change."""

from __future__ import annotations

from collections.abc import Callable
from typing import ClassVar

import pytest

from pyscheduler.api import Cycle, FilterPlugin, NodeInfo, Pod, Reads, Rejection, ScorePlugin
from pyscheduler.testing import Harness, PodBuilder, node, pod

Change = Callable[[Harness], None]
NODES = ("n1", "n2", "n3", "n4", "n5", "n6", "n7", "n8")


class ReadsNode(FilterPlugin, ScorePlugin):
    """Prefer n1, reject nodes labelled closed, and record every call."""

    name = "ReadsNode"
    reads = Reads.OWN_NODE
    reads_labels = False
    filtered: ClassVar[list[str]] = []
    scored: ClassVar[list[str]] = []

    def filter(self, cycle: Cycle, pod: Pod, node: NodeInfo) -> Rejection | None:
        self.filtered.append(node.name)
        return Rejection("node(s) were closed") if "closed" in node.labels else None

    def score(self, cycle: Cycle, pod: Pod, node: NodeInfo) -> int:
        self.scored.append(node.name)
        return 100 if node.name == "n1" else 0


class ReadsPodsOfNode(ReadsNode):
    """Read the pods of the node too."""

    name = "ReadsPodsOfNode"
    reads = Reads.OWN_NODE_AND_PODS


class ReadsAllNodes(ReadsNode):
    """Read all node objects."""

    name = "ReadsAllNodes"
    reads = Reads.ALL_NODES


class ReadsEverything(ReadsNode):
    """Read any state."""

    name = "ReadsEverything"
    reads = Reads.EVERYTHING


def build_harness(plugin: type[ReadsNode], nodes: tuple[str, ...] = NODES) -> Harness:
    """Return a cluster on which only this plugin filters and scores."""
    enabled = ", ".join(
        f'{{name: "{name}"}}' for name in ("PrioritySort", "DefaultBinder", f"{__name__}:{plugin.name}")
    )
    harness = Harness(
        "apiVersion: kubescheduler.config.k8s.io/v1\nkind: KubeSchedulerConfiguration\nprofiles:\n"
        f'- plugins: {{multiPoint: {{disabled: [{{name: "*"}}], enabled: [{enabled}]}}}}\n'
    )
    harness.add(*(node(name, cpu="8") for name in nodes))
    return harness


def template(name: str) -> PodBuilder:
    return pod(name).requests(cpu="1")


def schedule(harness: Harness, built: PodBuilder) -> tuple[list[str], list[str]]:
    """Schedule a pod; return the nodes that the plugin filtered and scored for it, each in order."""
    ReadsNode.filtered.clear()
    ReadsNode.scored.clear()
    harness.add(built)
    harness.run()
    return sorted(ReadsNode.filtered), sorted(ReadsNode.scored)


def nothing(harness: Harness) -> None:
    """Change nothing after the first pod, which is on n1."""


def node_is_labelled(harness: Harness) -> None:
    harness.add(node("n2", cpu="8").label("disk", "ssd"))


def pod_is_placed_on_another_node(harness: Harness) -> None:
    harness.add(pod("other").requests(cpu="2").on("n3"))


def first_pod_is_deleted(harness: Harness) -> None:
    harness.delete_pod("first")


def node_is_added(harness: Harness) -> None:
    harness.add(node("n9", cpu="8"))


def node_is_deleted(harness: Harness) -> None:
    harness.delete_node("n8")


ALL = [*NODES]
STORIES = [
    pytest.param(ReadsNode, nothing, [], id="own node, nothing"),
    pytest.param(ReadsNode, node_is_labelled, ["n2"], id="own node, label"),
    pytest.param(ReadsNode, pod_is_placed_on_another_node, [], id="own node, pod elsewhere"),
    pytest.param(ReadsNode, node_is_added, ["n9"], id="own node, new node"),
    pytest.param(ReadsPodsOfNode, nothing, ["n1"], id="pods of the node, nothing but the first pod"),
    pytest.param(ReadsPodsOfNode, node_is_labelled, ["n1", "n2"], id="pods of the node, label"),
    pytest.param(ReadsPodsOfNode, pod_is_placed_on_another_node, ["n1", "n3"], id="pods of the node, pod elsewhere"),
    pytest.param(ReadsPodsOfNode, first_pod_is_deleted, ["n1"], id="pods of the node, deleted pod"),
    pytest.param(ReadsAllNodes, nothing, [], id="all nodes, nothing"),
    pytest.param(ReadsAllNodes, pod_is_placed_on_another_node, [], id="all nodes, pod elsewhere"),
    pytest.param(ReadsAllNodes, node_is_labelled, ALL, id="all nodes, label"),
    pytest.param(ReadsAllNodes, node_is_deleted, ALL[:-1], id="all nodes, deleted node"),
    pytest.param(ReadsEverything, nothing, ALL, id="everything, nothing"),
]


@pytest.mark.parametrize(("plugin", "change", "recomputed"), STORIES)
def test_plugin_is_called_again_only_for_nodes_whose_result_may_have_changed(
    plugin: type[ReadsNode], change: Change, recomputed: list[str]
) -> None:
    harness = build_harness(plugin)
    assert schedule(harness, template("first")) == (ALL, ALL)
    change(harness)
    assert schedule(harness, template("second")) == (recomputed, recomputed)
    assert harness.assignments["second"] == "n1"


def test_pod_of_another_template_shares_no_results() -> None:
    harness = build_harness(ReadsNode)
    schedule(harness, template("first"))
    assert schedule(harness, pod("other").requests(cpu="3")) == (ALL, ALL)


def test_node_that_is_closed_and_opened_again_is_filtered_and_scored_as_before() -> None:
    harness = build_harness(ReadsNode)
    schedule(harness, template("first"))
    harness.add(node("n1", cpu="8").label("closed"))
    assert schedule(harness, template("second")) == (["n1"], [])
    assert harness.assignments["second"] != "n1"
    harness.add(node("n1", cpu="8"))
    assert schedule(harness, template("third")) == (["n1"], ["n1"])
    assert harness.assignments["third"] == "n1"
