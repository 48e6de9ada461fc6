"""The tree of queues: sums, shares, quotas, changes of queues and capacity."""

from __future__ import annotations

from collections.abc import Sequence
from fractions import Fraction
from typing import Any

import pytest

from pyscheduler_plugins.queues import queue_node
from pyscheduler_plugins.queues.hierarchy import link_queues
from pyscheduler_plugins.queues.max_min import Claim, max_min
from pyscheduler_plugins.queues.queue import Queue, QueueState, elastic_quota_pool
from pyscheduler_plugins.queues.tree import Exceeded, JobUsage, QueueTree

GPU = "nvidia.com/gpu"


def cores(n: float) -> dict[str, int]:
    return {"cpu": round(1000 * n)}


def queue(name: str, **fields: Any) -> Queue:
    return Queue(name=name, **fields)


def tree(*queues: Queue, cpu: float = 0, **others: int) -> QueueTree:
    return QueueTree(link_queues(queues), {**cores(cpu), **others})


def run(of: QueueTree, name: str, allocated: float = 0, pending: float = 0, job: str = "job") -> None:
    of.set_usage((name, job), name, JobUsage(cores(allocated), cores(pending)))


def deserved(of: QueueTree, *names: str) -> list[float]:
    return [of.deserved(name).get("cpu", 0) / 1000 for name in names]


# -- shares --------------------------------------------------------------------------------------------------------


def test_deserved_by_weight_and_request() -> None:
    t = tree(queue("t", weight=5), queue("u", weight=5), queue("default"), cpu=11)
    run(t, "t", allocated=11)
    run(t, "u", pending=2)
    assert deserved(t, "t", "u", "default") == [9, 2, 0]
    assert t.over_deserved("t") == cores(2)
    assert t.over_deserved("u") == t.over_deserved("default") == {}


def test_capability_and_guarantee_limit_the_share() -> None:
    t = tree(
        queue("a"),
        queue("b", weight=2),
        queue("c", capability=cores(20)),
        queue("d", guarantee=cores(35)),
        cpu=100,
    )
    for name, request in {"a": 100, "b": 30, "c": 100, "d": 40}.items():
        run(t, name, pending=request)
    assert deserved(t, "a", "b", "c", "d") == [17.5, 30, 17.5, 35]


def test_guarantee_beyond_the_request_is_lent() -> None:
    t = tree(queue("a", weight=3, capability=cores(25)), queue("b", weight=2), queue("c", guarantee=cores(10)), cpu=60)
    for name, request in {"a": 50, "b": 50, "c": 5}.items():
        run(t, name, pending=request)
    assert deserved(t, "a", "b", "c") == [25, 30, 5]


def test_deserved_of_the_spec_is_the_share_as_far_as_it_is_requested() -> None:
    t = tree(queue("a", deserved=cores(10)), queue("b", deserved=cores(10)), queue("c"), cpu=24)
    run(t, "a", allocated=12)
    run(t, "b", allocated=3)
    run(t, "c", pending=20)
    assert deserved(t, "a", "b", "c") == [10, 3, 11]


def test_children_divide_the_share_of_their_parent() -> None:
    t = tree(
        queue("eng", weight=3),
        queue("sci"),
        queue("dev", parent="eng"),
        queue("prod", parent="eng", weight=2),
        cpu=40,
    )
    for name in ("sci", "dev", "prod"):
        run(t, name, pending=40)
    assert deserved(t, "eng", "sci", "dev", "prod") == [30, 10, 10, 20]
    run(t, "prod", pending=5)
    assert deserved(t, "eng", "sci", "dev", "prod") == [30, 10, 25, 5]


def test_guarantees_and_deserved_amounts_of_children_count_for_the_parent() -> None:
    t = tree(
        queue("a"),
        queue("b", weight=3),
        queue("a1", parent="a", deserved=cores(10)),
        queue("a2", parent="a", guarantee=cores(2)),
        queue("b1", parent="b"),
        cpu=16,
    )
    for name in ("a1", "a2", "b1"):
        run(t, name, pending=30)
    assert deserved(t, "a", "b", "a1", "a2", "b1") == [12, 4, 10, 2, 4]
    assert t.guarantee("a") == cores(2)


def test_running_jobs_of_a_queue_with_children_reduce_what_the_children_divide() -> None:
    t = tree(queue("a"), queue("a1", parent="a"), queue("a2", parent="a"), cpu=12)
    run(t, "a", allocated=2, pending=4)
    for name in ("a1", "a2"):
        run(t, name, pending=20)
    assert deserved(t, "a", "a1", "a2") == [12, 5, 5]


def test_queue_without_weight_has_a_finite_share_and_comes_last() -> None:
    t = tree(queue("a"), queue("free", weight=0), cpu=10)
    run(t, "a", allocated=4, pending=20)
    run(t, "free", allocated=2, pending=20)
    assert deserved(t, "a", "free") == [10, 0]
    assert t.share("free") == Fraction(12, 10)
    assert t.share("a") == Fraction(4, 10)
    assert sorted(("free", "a"), key=t.order_key) == ["a", "free"]
    run(t, "free", pending=20)
    assert t.share("free") == 0
    assert sorted(("free", "a"), key=t.order_key) == ["a", "free"]
    run(t, "a", allocated=4)
    assert deserved(t, "a", "free") == [4, 6]


def test_queues_are_ordered_by_priority_then_by_share() -> None:
    t = tree(queue("a"), queue("b"), queue("c", priority=1), cpu=12)
    for name, allocated in {"a": 3, "b": 2, "c": 4}.items():
        run(t, name, allocated=allocated, pending=9)
    assert sorted("abc", key=t.order_key) == ["c", "b", "a"]


def test_share_of_a_resource_that_the_cluster_lacks_is_finite_and_changes_no_order() -> None:
    t = tree(queue("a"), queue("b"), cpu=10)
    t.set_usage("j", "a", JobUsage({"cpu": 1000}, {"cpu": 9000, GPU: 4}))
    run(t, "b", allocated=2, pending=8)
    assert t.deserved("a").get(GPU, 0) == 0
    assert sorted("ab", key=t.order_key) == ["a", "b"]
    t.set_usage("k", "a", JobUsage({GPU: 4}))
    assert t.share("a") == 2


# -- sums ----------------------------------------------------------------------------------------------------------


def test_usage_is_summed_up_to_the_root_and_removed_again() -> None:
    t = tree(queue("a", capability=cores(6)), queue("a1", parent="a"), queue("a2", parent="a"), cpu=40)
    run(t, "a1", allocated=4, pending=4)
    run(t, "a2", allocated=1)
    assert [t.allocated(n) for n in ("a1", "a2", "a", "root")] == [cores(4), cores(1), cores(5), cores(5)]
    assert [t.requested(n) for n in ("a1", "a", "root")] == [cores(8), cores(6), cores(6)]
    run(t, "a1", allocated=2, job="second")
    t.remove_job(("a1", "job"))
    t.remove_job("unknown")
    assert t.allocated("root") == cores(3)
    assert t.requested("a1") == cores(2)
    t.set_usage(("a1", "second"), "a2", JobUsage(cores(2)))
    assert [t.allocated(n) for n in ("a1", "a2")] == [cores(0), cores(3)]


def test_jobs_of_an_unknown_queue_count_once_the_queue_exists() -> None:
    t = tree(queue("a"), cpu=10)
    run(t, "b", allocated=3)
    assert "b" not in t
    assert t.allocated("root") == {}
    t.set_queues(link_queues([queue("a"), queue("b")]))
    assert t.allocated("b") == t.allocated("root") == cores(3)
    run(t, "b", allocated=2)
    t.set_queues(link_queues([queue("a"), queue("b", capability=cores(1))]))
    assert t.headroom("b") == cores(-1)
    assert deserved(t, "b") == [1]


def test_changed_capacity_changes_the_shares() -> None:
    t = tree(queue("a"), queue("b"), queue("root", capability={"memory": 5}), cpu=10, memory=8)
    for name in "ab":
        t.set_usage(name, name, JobUsage({}, {"cpu": 20_000, "memory": 20}))
    assert t.deserved("a") == {"cpu": 5000, "memory": 3}
    t.set_capacity({"cpu": 30_000, "memory": 4})
    assert t.deserved("a") == {"cpu": 15_000, "memory": 2}
    t.set_capacity({"cpu": 30_000})
    assert t.deserved("a")["memory"] == 0


def test_names_paths_and_children() -> None:
    t = tree(queue("a"), queue("b", parent="a"), queue("c", parent="a"))
    assert list(t) == ["root", "a", "b", "c"]
    assert t.path("c") == ("c", "a", "root")
    assert t.children("a") == ("b", "c")
    assert t.queue("c").parent == "a"


# -- quotas --------------------------------------------------------------------------------------------------------


def test_quota_is_exact_to_the_milli_core() -> None:
    t = tree(queue("a", capability=cores(2.5)), cpu=100)
    run(t, "a", allocated=2 * 0.833)
    assert t.allows("a", cores(0.833)) == ()
    run(t, "a", allocated=2 * 0.834)
    (exceeded,) = t.allows("a", cores(0.834))
    assert exceeded == Exceeded("a", "cpu", capability=2500, allocated=1668, requested=834)
    assert exceeded.excess == 2
    assert (
        str(exceeded)
        == "queue a would exceed its capability of 2.5 cpu by 0.002 cpu: 1.668 cpu allocated, 0.834 cpu requested"
    )


def test_quota_of_an_extended_resource_stops_only_pods_that_request_it() -> None:
    t = tree(queue("a", capability={GPU: 3}), cpu=100, **{GPU: 8})
    t.set_usage("j", "a", JobUsage({GPU: 3, "cpu": 3000}))
    assert [each.resource for each in t.allows("a", {GPU: 1, "cpu": 1000})] == [GPU]
    assert t.allows("a", {"cpu": 1000}) == ()
    assert t.allows("a", {"cpu": 1000, GPU: 0}) == ()


def test_request_of_nothing_is_allowed_above_the_quota() -> None:
    t = tree(queue("a", capability=cores(1)), cpu=10)
    run(t, "a", allocated=3)
    assert t.headroom("a") == cores(-2)
    assert t.allows("a", {}) == t.allows("a", {"cpu": 0}) == ()
    assert [each.excess for each in t.allows("a", {"cpu": 1})] == [2001]


def test_quotas_of_the_queues_above_are_checked_too() -> None:
    t = tree(
        queue("root", capability={GPU: 6}),
        queue("a", capability=cores(4)),
        queue("a1", parent="a", capability=cores(3)),
        queue("a2", parent="a"),
        cpu=100,
    )
    run(t, "a1", allocated=1)
    run(t, "a2", allocated=2)
    exceeded = t.allows("a1", {"cpu": 3000, GPU: 7})
    assert [(each.queue, each.resource, each.excess) for each in exceeded] == [
        ("a1", "cpu", 1000),
        ("a", "cpu", 2000),
        ("root", GPU, 1),
    ]
    assert t.headroom("a1") == {"cpu": 1000, GPU: 6}


def test_elastic_quotas_borrow_up_to_the_sum_of_their_min() -> None:
    quotas = [
        queue(
            f"n{i}/q",
            namespace=f"n{i}",
            parent="elasticquotas.scheduling.x-k8s.io",
            deserved=cores(4),
            guarantee=cores(4),
        )
        for i in (1, 2)
    ]
    t = tree(elastic_quota_pool(quotas), *quotas, cpu=100)
    run(t, "n1/q", allocated=7)
    assert t.allows("n1/q", cores(1)) == ()
    assert [each.queue for each in t.allows("n1/q", cores(2))] == ["elasticquotas.scheduling.x-k8s.io"]
    run(t, "n2/q", pending=3)
    assert t.over_deserved("n1/q") == cores(3)
    assert deserved(t, "n1/q", "n2/q") == [4, 3]


# -- states --------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("state", [QueueState.CLOSED, QueueState.CLOSING])
def test_pending_jobs_of_a_closed_queue_have_no_share(state: QueueState) -> None:
    t = tree(queue("a", state=state), queue("b"), cpu=10)
    run(t, "a", allocated=3, pending=5)
    run(t, "b", pending=20)
    assert deserved(t, "a", "b") == [3, 7]
    assert t.unavailable("a") == f"queue a is {state.value}"
    run(t, "a")
    assert deserved(t, "a", "b") == [0, 10]


@pytest.mark.parametrize(
    ("state", "before"),
    [pytest.param(QueueState.OPEN, [5, 5], id="open"), pytest.param(QueueState.CLOSING, [0, 8], id="closing")],
)
def test_pods_that_start_count_in_queues_of_any_state(state: QueueState, before: list[float]) -> None:
    t = tree(queue("a", state=state), queue("b"), cpu=10)
    run(t, "b", pending=8)
    run(t, "a", pending=5)
    assert deserved(t, "a", "b") == before
    run(t, "a", allocated=5)
    assert (t.requested("a"), t.requested("root")) == (cores(5), cores(13))
    assert deserved(t, "a", "b") == [5, 5]


def test_jobs_may_start_in_open_queues_without_children() -> None:
    t = tree(queue("a"), queue("b", parent="a"))
    assert t.unavailable("b") == ""
    assert t.unavailable("a") == "queue a has child queues; jobs belong into one of them"
    assert t.unavailable("c") == "queue c does not exist"


# -- cost ----------------------------------------------------------------------------------------------------------


def test_only_shares_on_the_path_and_beside_it_are_divided_again(monkeypatch: pytest.MonkeyPatch) -> None:
    names = [f"{a}{b}" for a in "abcd" for b in "0123"]
    t = tree(*[queue(a) for a in "abcd"], *[queue(name, parent=name[0], capability=cores(9)) for name in names], cpu=20)
    for name in names:
        run(t, name, pending=8)
    t.refresh()
    divided: list[int] = []

    def counted(capacity: int, claims: Sequence[Claim]) -> list[int]:
        divided.append(capacity)
        return max_min(capacity, claims)

    monkeypatch.setattr(queue_node, "max_min", counted)
    run(t, "b2", pending=2)
    assert divided == []
    t.deserved("b2")
    assert len(divided) == 2
    t.refresh()
    assert len(divided) == 2
    run(t, "b1", pending=9)
    run(t, "b1", pending=50)
    t.refresh()
    assert len(divided) == 4
    run(t, "b1", pending=60)
    t.refresh()
    assert len(divided) == 4
