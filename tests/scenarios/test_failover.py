"""Stories of one scheduler after another: what the first had in memory is found again in what the API server shows."""

from __future__ import annotations

import pytest

from pyscheduler.core.commands import PatchStatus
from pyscheduler.testing import Harness, NodeBuilder, node, pod
from tests.scenarios.test_pod_groups import ON, add_group, member, waiting_in


def standby(first: Harness, *nodes: NodeBuilder) -> Harness:
    """One that has followed the cluster and made no attempt."""
    made = Harness(ON)
    made.add(*nodes, *first._pods.values())
    return made


ONE_NODE = node("n1", cpu="2")


def preempting() -> Harness:
    """A pod has been promised the node whose only pod is on its way out; there would be room for a smaller one."""
    first = Harness()
    first.graceful = True
    first.add(ONE_NODE, pod("victim").requests(cpu="1").on("n1"), pod("promised").priority(9).requests(cpu="2"))
    first.run()
    assert first.evicted() == ["victim"]
    assert [c.nominated_node_name for c in first.commands if isinstance(c, PatchStatus)] == ["n1"]
    return first


def test_a_pod_that_was_promised_a_node_gets_it_and_nobody_else_is_evicted() -> None:
    second = standby(preempting(), ONE_NODE)
    second.add(pod("small").requests(cpu="1"))
    second.advance(30)
    assert (second.assignments, second.evicted()) == ({"victim": "n1"}, [])
    second.delete_pod("victim")
    second.advance(30)
    assert second.assignments == {"promised": "n1"}


def test_a_standby_that_saw_the_promise_being_made_keeps_it_too() -> None:
    second = Harness()
    promised = pod("promised").priority(9).requests(cpu="2")
    second.add(ONE_NODE, pod("victim").requests(cpu="1").on("n1"), promised)
    second.add(pod("victim").requests(cpu="1").on("n1").deleting(), promised.nominated("n1"))
    second.add(pod("small").requests(cpu="1"))
    second.advance(30)
    assert (second.assignments, second.evicted()) == ({"victim": "n1"}, [])


@pytest.mark.parametrize("arrived", [True, False], ids=["the binding arrived", "the binding was lost"])
def test_a_pod_whose_binding_was_under_way_is_bound_once(arrived: bool) -> None:
    first = Harness()
    first.complete_bindings = False
    first.add(ONE_NODE, pod("a").requests(cpu="2"))
    first.run()
    second = standby(first, ONE_NODE)
    if arrived:
        first.confirm_binding("a")
        second.add(*first._pods.values())
    second.advance(1)
    assert second.bound_order == ([] if arrived else ["a"])
    assert second.assignments == {"a": "n1"}


def test_members_of_a_gang_that_waited_for_another_gather_again() -> None:
    first = Harness(ON)
    add_group(first)
    first.add(ONE_NODE, member("a"), member("b"), member("c"))
    first.run()
    assert len(waiting_in(first)) == 2
    second = Harness(ON)
    add_group(second)
    second.add(ONE_NODE, *first._pods.values())
    second.run()
    assert (len(waiting_in(second)), second.assignments) == (2, {})
    second.add(node("n2", cpu="1"))
    second.advance(15)
    assert sorted(second.assignments) == ["a", "b", "c"]


def test_a_standby_does_not_try_what_the_leader_binds() -> None:
    first, second = Harness(), Harness()
    for each in (first, second):
        each.add(ONE_NODE, pod("a").requests(cpu="1"), pod("b").requests(cpu="2"))
    first.run()
    second.add(*first._pods.values())
    assert second.commands == []
    second.run()
    assert second.bound_order == []
    assert second.machine.context.queue.pending_counts()["unschedulable"] == 1
