"""Pods of one template that name claims of their own: what was said of one serves the next, unless claims matter."""

from __future__ import annotations

from typing import ClassVar

from pyscheduler.api import Cycle, FilterPlugin, NodeInfo, Pod, Reads, Rejection
from pyscheduler.testing import node, pod
from tests.unit.core.decide.test_decider import Bench
from tests.unit.intree.storage import using


class Cellar(FilterPlugin):
    """Lets a claim be used on the node of its name."""

    name = "Cellar"
    reads = Reads.OWN_NODE
    reads_labels = False
    asked: ClassVar[list[str]] = []

    def filter(self, cycle: Cycle, pod: Pod, node: NodeInfo) -> Rejection | None:
        self.asked.append(node.name)
        return None if pod.signature.volume_claims[0].name == node.name else Rejection("elsewhere")


class Indifferent(Cellar):
    """Lets no claim in, whatever its name."""

    name = "Indifferent"
    reads_claims = False

    def filter(self, cycle: Cycle, pod: Pod, node: NodeInfo) -> Rejection | None:
        self.asked.append(node.name)
        return Rejection("nowhere")


def test_a_pod_with_another_claim_is_asked_about_anew() -> None:
    bench = Bench(node("n1"), node("n2"), filters=(Cellar,))
    assert [bench.chosen(using(claim)) for claim in ("n1", "n2", "n1")] == ["n1", "n2", "n1"]


def test_it_is_not_where_claims_do_not_matter() -> None:
    bench = Bench(node("n1"), node("n2"), filters=(Indifferent,))
    Indifferent.asked.clear()
    for claim in ("n1", "n2", "n1"):
        bench.refused(using(claim))
    assert Indifferent.asked == ["n1", "n2"]


class Archive(FilterPlugin):
    """Lets in what only reads its claim."""

    name = "Archive"
    reads = Reads.OWN_NODE
    reads_labels = reads_match_fields = False

    def filter(self, cycle: Cycle, pod: Pod, node: NodeInfo) -> Rejection | None:
        (volume,) = pod.spec.volumes or ()
        return None if volume["persistentVolumeClaim"].get("readOnly") else Rejection("it would write")


def test_a_pod_that_uses_the_same_claim_otherwise_is_asked_about_anew() -> None:
    bench = Bench(node("n1"), filters=(Archive,))
    reading, writing = (
        pod("p").spec(volumes=[{"name": "v", "persistentVolumeClaim": {"claimName": "data", "readOnly": only}}])
        for only in (True, False)
    )
    assert bench.chosen(reading) == "n1"
    assert "it would write" in bench.refused(writing)
