"""Pods that differ in annotations only: cached results are reused unless a plugin reads annotations."""

from __future__ import annotations

from typing import ClassVar

import pytest

from pyscheduler.api import Cycle, FilterPlugin, NodeInfo, Pod, Reads, Rejection
from pyscheduler.testing import PodBuilder, node, pod
from tests.unit.core.scheduling.test_schedule_pod import Bench

AVOIDED = "example.com/avoided-node"


class AvoidsNode(FilterPlugin):
    """Reject the node that an annotation of the pod names."""

    name = "AvoidsNode"
    reads = Reads.OWN_NODE
    reads_claims = reads_match_fields = False
    evaluated_nodes: ClassVar[list[str]] = []

    def filter(self, cycle: Cycle, pod: Pod, node: NodeInfo) -> Rejection | None:
        self.evaluated_nodes.append(node.name)
        return Rejection("avoided") if pod.annotations.get(AVOIDED) == node.name else None


class IgnoresAnnotations(AvoidsNode):
    """Reject every node; labels may matter."""

    name = "IgnoresAnnotations"
    reads_annotations = False

    def filter(self, cycle: Cycle, pod: Pod, node: NodeInfo) -> Rejection | None:
        self.evaluated_nodes.append(node.name)
        return Rejection("always rejected")


def avoiding(name: str) -> PodBuilder:
    return pod("p").annotation(AVOIDED, name)


def test_pod_with_another_annotation_is_evaluated_again() -> None:
    bench = Bench(node("n1"), node("n2"), filters=(AvoidsNode,))
    assert [bench.selected_node(avoiding(name)) for name in ("n1", "n2", "n1")] == ["n2", "n1", "n2"]


@pytest.mark.parametrize(
    ("label", "evaluations"),
    [
        pytest.param(False, 1, id="annotations differ"),
        pytest.param(True, 3, id="labels differ too"),
    ],
)
def test_cached_result_is_reused_if_plugin_ignores_annotations(*, label: bool, evaluations: int) -> None:
    bench = Bench(node("n1"), node("n2"), filters=(IgnoresAnnotations,))
    IgnoresAnnotations.evaluated_nodes.clear()
    for name in ("n1", "n2", "n1"):
        bench.message_for(avoiding(name).label("avoids", name if label else "any"))
    assert IgnoresAnnotations.evaluated_nodes == ["n1", "n2"] * evaluations
