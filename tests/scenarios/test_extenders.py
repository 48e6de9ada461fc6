"""Scheduling attempts with extenders, and events during their calls."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from pyscheduler.api import Pod
from pyscheduler.core.commands import PatchStatus
from pyscheduler.core.events import ExtendersResponded
from pyscheduler.core.extenders.extender import (
    ExtenderCall,
    ExtenderCallFailed,
    ExtenderFilterResult,
    ExtenderPreemptionResult,
    ExtenderPrioritizeResult,
    ExtenderResult,
    FilterCall,
    PreemptCall,
    PrioritizeCall,
    Victims,
)
from pyscheduler.testing import Harness, node, pod

FILTER = '{urlPrefix: "http://filters", filterVerb: filter}'
IGNORABLE = '{urlPrefix: "http://ignorable", filterVerb: filter, ignorable: true}'
RANK = '{urlPrefix: "http://ranks", prioritizeVerb: prioritize, weight: 2}'
FPGA = '{urlPrefix: "http://fpga", filterVerb: filter, managedResources: [{name: example.com/fpga}]}'
NO_ROOM = "preemption: 0/3 nodes are available: "


def config(*extenders: str, more: str = "") -> str:
    return f"""
apiVersion: kubescheduler.config.k8s.io/v1
kind: KubeSchedulerConfiguration
extenders: [{", ".join(extenders)}]
{more}
"""


def build_harness(*extenders: str, nodes: int = 3, more: str = "", seed: int = 0) -> Harness:
    """Return a cluster of nodes n1, n2 … of one core each, with extenders that accept all of them."""
    harness = Harness(config(*extenders, more=more), seed=seed)
    harness.add(*(node(f"n{i}", cpu="1") for i in range(1, nodes + 1)))
    harness.call_extender = agree
    return harness


def build_pending(*extenders: str, nodes: int = 3) -> Harness:
    """Return the same cluster with extender calls that stay pending until `answer`."""
    harness = build_harness(*extenders, nodes=nodes)
    harness.complete_extender_calls = False
    return harness


def agree(_: Pod, call: ExtenderCall) -> ExtenderResult:
    if isinstance(call, FilterCall):
        return ExtenderFilterResult(call.nodes)
    if isinstance(call, PrioritizeCall):
        return ExtenderPrioritizeResult(tuple((name, 0) for name in call.nodes))
    victims = {name: tuple(victim.uid for victim in candidate.victims) for name, candidate in call.candidates.items()}
    return ExtenderPreemptionResult({name: Victims(uids) for name, uids in victims.items()})


def keeping(*names: str) -> Callable[[Pod, ExtenderCall], ExtenderResult]:
    """Return an extender that accepts only these nodes, without reasons for the others."""

    def keep(_: Pod, call: ExtenderCall) -> ExtenderResult:
        assert isinstance(call, FilterCall)
        return ExtenderFilterResult(tuple(name for name in names if name in call.nodes))

    return keep


def calls_by_url(harness: Harness) -> list[tuple[str, tuple[str, ...]]]:
    """Return the URL and the nodes of each filter or prioritize call."""
    return [(c.extender.url, tuple(sorted(c.nodes))) for c in harness.extender_calls if not isinstance(c, PreemptCall)]


# -- filter ------------------------------------------------------------------------------------------------------------


def test_pod_is_bound_to_the_node_that_an_extender_accepts() -> None:
    harness = build_harness(FILTER)
    harness.call_extender = keeping("n2")
    harness.add(pod("a"))
    harness.run()
    assert harness.assignments == {"a": "n2"}
    assert calls_by_url(harness) == [("http://filters", ("n1", "n2", "n3"))]


def test_extenders_are_called_in_turn_ignorable_ones_last() -> None:
    harness = build_harness(IGNORABLE, FILTER)
    harness.call_extender = lambda _, call: (
        ExtenderFilterResult(("n1", "n3")) if call.extender.url == "http://filters" else ExtenderFilterResult(("n3",))
    )
    harness.add(pod("a"))
    harness.run()
    assert harness.assignments == {"a": "n3"}
    assert calls_by_url(harness) == [("http://filters", ("n1", "n2", "n3")), ("http://ignorable", ("n1", "n3"))]


def test_extender_is_called_with_the_nodes_that_plugins_accept() -> None:
    harness = build_harness(FILTER)
    harness.add(node("n2", cpu="100m"), pod("a").requests(cpu="1"))
    harness.run()
    assert calls_by_url(harness) == [("http://filters", ("n1", "n3"))]


def test_no_extender_is_called_if_plugins_accept_no_node() -> None:
    harness = build_harness(FILTER)
    harness.add(pod("a").requests(cpu="2"))
    harness.run()
    assert not harness.extender_calls
    assert harness.pending_message("a").startswith("0/3 nodes are available: 3 Insufficient cpu.")


def test_reasons_of_extenders_are_in_the_message() -> None:
    harness = build_harness(FILTER)
    harness.call_extender = lambda *_: ExtenderFilterResult((), {"n1": "no fpga"}, {"n2": "wrong rack"})
    harness.add(pod("a"))
    harness.run()
    assert harness.pending_message("a") == (
        f"0/3 nodes are available: 1 no fpga, 1 wrong rack. {NO_ROOM}"
        "1 No preemption victims found for incoming pod, 2 Preemption is not helpful for scheduling."
    )


def test_node_that_is_failed_and_unresolvable_is_unresolvable() -> None:
    harness = build_harness(FILTER, nodes=1)
    harness.call_extender = lambda *_: ExtenderFilterResult((), {"n1": "maybe"}, {"n1": "never"})
    harness.add(pod("a"))
    harness.run()
    assert harness.pending_message("a").startswith("0/1 nodes are available: 1 never.")


@pytest.mark.parametrize("more", ["", "percentageOfNodesToScore: 100"], ids=["every node", "kube-scheduler's order"])
def test_all_nodes_are_passed_in_either_node_order(more: str) -> None:
    harness = build_harness(FILTER, more=more)
    harness.add(pod("a"))
    harness.run()
    assert calls_by_url(harness) == [("http://filters", ("n1", "n2", "n3"))]
    assert "a" in harness.assignments


def test_attempt_fails_when_an_extender_fails() -> None:
    harness = build_harness(FILTER)
    harness.call_extender = lambda *_: ExtenderCallFailed(
        "failed filter with extender at URL http://filters/filter, code 500"
    )
    harness.add(pod("a"))
    harness.run()
    assert harness.events("a") == [
        ("FailedScheduling", "failed filter with extender at URL http://filters/filter, code 500")
    ]
    patches = [c.condition.reason for c in harness.commands if isinstance(c, PatchStatus) and c.condition]
    assert patches == ["SchedulerError"]
    harness.call_extender = agree
    harness.advance(2)
    assert "a" in harness.assignments


def test_failure_of_an_ignorable_extender_is_ignored() -> None:
    harness = build_harness(IGNORABLE)
    harness.call_extender = lambda *_: ExtenderCallFailed("boom")
    harness.add(pod("a"))
    harness.run()
    assert "a" in harness.assignments


def test_any_event_requeues_a_pod_that_an_extender_rejected() -> None:
    harness = build_harness(FILTER)
    harness.call_extender = keeping()
    harness.add(pod("a"))
    harness.run()
    harness.advance(20)
    calls = len(harness.extender_calls)
    harness.add(node("n1", cpu="1").annotation("changed"))
    harness.advance(2)
    assert len(harness.extender_calls) == calls + 1


def test_extender_is_called_only_for_pods_with_managed_resources() -> None:
    harness = build_harness(FPGA)
    for i in (1, 2, 3):
        harness.add(node(f"n{i}", cpu="1").has("example.com/fpga", "1"))
    harness.call_extender = keeping("n3")
    mine = pod("mine").request("example.com/fpga", "1").limits(**{"example.com/fpga": "1"})
    harness.add(pod("other"), mine)
    harness.run()
    assert set(harness.assignments) == {"mine", "other"}
    assert harness.assignments["mine"] == "n3"
    assert len(harness.extender_calls) == 1


# -- prioritize --------------------------------------------------------------------------------------------------------


def test_scores_of_extenders_are_added_to_those_of_plugins() -> None:
    harness = build_harness(RANK)
    harness.add(pod("fills").requests(cpu="500m").on("n2"))  # plugins prefer another node
    harness.call_extender = lambda *_: ExtenderPrioritizeResult((("n2", 10), ("elsewhere", 1000)))
    harness.add(pod("a").requests(cpu="100m"))
    harness.run()
    assert harness.assignments["a"] == "n2"


def test_prioritize_calls_are_concurrent_and_their_scores_are_summed() -> None:
    harness = build_pending(RANK, '{urlPrefix: "http://more", prioritizeVerb: p, weight: 5}')
    scores = {"http://ranks": (("n1", 4), ("n2", 1)), "http://more": (("n2", 1),)}
    harness.call_extender = lambda _, call: ExtenderPrioritizeResult(scores[call.extender.url])
    harness.add(pod("a"))
    harness.run()
    assert [call.extender.url for call in harness.extender_calls] == ["http://ranks", "http://more"]
    harness.answer()
    assert harness.assignments == {"a": "n1"}  # 2*4 > 2*1 + 5*1


def test_failed_prioritize_call_is_ignored() -> None:
    harness = build_harness(RANK)
    harness.call_extender = lambda *_: ExtenderCallFailed("boom")
    harness.add(pod("a"))
    harness.run()
    assert "a" in harness.assignments


def test_prioritize_is_not_called_for_a_single_node() -> None:
    harness = build_harness(FILTER, RANK)
    harness.call_extender = keeping("n2")
    harness.add(pod("a"))
    harness.run()
    assert harness.assignments == {"a": "n2"}
    assert not [call for call in harness.extender_calls if isinstance(call, PrioritizeCall)]


def test_extreme_scores_do_not_overflow() -> None:
    harness = build_harness(RANK)
    harness.call_extender = lambda *_: ExtenderPrioritizeResult(
        (("n1", -(2**63)), ("n2", 2**63 - 1), ("n2", 2**63 - 1))
    )
    harness.add(pod("a"))
    harness.run()
    assert harness.assignments == {"a": "n2"}


def test_ties_among_the_nodes_of_an_extender_result_are_broken_by_the_seed() -> None:
    """Kube-scheduler draws a random number only for the nodes in an extender's result."""
    picked = set()
    for seed in range(12):
        harness = build_harness(RANK, nodes=4, more="percentageOfNodesToScore: 100", seed=seed)
        harness.call_extender = lambda *_: ExtenderPrioritizeResult((("n3", 0), ("n4", 0)))
        harness.add(pod("a"))
        harness.run()
        picked.add(harness.assignments["a"])
    assert picked == {"n3", "n4"}


# -- the nominated node ------------------------------------------------------------------------------------------------


def test_extender_is_called_for_the_nominated_node_alone_first() -> None:
    harness = build_harness(FILTER)
    harness.add(pod("a").nominated("n3"))
    harness.run()
    assert calls_by_url(harness) == [("http://filters", ("n3",))]
    assert harness.assignments == {"a": "n3"}


def test_extender_is_called_for_all_nodes_if_it_rejects_the_nominated_one() -> None:
    harness = build_harness(FILTER)
    harness.call_extender = keeping("n1")
    harness.add(pod("a").nominated("n3"))
    harness.run()
    assert calls_by_url(harness) == [("http://filters", ("n3",)), ("http://filters", ("n1", "n2", "n3"))]
    assert harness.assignments == {"a": "n1"}


def test_failed_call_for_the_nominated_node_does_not_fail_the_attempt() -> None:
    harness = build_harness(FILTER)
    harness.call_extender = lambda _, call: (
        ExtenderCallFailed("boom")
        if isinstance(call, FilterCall) and len(call.nodes) == 1
        else ExtenderFilterResult(("n2",))
    )
    harness.add(pod("a").nominated("n3"))
    harness.run()
    assert harness.assignments == {"a": "n2"}


def test_nominated_node_outside_of_prefilters_nodes_keeps_the_extenders_reason() -> None:
    """The node passes Filter only because NodeAffinity is disabled there."""
    profiles = "profiles: [{plugins: {filter: {disabled: [{name: NodeAffinity}]}}}]"
    harness = build_harness(FILTER, more=profiles)
    harness.call_extender = lambda _, call: (
        ExtenderFilterResult((), failed={name: f"{name} is out of order" for name in call.nodes})
        if isinstance(call, FilterCall)
        else ExtenderCallFailed("no")
    )
    only_n1 = {"matchFields": [{"key": "metadata.name", "operator": "In", "values": ["n1"]}]}
    harness.add(pod("a").node_affinity(only_n1).nominated("n3"))
    harness.run()
    assert harness.pending_message("a").startswith(
        "0/3 nodes are available: 1 n1 is out of order, 1 n3 is out of order,"
        " 1 node(s) didn't satisfy plugin(s) [NodeAffinity]."
    )


# -- during calls ------------------------------------------------------------------------------------------------------


def test_events_are_handled_and_no_attempt_is_made_during_an_extender_call() -> None:
    harness = build_pending(FILTER)
    harness.add(pod("a"), pod("b"))
    harness.run()
    assert len(harness.extender_calls) == 1
    harness.add(node("n4"))
    harness.run()
    assert len(harness.extender_calls) == 1
    harness.complete_extender_calls = True
    harness.answer()
    harness.run()
    assert set(harness.assignments) == {"a", "b"}
    assert [len(call.nodes) for call in harness.extender_calls if isinstance(call, FilterCall)] == [3, 4]


def test_pods_in_backoff_need_no_early_tick_during_an_extender_call() -> None:
    harness = build_pending(FILTER)
    harness.call_extender = keeping()
    harness.add(pod("backing-off"))
    harness.run()
    harness.answer()
    harness.add(node("n9"))  # it may help: the pod backs off, and could be popped early if no attempt were pending
    harness.add(pod("a").priority(5))
    harness.run()
    assert len(harness.extender_calls) == 2
    wake = harness.machine.next_wake()
    assert wake is not None
    assert wake >= harness.now + 1


def deleted(harness: Harness) -> None:
    harness.delete_node("n1")


def cordoned(harness: Harness) -> None:
    harness.add(node("n1", cpu="1").unschedulable())


def filled(harness: Harness) -> None:
    harness.add(pod("theirs").requests(cpu="1").on("n1"))


@pytest.mark.parametrize("change", [deleted, cordoned, filled])
def test_node_that_became_infeasible_during_the_call_is_not_chosen(change: Callable[[Harness], None]) -> None:
    harness = build_pending(FILTER)
    harness.call_extender = keeping("n1", "n2")
    harness.add(pod("a").requests(cpu="500m"))
    harness.run()
    change(harness)
    harness.answer()
    harness.run()
    assert harness.assignments["a"] == "n2"


@pytest.mark.parametrize("change", [deleted, cordoned, filled])
def test_pod_is_unschedulable_if_the_only_accepted_node_became_infeasible(change: Callable[[Harness], None]) -> None:
    harness = build_pending(FILTER)
    harness.call_extender = keeping("n1")
    harness.add(pod("a").requests(cpu="500m"))
    harness.run()
    change(harness)
    harness.answer()
    harness.run()
    assert "a" not in harness.assignments
    assert "nodes are available" in harness.pending_message("a")


def test_node_deleted_during_a_prioritize_call_is_not_chosen() -> None:
    harness = build_pending(RANK)
    harness.call_extender = lambda *_: ExtenderPrioritizeResult((("n1", 10), ("n2", 5), ("n3", 0)))
    harness.add(pod("a"))
    harness.run()
    harness.delete_node("n1")
    harness.answer()
    assert harness.assignments == {"a": "n2"}


def test_message_of_a_pod_when_all_nodes_are_deleted_during_the_call() -> None:
    harness = build_pending(FILTER, nodes=1)
    harness.add(pod("a"))
    harness.run()
    harness.delete_node("n1")
    harness.answer()
    assert harness.pending_message("a") == "no nodes available to schedule pods"


def test_next_pod_is_attempted_when_the_pod_of_a_call_is_deleted() -> None:
    harness = build_pending(FILTER)
    harness.add(pod("a").priority(9), pod("b"))
    harness.run()
    harness.delete_pod("a")
    harness.run()
    assert len(harness.extender_calls) == 2
    harness.handle_event(ExtendersResponded(harness.now, 1, (ExtenderFilterResult(("n1",)),)))  # too late
    assert harness.assignments == {}
    harness.answer()
    assert set(harness.assignments) == {"b"}


def test_pod_that_is_terminating_after_the_call_is_skipped() -> None:
    harness = build_pending(FILTER)
    harness.add(pod("a"))
    harness.run()
    harness.add(pod("a").deleting())
    harness.answer()
    harness.run()
    assert harness.assignments == {}
    assert harness.events("a") == [("FailedScheduling", "skip schedule deleting pod: default/a")]


def test_attempt_ends_when_another_scheduler_binds_the_pod_during_the_call() -> None:
    harness = build_pending(FILTER)
    harness.add(pod("a"), pod("b"))
    harness.run()
    harness.add(pod("a").on("n3"))
    harness.answer()
    harness.run()
    assert harness.assignments == {"a": "n3"}
    assert harness.bound_order == []
    assert len(harness.extender_calls) == 2, "the second call must be for b"


def test_attempt_starts_over_when_the_pod_changes_during_the_call() -> None:
    harness = build_pending(FILTER)
    harness.add(pod("a"))
    harness.run()
    harness.add(pod("a").label("app", "web"))
    harness.answer()  # for the old version of the pod
    assert harness.assignments == {}
    harness.run()
    assert len(harness.extender_calls) == 2
    harness.answer()
    assert set(harness.assignments) == {"a"}
    assert harness.machine.context.queue.pending() == []


def test_attempt_continues_when_only_fields_irrelevant_for_scheduling_change() -> None:
    harness = build_pending(FILTER)
    harness.add(pod("a"))
    harness.run()
    harness.add(pod("a").condition(type="Example", status="True"))
    harness.run()
    assert len(harness.extender_calls) == 1
    harness.answer()
    assert set(harness.assignments) == {"a"}


def test_event_during_the_call_requeues_the_pod_after_its_rejection() -> None:
    harness = build_pending(FILTER)
    harness.call_extender = keeping()
    harness.add(pod("a"))
    harness.run()
    harness.add(node("n4"))
    harness.answer()
    harness.call_extender, harness.complete_extender_calls = keeping("n4"), True
    harness.advance(2)
    assert harness.assignments == {"a": "n4"}
