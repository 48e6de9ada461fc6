"""Stories of attempts in which extenders have a say, and of what may happen while they think."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from pyscheduler.api import Pod
from pyscheduler.core.commands import PatchStatus
from pyscheduler.core.events import ExtendersResponded
from pyscheduler.core.extender import (
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
NO_ROOM = "no new claims to deallocate, preemption: 0/3 nodes are available: "


def config(*extenders: str, more: str = "") -> str:
    return f"""
apiVersion: kubescheduler.config.k8s.io/v1
kind: KubeSchedulerConfiguration
extenders: [{", ".join(extenders)}]
{more}
"""


def build_harness(*extenders: str, nodes: int = 3, more: str = "", seed: int = 0) -> Harness:
    """Nodes n1, n2 … of one core each, and extenders that have nothing against any of them."""
    harness = Harness(config(*extenders, more=more), seed=seed)
    harness.add(*(node(f"n{i}", cpu="1") for i in range(1, nodes + 1)))
    harness.call_extender = agree
    return harness


def thinking(*extenders: str, nodes: int = 3) -> Harness:
    """The same, but they take their time."""
    harness = build_harness(*extenders, nodes=nodes)
    harness.complete_extender_calls = False
    return harness


def agree(_: Pod, call: ExtenderCall) -> ExtenderResult:
    if isinstance(call, FilterCall):
        return ExtenderFilterResult(call.nodes)
    if isinstance(call, PrioritizeCall):
        return ExtenderPrioritizeResult(tuple((name, 0) for name in call.nodes))
    victims = {name: tuple(victim.uid for victim in found.victims) for name, found in call.candidates.items()}
    return ExtenderPreemptionResult({name: Victims(uids) for name, uids in victims.items()})


def keeping(*names: str) -> Callable[[Pod, ExtenderCall], ExtenderResult]:
    """An extender that keeps just these nodes, without a word about the others."""

    def answer(_: Pod, call: ExtenderCall) -> ExtenderResult:
        assert isinstance(call, FilterCall)
        return ExtenderFilterResult(tuple(name for name in names if name in call.nodes))

    return answer


def nodes_asked(harness: Harness) -> list[tuple[str, tuple[str, ...]]]:
    """Who was asked of which nodes, in row order."""
    return [(c.extender.url, tuple(sorted(c.nodes))) for c in harness.extender_calls if not isinstance(c, PreemptCall)]


# -- filter ------------------------------------------------------------------------------------------------------------


def test_a_pod_goes_where_an_extender_lets_it() -> None:
    harness = build_harness(FILTER)
    harness.call_extender = keeping("n2")
    harness.add(pod("a"))
    harness.run()
    assert harness.assignments == {"a": "n2"}
    assert nodes_asked(harness) == [("http://filters", ("n1", "n2", "n3"))]


def test_extenders_are_asked_in_turn_those_first_whose_errors_count() -> None:
    harness = build_harness(IGNORABLE, FILTER)
    harness.call_extender = lambda _, call: (
        ExtenderFilterResult(("n1", "n3")) if call.extender.url == "http://filters" else ExtenderFilterResult(("n3",))
    )
    harness.add(pod("a"))
    harness.run()
    assert harness.assignments == {"a": "n3"}
    assert nodes_asked(harness) == [("http://filters", ("n1", "n2", "n3")), ("http://ignorable", ("n1", "n3"))]


def test_only_nodes_that_plugins_let_through_are_asked_about() -> None:
    harness = build_harness(FILTER)
    harness.add(node("n2", cpu="100m"), pod("a").requests(cpu="1"))
    harness.run()
    assert nodes_asked(harness) == [("http://filters", ("n1", "n3"))]


def test_nobody_is_asked_where_plugins_let_nothing_through() -> None:
    harness = build_harness(FILTER)
    harness.add(pod("a").requests(cpu="2"))
    harness.run()
    assert not harness.extender_calls
    assert harness.pending_message("a").startswith("0/3 nodes are available: 3 Insufficient cpu.")


def test_what_extenders_say_of_nodes_is_told() -> None:
    harness = build_harness(FILTER)
    harness.call_extender = lambda *_: ExtenderFilterResult((), {"n1": "no fpga"}, {"n2": "wrong rack"})
    harness.add(pod("a"))
    harness.run()
    assert harness.pending_message("a") == (
        f"0/3 nodes are available: 1 no fpga, 1 wrong rack. {NO_ROOM}"
        "1 No preemption victims found for incoming pod, 2 Preemption is not helpful for scheduling."
    )


def test_a_node_that_is_in_both_lists_cannot_be_helped() -> None:
    harness = build_harness(FILTER, nodes=1)
    harness.call_extender = lambda *_: ExtenderFilterResult((), {"n1": "maybe"}, {"n1": "never"})
    harness.add(pod("a"))
    harness.run()
    assert harness.pending_message("a").startswith("0/1 nodes are available: 1 never.")


@pytest.mark.parametrize("more", ["", "percentageOfNodesToScore: 100"], ids=["every node", "kube-scheduler's order"])
def test_the_order_of_nodes_is_the_profiles(more: str) -> None:
    harness = build_harness(FILTER, more=more)
    harness.add(pod("a"))
    harness.run()
    assert nodes_asked(harness) == [("http://filters", ("n1", "n2", "n3"))]
    assert "a" in harness.assignments


def test_a_failure_costs_the_pod_an_attempt() -> None:
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


def test_a_failure_of_one_that_is_ignorable_costs_nothing() -> None:
    harness = build_harness(IGNORABLE)
    harness.call_extender = lambda *_: ExtenderCallFailed("boom")
    harness.add(pod("a"))
    harness.run()
    assert "a" in harness.assignments


def test_a_pod_that_an_extender_has_rejected_is_woken_by_any_event() -> None:
    harness = build_harness(FILTER)
    harness.call_extender = keeping()
    harness.add(pod("a"))
    harness.run()
    harness.advance(20)
    asked = len(harness.extender_calls)
    harness.add(node("n1", cpu="1").annotation("seen"))
    harness.advance(2)
    assert len(harness.extender_calls) == asked + 1


def test_extenders_are_asked_about_their_own_pods_only() -> None:
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


def test_scores_are_added_to_those_of_plugins() -> None:
    harness = build_harness(RANK)
    harness.add(pod("fills").requests(cpu="500m").on("n2"))  # plugins would rather have another node
    harness.call_extender = lambda *_: ExtenderPrioritizeResult((("n2", 10), ("elsewhere", 1000)))
    harness.add(pod("a").requests(cpu="100m"))
    harness.run()
    assert harness.assignments["a"] == "n2"


def test_all_extenders_that_rank_are_asked_at_once_and_their_scores_count_together() -> None:
    harness = thinking(RANK, '{urlPrefix: "http://more", prioritizeVerb: p, weight: 5}')
    scores = {"http://ranks": (("n1", 4), ("n2", 1)), "http://more": (("n2", 1),)}
    harness.call_extender = lambda _, call: ExtenderPrioritizeResult(scores[call.extender.url])
    harness.add(pod("a"))
    harness.run()
    assert [call.extender.url for call in harness.extender_calls] == ["http://ranks", "http://more"]
    harness.answer()
    assert harness.assignments == {"a": "n1"}  # 2*4 against 2*1 + 5*1


def test_failures_to_rank_count_for_nothing() -> None:
    harness = build_harness(RANK)
    harness.call_extender = lambda *_: ExtenderCallFailed("boom")
    harness.add(pod("a"))
    harness.run()
    assert "a" in harness.assignments


def test_a_single_node_is_not_ranked() -> None:
    harness = build_harness(FILTER, RANK)
    harness.call_extender = keeping("n2")
    harness.add(pod("a"))
    harness.run()
    assert harness.assignments == {"a": "n2"}
    assert not [call for call in harness.extender_calls if isinstance(call, PrioritizeCall)]


def test_absurd_scores_do_no_harm() -> None:
    harness = build_harness(RANK)
    harness.call_extender = lambda *_: ExtenderPrioritizeResult(
        (("n1", -(2**63)), ("n2", 2**63 - 1), ("n2", 2**63 - 1))
    )
    harness.add(pod("a"))
    harness.run()
    assert harness.assignments == {"a": "n2"}


def test_ties_are_left_to_chance_among_those_spoken_of_in_kube_schedulers_order_too() -> None:
    """Kube-scheduler draws a number for the nodes in an extender's answer; all others keep none."""
    picked = set()
    for seed in range(12):
        harness = build_harness(RANK, nodes=4, more="percentageOfNodesToScore: 100", seed=seed)
        harness.call_extender = lambda *_: ExtenderPrioritizeResult((("n3", 0), ("n4", 0)))
        harness.add(pod("a"))
        harness.run()
        picked.add(harness.assignments["a"])
    assert picked == {"n3", "n4"}


# -- the nominated node ------------------------------------------------------------------------------------------------


def test_the_nominated_node_is_asked_about_alone_and_taken_if_it_may() -> None:
    harness = build_harness(FILTER)
    harness.add(pod("a").nominated("n3"))
    harness.run()
    assert nodes_asked(harness) == [("http://filters", ("n3",))]
    assert harness.assignments == {"a": "n3"}


def test_if_it_may_not_all_nodes_are_asked_about() -> None:
    harness = build_harness(FILTER)
    harness.call_extender = keeping("n1")
    harness.add(pod("a").nominated("n3"))
    harness.run()
    assert nodes_asked(harness) == [("http://filters", ("n3",)), ("http://filters", ("n1", "n2", "n3"))]
    assert harness.assignments == {"a": "n1"}


def test_a_failure_over_the_nominated_node_is_no_failure_yet() -> None:
    harness = build_harness(FILTER)
    harness.call_extender = lambda _, call: (
        ExtenderCallFailed("boom")
        if isinstance(call, FilterCall) and len(call.nodes) == 1
        else ExtenderFilterResult(("n2",))
    )
    harness.add(pod("a").nominated("n3"))
    harness.run()
    assert harness.assignments == {"a": "n2"}


def test_a_nominated_node_outside_of_prefilters_nodes_keeps_the_extenders_reason() -> None:
    """Filter lets the pod through there only because NodeAffinity's is disabled."""
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


# -- while they think --------------------------------------------------------------------------------------------------


def test_no_other_attempt_is_made_and_events_are_handled() -> None:
    harness = thinking(FILTER)
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


def test_pods_that_rest_do_not_wake_the_loop_before_their_time() -> None:
    harness = thinking(FILTER)
    harness.call_extender = keeping()
    harness.add(pod("rests"))
    harness.run()
    harness.answer()
    harness.add(node("n9"))  # it may help: the pod backs off, and could be tried early if nothing else were
    harness.add(pod("a").priority(5))
    harness.run()
    assert len(harness.extender_calls) == 2
    wake = harness.machine.next_wake()
    assert wake is not None
    assert wake >= harness.now + 1


def gone(harness: Harness) -> None:
    harness.delete_node("n1")


def cordoned(harness: Harness) -> None:
    harness.add(node("n1", cpu="1").unschedulable())


def filled(harness: Harness) -> None:
    harness.add(pod("theirs").requests(cpu="1").on("n1"))


@pytest.mark.parametrize("happens", [gone, cordoned, filled])
def test_a_node_that_no_longer_fits_is_left_out(happens: Callable[[Harness], None]) -> None:
    harness = thinking(FILTER)
    harness.call_extender = keeping("n1", "n2")
    harness.add(pod("a").requests(cpu="500m"))
    harness.run()
    happens(harness)
    harness.answer()
    harness.run()
    assert harness.assignments["a"] == "n2"


@pytest.mark.parametrize("happens", [gone, cordoned, filled])
def test_where_no_other_is_left_the_pod_waits(happens: Callable[[Harness], None]) -> None:
    harness = thinking(FILTER)
    harness.call_extender = keeping("n1")
    harness.add(pod("a").requests(cpu="500m"))
    harness.run()
    happens(harness)
    harness.answer()
    harness.run()
    assert "a" not in harness.assignments
    assert "nodes are available" in harness.pending_message("a")


def test_a_node_that_goes_while_nodes_are_ranked_is_left_out() -> None:
    harness = thinking(RANK)
    harness.call_extender = lambda *_: ExtenderPrioritizeResult((("n1", 10), ("n2", 5), ("n3", 0)))
    harness.add(pod("a"))
    harness.run()
    harness.delete_node("n1")
    harness.answer()
    assert harness.assignments == {"a": "n2"}


def test_where_all_nodes_go_the_pod_is_told_so() -> None:
    harness = thinking(FILTER, nodes=1)
    harness.add(pod("a"))
    harness.run()
    harness.delete_node("n1")
    harness.answer()
    assert harness.pending_message("a") == "no nodes available to schedule pods"


def test_a_pod_that_is_deleted_makes_way_for_the_next_at_once() -> None:
    harness = thinking(FILTER)
    harness.add(pod("a").priority(9), pod("b"))
    harness.run()
    harness.delete_pod("a")
    harness.run()
    assert len(harness.extender_calls) == 2
    harness.handle_event(ExtendersResponded(harness.now, 1, (ExtenderFilterResult(("n1",)),)))  # too late
    assert harness.assignments == {}
    harness.answer()
    assert set(harness.assignments) == {"b"}


def test_a_pod_whose_deletion_begins_is_skipped() -> None:
    harness = thinking(FILTER)
    harness.add(pod("a"))
    harness.run()
    harness.add(pod("a").deleting())
    harness.answer()
    harness.run()
    assert harness.assignments == {}
    assert harness.events("a") == [("FailedScheduling", "skip schedule deleting pod: default/a")]


def test_a_pod_that_somebody_else_binds_is_let_go_of() -> None:
    harness = thinking(FILTER)
    harness.add(pod("a"), pod("b"))
    harness.run()
    harness.add(pod("a").on("n3"))
    harness.answer()
    harness.run()
    assert harness.assignments == {"a": "n3"}
    assert harness.bound_order == []
    assert len(harness.extender_calls) == 2, "it is b's turn"


def test_a_pod_that_has_become_another_is_asked_about_anew() -> None:
    harness = thinking(FILTER)
    harness.add(pod("a"))
    harness.run()
    harness.add(pod("a").label("app", "web"))
    harness.answer()  # about the pod that was
    assert harness.assignments == {}
    harness.run()
    assert len(harness.extender_calls) == 2
    harness.answer()
    assert set(harness.assignments) == {"a"}
    assert harness.machine.context.queue.pending() == []


def test_a_change_that_scheduling_does_not_read_changes_nothing() -> None:
    harness = thinking(FILTER)
    harness.add(pod("a"))
    harness.run()
    harness.add(pod("a").condition(type="Example", status="True"))
    harness.run()
    assert len(harness.extender_calls) == 1
    harness.answer()
    assert set(harness.assignments) == {"a"}


def test_what_happens_meanwhile_may_help_the_pod_that_is_rejected() -> None:
    harness = thinking(FILTER)
    harness.call_extender = keeping()
    harness.add(pod("a"))
    harness.run()
    harness.add(node("n4"))
    harness.answer()
    harness.call_extender, harness.complete_extender_calls = keeping("n4"), True
    harness.advance(2)
    assert harness.assignments == {"a": "n4"}
