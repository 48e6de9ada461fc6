"""Reclaim: which pods are evicted for a queue below its deserved amounts, and why none are."""

from __future__ import annotations

from typing import Any

import pytest

from pyscheduler.api.steps import exhaust
from pyscheduler_plugins.queues.bundles import Bundle, RunningPod, bundles_of
from pyscheduler_plugins.queues.hierarchy import link_queues
from pyscheduler_plugins.queues.queue import Queue
from pyscheduler_plugins.queues.reclaim import Reclaim, find_victims
from pyscheduler_plugins.queues.tree import JobUsage, QueueTree

Amounts = dict[str, int]


def cores(n: float) -> Amounts:
    return {"cpu": round(1000 * n)}


def queue(name: str, **fields: Any) -> Queue:
    amounts = {key: cores(value) if isinstance(value, int) else value for key, value in fields.items()}
    plain = {key: fields[key] for key in fields if key in ("weight", "priority", "reclaimable", "parent")}
    return Queue(name=name, **{**amounts, **plain})


class Cluster:
    """Queues with running jobs, and jobs that wait."""

    def __init__(self, cpu: float, *queues: Queue, **others: int) -> None:
        self.capacity = {**cores(cpu), **others}
        self.tree = QueueTree(link_queues(queues), self.capacity)
        self.bundles: list[Bundle] = []
        self.evicted: list[str] = []

    def run(self, name: str, in_queue: str, count: int, minimum: int = 1, cpu: float = 1, **others: Any) -> None:
        """Run a job of equal pods, the first one started first."""
        priority, resources = others.pop("priority", 0), {**cores(cpu), **others}
        pods = [RunningPod(f"{name}{i}", resources, float(i)) for i in range(count)]
        self.start(name, in_queue, pods, minimum, priority)

    def start(self, name: str, in_queue: str, pods: list[RunningPod], minimum: int = 1, priority: int = 0) -> None:
        self.bundles = [bundle for bundle in self.bundles if bundle.job != name]
        self.bundles += bundles_of(name, in_queue, pods, minimum, priority)
        self.tree.set_usage(name, in_queue, JobUsage(total(pods)))

    def wait(self, name: str, in_queue: str, request: Amounts) -> None:
        self.tree.set_usage(name, in_queue, JobUsage({}, request))

    @property
    def free(self) -> Amounts:
        allocated = self.tree.allocated("root")
        return {r: n - allocated.get(r, 0) for r, n in self.capacity.items()}

    def reclaim(self, in_queue: str, request: Amounts) -> Reclaim:
        """Return the result for a job that waits."""
        self.wait("waiting", in_queue, request)
        return exhaust(find_victims(self.tree, in_queue, request, self.free, self.bundles))


def total(pods: list[RunningPod]) -> Amounts:
    sums: Amounts = {}
    for pod in pods:
        for resource, amount in pod.resources.items():
            sums[resource] = sums.get(resource, 0) + amount
    return sums


def victims(found: Reclaim) -> list[str]:
    assert found.reason == ""
    return sorted(pod for bundle in found.victims for pod in bundle.pods)


def test_bundles_of_a_job_are_its_surplus_newest_first_and_all_of_it() -> None:
    pods = [RunningPod(f"p{i}", cores(i), float(i)) for i in (2, 1, 3)]
    newest, whole = bundles_of("j", "a", pods, minimum=2, priority=7)
    assert newest == Bundle("j", "a", ("p3",), cores(3), priority=7, started=3.0)
    assert whole == Bundle("j", "a", ("p3", "p2", "p1"), cores(6), is_whole=True, priority=7, started=3.0)
    assert (str(newest), str(whole)) == ("pod p3", "gang j of 3")
    assert [bundle.pods for bundle in bundles_of("j", "a", pods, minimum=0)] == [("p3",), ("p2",), ("p1",)]
    assert bundles_of("j", "a", [], minimum=1) == []


# -- jobs with a minimum -------------------------------------------------------------------------------------------


def test_weighted_queue_gets_its_share_back() -> None:
    cluster = Cluster(11, queue("t", weight=5), queue("u", weight=5), queue("default"))
    cluster.run("j", "t", 11)
    assert victims(cluster.reclaim("u", cores(2))) == ["j10", "j9"]


def test_surplus_of_a_gang_is_evicted() -> None:
    cluster = Cluster(20, queue("A", deserved=10), queue("B", deserved=10))
    cluster.run("K", "B", 8, minimum=8)
    cluster.run("J", "A", 12, minimum=10)
    assert victims(cluster.reclaim("B", cores(2))) == ["J10", "J11"]


def test_gang_is_not_evicted_below_the_guarantee_of_its_queue() -> None:
    cluster = Cluster(20, queue("A", deserved=10, guarantee=10), queue("B", deserved=10))
    cluster.run("K", "B", 8, minimum=8)
    cluster.run("J", "A", 12, minimum=12)
    assert cluster.reclaim("B", cores(2)) == Reclaim(
        reason="queue A is 2 cpu over its deserved, its only victim is gang J of 12,"
        " which would leave A below its guarantee 10 cpu"
    )


def test_whole_gang_is_evicted_if_nothing_less_serves() -> None:
    cluster = Cluster(20, queue("A", deserved=10), queue("B", deserved=10))
    cluster.run("K", "B", 8, minimum=8)
    cluster.run("J", "A", 12, minimum=12)
    assert len(victims(cluster.reclaim("B", cores(2)))) == 12
    cluster.tree.remove_job("J")
    cluster.run("L", "B", 2, minimum=2)
    cluster.tree.remove_job("waiting")
    assert cluster.reclaim("A", cores(12)) == Reclaim(
        reason="queue A would be 2 cpu over its deserved:"
        " 12 cpu requested, 10 cpu free, 0 cpu allocated, 10 cpu deserved"
    )


def test_surplus_and_the_whole_of_one_job_are_not_both_victims() -> None:
    cluster = Cluster(20, queue("A", deserved=10), queue("B", deserved=10))
    cluster.run("J", "A", 12, minimum=10)
    cluster.run("S", "A", 8, minimum=8)
    assert len(victims(cluster.reclaim("B", cores(10)))) == 10


# -- no more than needed -------------------------------------------------------------------------------------------


def test_reclaim_ends_at_the_deserved_amounts() -> None:
    cluster = Cluster(11, queue("qa", deserved=5, capability=10), queue("qb", deserved=5, capability=10))
    cluster.run("a", "qa", 5, minimum=2, cpu=2)
    request = cores(2)
    assert victims(cluster.reclaim("qb", request)) == ["a4"]
    cluster.run("a", "qa", 4, minimum=2, cpu=2)
    cluster.run("b", "qb", 1, cpu=2)
    assert victims(cluster.reclaim("qb", request)) == ["a3"]
    cluster.run("a", "qa", 3, minimum=2, cpu=2)
    cluster.run("b", "qb", 2, cpu=2)
    assert cluster.reclaim("qb", request).reason == (
        "queue qb would be 1 cpu over its deserved: 2 cpu requested, 1 cpu free, 4 cpu allocated, 5 cpu deserved"
    )


def test_evicted_pod_does_not_reclaim_its_place() -> None:
    cluster = Cluster(8, queue("q1", deserved=3), queue("q2", deserved=5))
    cluster.run("p1", "q1", 1, cpu=4)
    cluster.run("p2", "q2", 1, cpu=1)
    assert victims(cluster.reclaim("q2", cores(4))) == ["p10"]
    cluster.tree.remove_job("p1")
    cluster.bundles.clear()
    cluster.run("p3", "q2", 1, cpu=4)
    cluster.tree.remove_job("waiting")
    assert cluster.reclaim("q1", cores(4)) == Reclaim(
        reason="queue q1 would be 1 cpu over its deserved: 4 cpu requested, 3 cpu free, 0 cpu allocated, 3 cpu deserved"
    )


def test_one_pod_evicts_one_pod() -> None:
    cluster = Cluster(12, queue("qa"), queue("qb", deserved=6))
    cluster.run("V", "qa", 12, minimum=2)
    for count in range(1, 7):
        assert victims(cluster.reclaim("qb", cores(1))) == [f"V{12 - count}"]
        cluster.run("V", "qa", 12 - count, minimum=2)
        cluster.run("w", "qb", count)
    assert "over its deserved" in cluster.reclaim("qb", cores(1)).reason


def test_nothing_is_evicted_for_a_request_that_fits_or_is_empty() -> None:
    cluster = Cluster(10, queue("a"), queue("b"))
    cluster.run("j", "a", 8)
    assert cluster.reclaim("b", cores(2)) == Reclaim()
    assert cluster.reclaim("b", {}) == Reclaim()


# -- choice --------------------------------------------------------------------------------------------------------


def test_set_that_leaves_all_queues_their_deserved_comes_first() -> None:
    """One pod of 4 would be fewer, but would take its queue below its deserved amounts."""
    cluster = Cluster(20, queue("a", deserved=2), queue("b", deserved=3), queue("c", deserved=10))
    cluster.start("small", "b", [RunningPod(f"s{i}", cores(1), i) for i in range(9)], minimum=0)
    cluster.start("big", "a", [RunningPod(f"big{i}", cores(4), i) for i in range(2)], minimum=0)
    cluster.run("c", "c", 3)
    assert victims(cluster.reclaim("c", cores(4))) == ["big1"]
    cluster.start("big", "a", [RunningPod("big0", cores(4), 0)], minimum=0)
    cluster.start("more", "b", [RunningPod(f"m{i}", cores(1), i) for i in range(4)], minimum=0)
    assert victims(cluster.reclaim("c", cores(3)))[0] in ("m1", "s6")


def test_queues_are_taken_below_their_deserved_one_by_one() -> None:
    """The six small queues run two pods of 8 cpus each and deserve less than 11 cpus, so no pod is surplus."""
    cluster = Cluster(96, *[queue(f"q{i}") for i in range(6)], queue("large", weight=5))
    for i in range(6):
        cluster.run(f"j{i}-", f"q{i}", 2, minimum=0, cpu=8)
    assert [len(victims(cluster.reclaim("large", cores(n)))) for n in (8, 16, 32)] == [1, 2, 4]
    assert {bundle.queue for bundle in cluster.reclaim("large", cores(32)).victims} == {"q0", "q1", "q2", "q3"}


def test_exact_set_is_found_where_the_newest_pods_do_not_fit_together() -> None:
    cluster = Cluster(13, queue("a", deserved=10), queue("b", deserved=3))
    pods = [RunningPod("keep", cores(8), 0), RunningPod("three", cores(3), 1), RunningPod("two", cores(2), 2)]
    cluster.start("j", "a", pods, minimum=0)
    assert victims(cluster.reclaim("b", cores(3))) == ["three"]


def test_lower_priority_comes_before_fewer_pods_and_jobs_are_kept() -> None:
    cluster = Cluster(20, queue("a"), queue("b"))
    cluster.run("high", "a", 2, minimum=0, cpu=4, priority=100)
    cluster.run("low", "a", 8, minimum=0)
    cluster.run("single", "a", 4, minimum=4, priority=-1)
    assert victims(cluster.reclaim("b", cores(4))) == ["low4", "low5", "low6", "low7"]
    cluster.run("low", "a", 8, minimum=8)
    assert victims(cluster.reclaim("b", cores(4))) == ["high1"]


def test_need_of_two_resources_is_met_by_pods_of_two_queues() -> None:
    gpu = "nvidia.com/gpu"
    cluster = Cluster(8, queue("a"), queue("g"), queue("b"), **{gpu: 8})
    cluster.start("cpus", "a", [RunningPod(f"c{i}", cores(2), i) for i in range(4)], minimum=0)
    cluster.start("gpus", "g", [RunningPod(f"g{i}", {gpu: 2}, i) for i in range(4)], minimum=0)
    assert victims(cluster.reclaim("b", {"cpu": 2000, gpu: 2})) == ["c3", "g3"]


def test_pods_that_free_nothing_of_what_is_missing_are_no_victims() -> None:
    cluster = Cluster(8, queue("a"), queue("b"), memory=8)
    cluster.start("m", "a", [RunningPod("m", {"memory": 8}, 9.0)], minimum=0)
    cluster.start("c", "a", [RunningPod(f"c{i}", cores(4), i) for i in range(2)], minimum=0)
    assert victims(cluster.reclaim("b", cores(4))) == ["c1"]


def test_search_among_many_jobs_is_bounded() -> None:
    cluster = Cluster(5000, queue("a"), queue("b"))
    for i in range(400):
        cluster.run(f"j{i}", "a", 3, minimum=1 + i % 3, cpu=1 + i % 7)
    found = cluster.reclaim("b", {"cpu": cluster.free["cpu"] + 501_000})
    freed = [bundle.resources["cpu"] for bundle in found.victims]
    assert 501_000 <= sum(freed) < 501_000 + min(freed)


def test_thousands_of_pods_are_reclaimed_at_once() -> None:
    cluster = Cluster(6000, queue("a"), queue("b"))
    cluster.run("j", "a", 6000, minimum=0)
    assert len(victims(cluster.reclaim("b", cores(2999)))) == 2999


# -- hierarchy -----------------------------------------------------------------------------------------------------


def departments() -> Cluster:
    names = [("a", "root"), ("b", "root"), ("a1", "a"), ("a2", "a"), ("b1", "b")]
    return Cluster(20, *[queue(name, parent=parent) for name, parent in names])


def test_only_the_child_above_its_share_is_reclaimed_from() -> None:
    cluster = departments()
    cluster.run("x", "a1", 12, minimum=0)
    cluster.run("y", "a2", 4, minimum=0)
    cluster.run("z", "b1", 4, minimum=0)
    assert victims(cluster.reclaim("b1", cores(2))) == ["x10", "x11"]


def test_department_at_its_share_is_reclaimed_from_by_its_own_queues_only() -> None:
    cluster = departments()
    cluster.run("x", "a1", 10, minimum=0)
    cluster.run("z", "b1", 10, minimum=0)
    assert victims(cluster.reclaim("a2", cores(2))) == ["x8", "x9"]
    cluster.tree.remove_job("waiting")
    assert "queue b1 would be 2 cpu over its deserved" in cluster.reclaim("b1", cores(2)).reason


def test_queue_in_a_full_department_reclaims_inside_it() -> None:
    cluster = Cluster(20, queue("a", capability=8), queue("a1", parent="a"), queue("a2", parent="a"), queue("b"))
    cluster.run("x", "a1", 8, minimum=0)
    cluster.run("z", "b", 12, minimum=0)
    assert victims(cluster.reclaim("a2", cores(1))) == ["x7"]


# -- reasons -------------------------------------------------------------------------------------------------------


def test_queues_that_are_not_reclaimable_are_named() -> None:
    cluster = Cluster(10, queue("a", reclaimable=False), queue("b"))
    cluster.run("j", "a", 10)
    reason = "queue a is 3 cpu over its deserved, queue a is not reclaimable"
    assert cluster.reclaim("b", cores(3)) == Reclaim(reason=reason)


def test_missing_victims_are_reported() -> None:
    cluster = Cluster(10, queue("a"), queue("b"))
    cluster.run("j", "a", 10)
    cluster.bundles.clear()
    assert cluster.reclaim("b", cores(1)).reason == "no pods of another queue that is over its deserved cpu"


def test_jobs_of_a_queue_that_does_not_exist_are_named() -> None:
    cluster = Cluster(10, queue("b"))
    cluster.run("j", "deleted", 4, minimum=0)
    cluster.wait("waiting", "b", cores(8))
    assert exhaust(find_victims(cluster.tree, "b", cores(8), cores(6), cluster.bundles)).reason == (
        "no pods of another queue that is over its deserved cpu;"
        " queue deleted, which does not exist or is invalid, keeps 4 cpu"
    )


def test_victims_that_free_too_little_are_reported() -> None:
    cluster = Cluster(10, queue("a"), queue("b"))
    cluster.run("j", "a", 10, minimum=0)
    cluster.bundles = cluster.bundles[:2]
    assert cluster.reclaim("b", cores(3)).reason == "queue a is 3 cpu over its deserved, 3 cpu must be freed"


def test_guarantee_that_all_victims_violate_is_named() -> None:
    cluster = Cluster(10, queue("a", guarantee=8), queue("b", guarantee=2), queue("c"))
    cluster.run("j", "a", 2, minimum=0, cpu=5)
    assert cluster.reclaim("b", cores(1)).reason == (
        "queue a is 1 cpu over its deserved, each of its 2 victims would leave a below its guarantee 8 cpu"
    )


@pytest.mark.parametrize(("queues", "more"), [(3, ""), (5, "; 2 more queues")])
def test_reason_names_a_few_queues(queues: int, more: str) -> None:
    names = [f"q{i}" for i in range(queues)]
    cluster = Cluster(2 * queues, *[queue(name, reclaimable=False) for name in names], queue("b"))
    for name in names:
        cluster.run(name, name, 2)
    reason = cluster.reclaim("b", cores(1)).reason
    assert reason.endswith(more)
    assert reason.count(" over its deserved") == 3
