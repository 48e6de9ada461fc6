"""The hierarchy: order, unknown parents, cycles, duplicates, closed parents."""

from __future__ import annotations

from pyscheduler_plugins.queues.hierarchy import link_queues, read_hierarchy
from pyscheduler_plugins.queues.queue import ELASTIC_QUOTA_POOL, Queue, QueueState


def test_parents_come_first() -> None:
    linked = link_queues([Queue(name="c", parent="b"), Queue(name="b", parent="a"), Queue(name="a")])
    assert list(linked.queues) == ["root", "a", "b", "c"]
    assert not linked.problems


def test_queue_named_root_limits_all() -> None:
    linked = link_queues([Queue(name="a"), Queue(name="root", parent="elsewhere", capability={"cpu": 1})])
    assert list(linked.queues) == ["root", "a"]
    assert linked.queues["root"].capability == {"cpu": 1}


def test_unknown_parent_is_named_for_the_queue_and_those_below_it() -> None:
    linked = link_queues([Queue(name="b", parent="a"), Queue(name="a", parent="gone"), Queue(name="c")])
    assert list(linked.queues) == ["root", "c"]
    assert linked.problems == {
        "a": 'spec.parent: Not found: "gone"',
        "b": 'spec.parent: Invalid value: "a": the parent "gone" of queue "a" is not found',
    }


def test_cycle_is_shown() -> None:
    linked = link_queues([Queue(name="a", parent="b"), Queue(name="b", parent="a"), Queue(name="c", parent="a")])
    assert linked.problems == {
        "a": 'spec.parent: Invalid value: "b": the parents form a cycle: a -> b -> a',
        "b": 'spec.parent: Invalid value: "a": the parents form a cycle: a -> b -> a',
        "c": 'spec.parent: Invalid value: "a": the parents form a cycle: a -> b -> a',
    }
    own_parent = link_queues([Queue(name="a", parent="a")])
    assert own_parent.problems == {"a": 'spec.parent: Invalid value: "a": the parents form a cycle: a -> a'}


def test_first_one_of_duplicate_queues_is_used() -> None:
    linked = link_queues([Queue(name="a", weight=1), Queue(name="a", weight=2)])
    assert linked.queues["a"].weight == 1
    assert linked.problems == {"a": 'metadata.name: Duplicate value: "a"'}


def test_namespace_has_one_quota() -> None:
    linked = link_queues([Queue(name="n/a", namespace="n"), Queue(name="n/b", namespace="n")])
    assert "n/b" not in linked.queues
    assert linked.problems == {"n/b": 'metadata.namespace: Duplicate value: "n": the namespace has the quota "n/a"'}


def test_queues_below_a_closed_queue_are_closing() -> None:
    closed = Queue(name="a", state=QueueState.CLOSED)
    linked = link_queues([closed, Queue(name="b", parent="a"), Queue(name="c", parent="b"), Queue(name="d")])
    states = {name: queue.state.value for name, queue in linked.queues.items()}
    assert states == {"root": "Open", "a": "Closed", "b": "Closing", "c": "Closing", "d": "Open"}
    assert linked.problems == {
        "b": 'spec.parent: Invalid value: "a": the queue is Closed',
        "c": 'spec.parent: Invalid value: "b": the queue is Closing',
    }


def test_objects_of_both_kinds_are_read() -> None:
    queues = [{"metadata": {"name": "a"}}, {"metadata": {"name": "bad"}, "spec": {"weight": "1"}}]
    quotas = [
        {"metadata": {"name": "q", "namespace": "n"}, "spec": {"min": {"cpu": 1}}},
        {"metadata": {"name": "r", "namespace": "m"}, "spec": {"max": 1}},
    ]
    read = read_hierarchy(queues, quotas)
    assert list(read.queues) == ["root", "a", ELASTIC_QUOTA_POOL, "n/q"]
    assert read.problems == {
        "bad": 'spec.weight: Invalid value: "1": must be an integer from 0 to 65535',
        "m/r": "spec.max: Invalid value: 1: must be an object",
    }
    assert read.quotas == {"n": "n/q", "m": "m/r"}


def test_valid_quota_of_a_namespace_precedes_invalid_ones() -> None:
    quotas = [
        {"metadata": {"name": name, "namespace": "n"}, "spec": {"max": {"cpu": cpu}}}
        for name, cpu in (("a", "much"), ("b", 1), ("c", 2))
    ]
    read = read_hierarchy([], quotas)
    assert read.quotas == {"n": "n/b"}
    assert sorted(read.problems) == ["n/a", "n/c"]


def test_long_chains_are_no_recursion() -> None:
    chain = [Queue(name=str(i), parent=str(i - 1) if i else "root") for i in range(3000)]
    assert len(link_queues(chain).queues) == 3001
    assert len(link_queues(chain[1:]).problems) == 2999
