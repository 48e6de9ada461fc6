"""Preemption with extenders, which restrict the candidates before any pod is evicted."""

from __future__ import annotations

import pytest

from pyscheduler.core.extenders.extender import (
    ExtenderCallFailed,
    ExtenderPreemptionResult,
    ExtenderResult,
    PreemptCall,
    Victims,
)
from pyscheduler.testing import Harness, PodBuilder, node, pod
from tests.scenarios.test_extenders import agree, config

PREEMPT = '{urlPrefix: "http://preempts", preemptVerb: preempt}'
IGNORABLE = '{urlPrefix: "http://e", preemptVerb: p, ignorable: true}'


def low(name: str, node_name: str) -> PodBuilder:
    return pod(name).requests(cpu="1").on(node_name)


def full(*extenders: str) -> Harness:
    """Return a cluster of two nodes, each full with a low-priority pod."""
    harness = Harness(config(*extenders))
    harness.call_extender = agree
    harness.add(node("n1", cpu="1"), node("n2", cpu="1"), low("low1", "n1"), low("low2", "n2"))
    return harness


URGENT = pod("urgent").requests(cpu="1").priority(100)


@pytest.mark.parametrize("name", ["n1", "n2"])
def test_only_candidates_that_extenders_return_are_preempted(name: str) -> None:
    harness = full(PREEMPT)
    victim = f"low{name[1]}"
    harness.call_extender = lambda *_: ExtenderPreemptionResult({name: Victims((victim,))})
    harness.add(URGENT)
    harness.run()
    (call,) = harness.extender_calls
    assert isinstance(call, PreemptCall)
    assert {n: [v.name for v in c.victims] for n, c in call.candidates.items()} == {"n1": ["low1"], "n2": ["low2"]}
    assert harness.evicted() == [victim]
    harness.advance(5)
    assert harness.assignments["urgent"] == name


@pytest.mark.parametrize(
    ("result", "message"),
    [
        pytest.param(ExtenderPreemptionResult({}), "no candidate node for preemption", id="no candidates"),
        pytest.param(ExtenderCallFailed("boom"), "boom", id="a failure"),
        pytest.param(
            ExtenderPreemptionResult({"n1": Victims(())}),
            'expected at least one victim pod on node "n1"',
            id="no victims",
        ),
        pytest.param(
            ExtenderPreemptionResult({"n7": Victims(("x",))}),
            'nodeinfo not found for node name "n7"',
            id="an unknown node",
        ),
        pytest.param(
            ExtenderPreemptionResult({"n1": Victims(("x",))}),
            "extender: http://preempts claims to preempt pod (UID: x) on node: n1, "
            "but the pod is not found on that node",
            id="an unknown pod",
        ),
    ],
)
def test_no_pod_is_evicted_when_an_extender_returns(result: ExtenderResult, message: str) -> None:
    harness = full(PREEMPT)
    harness.call_extender = lambda *_: result
    harness.add(URGENT)
    harness.run()
    assert harness.evicted() == []
    assert harness.pending_message("urgent").endswith(f"preemption: {message}")


@pytest.mark.parametrize(
    "result",
    [ExtenderCallFailed("boom"), ExtenderPreemptionResult({"n1": Victims(("x",))})],
    ids=["a failure", "an unknown pod"],
)
def test_failure_or_wrong_result_of_an_ignorable_extender_is_ignored(result: ExtenderResult) -> None:
    harness = full(IGNORABLE)
    harness.call_extender = lambda *_: result
    harness.add(URGENT)
    harness.run()
    assert len(harness.evicted()) == 1


def test_candidate_without_victims_from_an_ignorable_extender_is_dropped() -> None:
    harness = full(IGNORABLE)
    harness.call_extender = lambda *_: ExtenderPreemptionResult({"n1": Victims(()), "n2": Victims(("low2",))})
    harness.add(URGENT)
    harness.run()
    assert harness.evicted() == ["low2"]


def suspended() -> Harness:
    """Return a harness with a pending extender call, which will return `low1` on n1 as victim."""
    harness = full(PREEMPT)
    harness.complete_extender_calls = False
    harness.call_extender = lambda *_: ExtenderPreemptionResult({"n1": Victims(("low1",))})
    harness.add(URGENT)
    harness.run()
    return harness


def test_victim_deleted_during_the_extender_call_is_not_evicted() -> None:
    harness = suspended()
    harness.delete_pod("low1")
    harness.answer()
    assert harness.evicted() == []
    assert harness.pending_message("urgent") == (
        "0/2 nodes are available: 2 Insufficient cpu. "
        "preemption: found a potential placement for pod on node n1, preempting 1 victims"
    )
    harness.advance(5)
    assert harness.assignments["urgent"] == "n1"


def test_node_deleted_during_the_extender_call_is_no_candidate() -> None:
    harness = suspended()
    harness.delete_node("n1")
    harness.answer()
    assert harness.evicted() == []
    assert harness.pending_message("urgent").endswith("no candidate node for preemption")
