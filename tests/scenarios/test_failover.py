"""Failover: a second scheduler continues with the state that the API server has."""

from __future__ import annotations

import pytest

from pyscheduler.core.commands import PatchStatus
from pyscheduler.testing import Harness, NodeBuilder, node, pod
from tests.scenarios.test_pod_groups import ON, add_group, member


def standby(first: Harness, *nodes: NodeBuilder) -> Harness:
    """Return a scheduler that has the same cluster and made no attempt."""
    second = Harness(ON)
    second.add(*nodes, *first._pods.values())
    return second


ONE_NODE = node("n1", cpu="2")


def preempting() -> Harness:
    """Return a cluster with a pod nominated to the node of its terminating victim, which a smaller pod would fit."""
    first = Harness()
    first.graceful = True
    first.add(ONE_NODE, pod("victim").requests(cpu="1").on("n1"), pod("nominated").priority(9).requests(cpu="2"))
    first.run()
    assert first.evicted() == ["victim"]
    assert [c.nominated_node_name for c in first.commands if isinstance(c, PatchStatus)] == ["n1"]
    return first


def test_nominated_pod_is_bound_by_the_second_scheduler_without_further_evictions() -> None:
    second = standby(preempting(), ONE_NODE)
    second.add(pod("small").requests(cpu="1"))
    second.advance(30)
    assert (second.assignments, second.evicted()) == ({"victim": "n1"}, [])
    second.delete_pod("victim")
    second.advance(30)
    assert second.assignments == {"nominated": "n1"}


def test_standby_that_watched_the_nomination_respects_it() -> None:
    second = Harness()
    nominated = pod("nominated").priority(9).requests(cpu="2")
    second.add(ONE_NODE, pod("victim").requests(cpu="1").on("n1"), nominated)
    second.add(pod("victim").requests(cpu="1").on("n1").deleting(), nominated.nominated("n1"))
    second.add(pod("small").requests(cpu="1"))
    second.advance(30)
    assert (second.assignments, second.evicted()) == ({"victim": "n1"}, [])


@pytest.mark.parametrize("arrived", [True, False], ids=["the binding arrived", "the binding was lost"])
def test_pod_with_a_pending_binding_at_failover_is_bound_once(arrived: bool) -> None:
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


def test_gang_without_room_waits_for_room_after_failover() -> None:
    first = Harness(ON)
    add_group(first)
    first.add(ONE_NODE, member("a"), member("b"), member("c"))
    first.run()
    assert first.assignments == {}
    second = Harness(ON)
    add_group(second)
    second.add(ONE_NODE, *first._pods.values())
    second.run()
    assert second.assignments == {}
    second.add(node("n2", cpu="1"))
    second.advance(15)
    assert sorted(second.assignments) == ["a", "b", "c"]


def test_standby_makes_no_attempt_for_pods_that_the_leader_bound() -> None:
    first, second = Harness(), Harness()
    for each in (first, second):
        each.add(ONE_NODE, pod("a").requests(cpu="1"), pod("b").requests(cpu="2"))
    first.run()
    second.add(*first._pods.values())
    assert second.commands == []
    second.run()
    assert second.bound_order == []
    assert second.machine.context.queue.pending_counts()["unschedulable"] == 1
