"""Pods of one signature group with different named nodes: cached results are reused unless a plugin reads the names."""

from __future__ import annotations

from typing import ClassVar

import pytest

from pyscheduler.api import (
    SKIP_SIGNATURE,
    SKIP_SIGNATURE_GROUP,
    Cycle,
    FilterPlugin,
    NodeInfo,
    NodeTable,
    Pod,
    PreFilterPlugin,
    Reads,
    Rejection,
    Skip,
)
from pyscheduler.intree import NodeAffinity
from pyscheduler.testing import PodBuilder, node, pod
from tests.unit.core.scheduling.test_schedule_pod import Bench
from tests.unit.intree.test_node_affinity import names


class ReadsNames(FilterPlugin):
    """Accept the nodes that the pod's required node affinity matches."""

    name = "ReadsNames"
    reads = Reads.OWN_NODE
    reads_labels = reads_claims = False
    evaluated_nodes: ClassVar[list[str]] = []

    def filter(self, cycle: Cycle, pod: Pod, node: NodeInfo) -> Rejection | None:
        self.evaluated_nodes.append(node.name)
        terms = pod.signature.required_node_terms or ()
        return None if any(term.matches(node.name, node.labels) for term in terms) else Rejection("not matched")


class IgnoresNames(ReadsNames):
    """Reject every node, whatever the pod's affinity."""

    name = "IgnoresNames"
    reads_match_fields = False

    def filter(self, cycle: Cycle, pod: Pod, node: NodeInfo) -> Rejection | None:
        self.evaluated_nodes.append(node.name)
        return Rejection("always rejected")


def away_from(name: str) -> PodBuilder:
    """Return a pod that excludes one node by name, so that PreFilter does not narrow the search."""
    return pod("p").node_affinity(names("NotIn", name))


def on(name: str) -> PodBuilder:
    """Return a pod with node affinity to one node by name, like those of a DaemonSet."""
    return pod("p").node_affinity(names("In", name))


def test_pod_naming_another_node_is_evaluated_again() -> None:
    bench = Bench(node("n1"), node("n2"), filters=(ReadsNames,))
    assert [bench.selected_node(away_from(name)) for name in ("n1", "n2", "n1")] == ["n2", "n1", "n2"]


def test_cached_result_is_reused_if_plugin_ignores_names() -> None:
    bench = Bench(node("n1"), node("n2"), filters=(IgnoresNames,))
    IgnoresNames.evaluated_nodes.clear()
    for name in ("n1", "n2", "n1"):
        bench.message_for(away_from(name))
    assert IgnoresNames.evaluated_nodes == ["n1", "n2"]


def test_daemon_set_pods_get_their_named_nodes() -> None:
    bench = Bench(node("n1"), node("n2"), node("n3"), filters=(NodeAffinity,))
    assert [bench.selected_node(on(name)) for name in ("n2", "n3", "n1", "n2")] == ["n2", "n3", "n1", "n2"]


class SkipsSignature(PreFilterPlugin, ReadsNames):
    """Return SKIP_SIGNATURE from PreFilter and record the pods."""

    name = "SkipsSignature"
    reads = Reads.DOMAINS
    reads_match_fields = False
    pre_filtered: ClassVar[list[str]] = []

    def pre_filter(self, cycle: Cycle, pod: Pod, nodes: NodeTable) -> Skip | None:
        self.pre_filtered.append(pod.name)
        return SKIP_SIGNATURE


def test_skip_holds_while_pods_of_placed_groups_change() -> None:
    bench = Bench(node("n1"), node("n2"), filters=(NodeAffinity, SkipsSignature))
    SkipsSignature.pre_filtered.clear()
    for number, name in enumerate(("n1", "n2", "n1", "n2")):
        placed = pod(f"p{number}").node_affinity(names("In", name))
        assert bench.selected_node(placed) == name
        bench.state.place(placed.on(name).build(bench.signatures), name)
    bench.state.place(pod("other").requests(cpu="1").on("n1").build(bench.signatures), "n1")
    bench.selected_node(pod("p4").node_affinity(names("In", "n2")))

    assert SkipsSignature.pre_filtered == ["p0", "p1", "p4"]  # p1 runs again: p0 is the first placed pod of its group


class SkipsGroup(SkipsSignature):
    """Read the named nodes and return a skip for the signature group."""

    name = "SkipsGroup"
    reads_match_fields = True
    answer = SKIP_SIGNATURE_GROUP

    def pre_filter(self, cycle: Cycle, pod: Pod, nodes: NodeTable) -> Skip | None:
        super().pre_filter(cycle, pod, nodes)
        return self.answer


class SkipsSignatureOnly(SkipsGroup):
    name = "SkipsSignatureOnly"
    answer = SKIP_SIGNATURE


@pytest.mark.parametrize(
    ("plugin_class", "times"),
    [pytest.param(SkipsGroup, 1, id="signature group"), pytest.param(SkipsSignatureOnly, 3, id="signature")],
)
def test_scope_of_cached_skip(plugin_class: type[SkipsGroup], times: int) -> None:
    bench = Bench(node("n1"), node("n2"), filters=(NodeAffinity, plugin_class))
    SkipsSignature.pre_filtered.clear()
    for number, name in enumerate(("n1", "n2", "n1")):
        assert bench.selected_node(pod(f"p{number}").node_affinity(names("In", name))) == name

    assert len(SkipsSignature.pre_filtered) == times


def test_group_skip_is_dropped_when_another_group_is_placed() -> None:
    bench = Bench(node("n1"), node("n2"), filters=(NodeAffinity, SkipsGroup))
    SkipsSignature.pre_filtered.clear()
    bench.selected_node(on("n1"))
    bench.state.place(pod("other").on("n2").build(bench.signatures), "n2")
    bench.selected_node(on("n2"))
    bench.selected_node(on("n1"))

    assert len(SkipsSignature.pre_filtered) == 2


def test_group_skip_may_be_followed_by_signature_skip(monkeypatch: pytest.MonkeyPatch) -> None:
    bench = Bench(node("n1"), node("n2"), filters=(NodeAffinity, SkipsGroup))
    SkipsSignature.pre_filtered.clear()
    bench.selected_node(on("n1"))
    bench.state.place(pod("other").on("n2").build(bench.signatures), "n2")
    monkeypatch.setattr(SkipsGroup, "answer", SKIP_SIGNATURE)
    for name in ("n1", "n2", "n1"):
        bench.selected_node(on(name))

    assert len(SkipsSignature.pre_filtered) == 4
