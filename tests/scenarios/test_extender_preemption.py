"""Stories of preemptions in which extenders have a say: they trim what has been found before anybody is evicted."""

from __future__ import annotations

import pytest

from pyscheduler.core.extender import ExtenderCallFailed, ExtenderPreemptionResult, ExtenderResult, PreemptCall, Victims
from pyscheduler.testing import Harness, PodBuilder, node, pod
from tests.scenarios.test_extenders import agree, config

PREEMPT = '{urlPrefix: "http://preempts", preemptVerb: preempt}'
IGNORABLE = '{urlPrefix: "http://e", preemptVerb: p, ignorable: true}'


def low(name: str, node_name: str) -> PodBuilder:
    return pod(name).requests(cpu="1").on(node_name)


def full(*extenders: str) -> Harness:
    """Two nodes, each full with a pod that is less important than what comes."""
    harness = Harness(config(*extenders))
    harness.call_extender = agree
    harness.add(node("n1", cpu="1"), node("n2", cpu="1"), low("low1", "n1"), low("low2", "n2"))
    return harness


URGENT = pod("urgent").requests(cpu="1").priority(100)


@pytest.mark.parametrize("name", ["n1", "n2"])
def test_extenders_trim_what_preemption_has_found(name: str) -> None:
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
    ("answer", "told"),
    [
        pytest.param(ExtenderPreemptionResult({}), "no candidate node for preemption", id="nothing is left"),
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
def test_where_extenders_leave_nothing_nobody_is_evicted(answer: ExtenderResult, told: str) -> None:
    harness = full(PREEMPT)
    harness.call_extender = lambda *_: answer
    harness.add(URGENT)
    harness.run()
    assert harness.evicted() == []
    assert harness.pending_message("urgent").endswith(f"preemption: {told}")


@pytest.mark.parametrize(
    "answer",
    [ExtenderCallFailed("boom"), ExtenderPreemptionResult({"n1": Victims(("x",))})],
    ids=["a failure", "an unknown pod"],
)
def test_what_an_ignorable_extender_gets_wrong_is_ignored(answer: ExtenderResult) -> None:
    harness = full(IGNORABLE)
    harness.call_extender = lambda *_: answer
    harness.add(URGENT)
    harness.run()
    assert len(harness.evicted()) == 1


def test_a_node_for_which_an_ignorable_extender_names_no_victims_is_dropped() -> None:
    harness = full(IGNORABLE)
    harness.call_extender = lambda *_: ExtenderPreemptionResult({"n1": Victims(()), "n2": Victims(("low2",))})
    harness.add(URGENT)
    harness.run()
    assert harness.evicted() == ["low2"]


def thinking() -> Harness:
    """An extender has been asked about an urgent pod, and is going to say that `low1` must leave n1 for it."""
    harness = full(PREEMPT)
    harness.complete_extender_calls = False
    harness.call_extender = lambda *_: ExtenderPreemptionResult({"n1": Victims(("low1",))})
    harness.add(URGENT)
    harness.run()
    return harness


def test_a_victim_that_goes_while_they_think_is_not_evicted() -> None:
    harness = thinking()
    harness.delete_pod("low1")
    harness.answer()
    assert harness.evicted() == []
    assert harness.pending_message("urgent") == "0/2 nodes are available: 2 Insufficient cpu."
    harness.advance(5)
    assert harness.assignments["urgent"] == "n1"


def test_a_node_that_goes_while_they_think_is_not_preempted_on() -> None:
    harness = thinking()
    harness.delete_node("n1")
    harness.answer()
    assert harness.evicted() == []
    assert harness.pending_message("urgent").endswith("no candidate node for preemption")
