"""Pods of one signature group with different claims: cached results are reused unless a plugin reads claims."""

from __future__ import annotations

from typing import ClassVar

from pyscheduler.api import Cycle, FilterPlugin, NodeInfo, Pod, Reads, Rejection
from pyscheduler.testing import node, pod
from tests.unit.core.scheduling.test_schedule_pod import Bench
from tests.unit.intree.storage import using


class NodeOfClaim(FilterPlugin):
    """Accept a pod only on the node named like its claim."""

    name = "NodeOfClaim"
    reads = Reads.OWN_NODE
    reads_labels = False
    evaluated_nodes: ClassVar[list[str]] = []

    def filter(self, cycle: Cycle, pod: Pod, node: NodeInfo) -> Rejection | None:
        self.evaluated_nodes.append(node.name)
        return None if pod.signature.volume_claims[0].name == node.name else Rejection("elsewhere")


class IgnoresClaims(NodeOfClaim):
    """Reject every pod, whatever its claim."""

    name = "IgnoresClaims"
    reads_claims = False

    def filter(self, cycle: Cycle, pod: Pod, node: NodeInfo) -> Rejection | None:
        self.evaluated_nodes.append(node.name)
        return Rejection("always rejected")


def test_pod_with_another_claim_is_evaluated_again() -> None:
    bench = Bench(node("n1"), node("n2"), filters=(NodeOfClaim,))
    assert [bench.selected_node(using(claim)) for claim in ("n1", "n2", "n1")] == ["n1", "n2", "n1"]


def test_cached_result_is_reused_if_plugin_ignores_claims() -> None:
    bench = Bench(node("n1"), node("n2"), filters=(IgnoresClaims,))
    IgnoresClaims.evaluated_nodes.clear()
    for claim in ("n1", "n2", "n1"):
        bench.message_for(using(claim))
    assert IgnoresClaims.evaluated_nodes == ["n1", "n2"]


class ReadOnlyClaim(FilterPlugin):
    """Accept pods that use their claim read-only."""

    name = "ReadOnlyClaim"
    reads = Reads.OWN_NODE
    reads_labels = reads_match_fields = False

    def filter(self, cycle: Cycle, pod: Pod, node: NodeInfo) -> Rejection | None:
        (volume,) = pod.spec.volumes or ()
        return None if volume["persistentVolumeClaim"].get("readOnly") else Rejection("claim is not read-only")


def test_pod_with_other_claim_options_is_evaluated_again() -> None:
    bench = Bench(node("n1"), filters=(ReadOnlyClaim,))
    read_only_pod, writing_pod = (
        pod("p").spec(volumes=[{"name": "v", "persistentVolumeClaim": {"claimName": "data", "readOnly": read_only}}])
        for read_only in (True, False)
    )
    assert bench.selected_node(read_only_pod) == "n1"
    assert "claim is not read-only" in bench.message_for(writing_pod)
