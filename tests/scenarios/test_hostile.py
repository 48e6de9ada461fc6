"""Hostile input affects only its own pod or node."""

from __future__ import annotations

import pytest

from pyscheduler.testing import Harness, PodBuilder, node, pod

HUGE = "9223372036854775807"


@pytest.mark.parametrize("amount", [HUGE, "1e30", "9999999999Ei"])
@pytest.mark.parametrize("resource", ["cpu", "memory", "nvidia.com/gpu"])
def test_pod_with_a_huge_request_fits_no_node(resource: str, amount: str) -> None:
    harness = Harness()
    harness.add(node("n1").has("nvidia.com/gpu", "1"), pod("greedy").request(resource, amount), pod("modest"))
    harness.run()
    assert harness.assignments == {"modest": "n1"}
    assert harness.pending_message("greedy").startswith(f"0/1 nodes are available: 1 Insufficient {resource}.")


def test_requests_with_a_sum_beyond_int64_are_counted_and_freed() -> None:
    harness = Harness()
    harness.add(node("n1"), *(pod(f"big-{i}").requests(memory=HUGE, cpu=HUGE).on("n1") for i in range(3)))
    harness.add(pod("modest").requests(memory="1Gi"))
    harness.run()
    assert harness.pending_message("modest").startswith("0/1 nodes are available: 1 Insufficient memory.")
    for i in range(3):
        harness.delete_pod(f"big-{i}")
    harness.advance(3)
    assert harness.assignments == {"modest": "n1"}


def test_node_with_the_maximum_of_int64_is_not_overcommitted() -> None:
    harness = Harness()
    harness.add(node("n1", cpu=HUGE, memory=HUGE, pods=HUGE))
    harness.add(*(pod(f"p{i}").requests(memory="3Ei") for i in range(3)))
    harness.run()
    assert len(harness.assignments) == 2


@pytest.mark.parametrize("amount", ["1e400", "", "lots", "1 Gi", "1e", "--1", "١", "0x10", "1" * 100])
def test_object_with_an_invalid_quantity_changes_nothing(amount: str) -> None:
    harness = Harness()
    harness.add(node("n1"), pod("known").requests(cpu="64"))
    harness.run()
    before = list(harness.commands)
    for broken in (pod("new").requests(cpu=amount), pod("known").requests(cpu=amount), node("n1", cpu=amount)):
        with pytest.raises(ValueError, match=r"quantity|unit"):
            harness.add(broken)
    harness.run()
    assert harness.commands == before
    harness.add(pod("known").requests(cpu="64"), node("big", cpu="100"))
    harness.advance(3)
    assert harness.assignments == {"known": "big"}


@pytest.mark.parametrize(
    "built",
    [
        pod("p").label("a/b/c", "\x00"),
        pod("p").label("", ""),
        pod("p").label("éü" * 5_000, "\U0001f980"),
        pod("p").annotation("x" * 100_000, "'; DROP TABLE pods; --"),
        pod("p").spec(tolerations=[{"key": f"k{i}", "operator": "Exists"} for i in range(10_000)]),
        pod("p").spec(nodeSelector={}),
        pod("p").requests(**{f"example_com/r{i}": "0" for i in range(1_000)}),
        pod("p").image("\n" * 1_000),
    ],
    ids=[
        "control character",
        "empty label",
        "long label",
        "annotation",
        "tolerations",
        "no selector",
        "zeros",
        "image",
    ],
)
def test_pod_with_unusual_fields_is_scheduled(built: PodBuilder) -> None:
    harness = Harness()
    harness.add(node("n1"), node("n2").taint("k5"), built)
    harness.run()
    assert list(harness.assignments) == ["p"]


@pytest.mark.parametrize(
    "expressions", [[], [{"key": "a", "operator": "Gt", "values": ["many"]}], [{"key": "a", "operator": "Gt"}]]
)
def test_invalid_node_selector_terms_match_no_node(expressions: list[dict[str, object]]) -> None:
    harness = Harness()
    harness.add(node("n1").label("a", "5"), pod("p").node_affinity({"matchExpressions": expressions}))
    harness.run()
    assert "didn't match Pod's node affinity" in harness.pending_message("p")


def test_node_with_ten_thousand_taints_rejects_pods() -> None:
    harness = Harness()
    taints = [{"key": f"k{i}", "value": "", "effect": "NoSchedule"} for i in range(10_000)]
    harness.add(node("n1")._with("spec.taints", taints), pod("p"))
    harness.run()
    assert harness.pending_message("p").startswith("0/1 nodes are available: 1 node(s) had untolerated taint(s).")
