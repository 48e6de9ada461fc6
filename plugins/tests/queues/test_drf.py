"""DRF: dominant shares, progressive filling of a hierarchy, and no drift while jobs end."""

from __future__ import annotations

from collections.abc import Mapping

import pytest

from pyscheduler_plugins.queues.drf import dominant_share, next_queue
from pyscheduler_plugins.queues.hierarchy import link_queues
from pyscheduler_plugins.queues.queue import Queue
from pyscheduler_plugins.queues.tree import JobUsage, QueueTree

Amounts = dict[str, int]


class Filling:
    """A cluster that is filled task by task in the order of hierarchical DRF."""

    def __init__(self, capacity: Amounts, *queues: Queue) -> None:
        self.tree = QueueTree(link_queues(queues), capacity)
        self.capacity = capacity
        self.tasks: dict[str, tuple[Amounts, int]] = {}
        self.running: dict[str, int] = {}

    def submit(self, queue: str, request: Amounts, count: int) -> None:
        self.tasks[queue] = (request, count)
        self.running.setdefault(queue, 0)

    @property
    def free(self) -> Amounts:
        allocated = self.tree.allocated("root")
        return {r: n - allocated.get(r, 0) for r, n in self.capacity.items()}

    def fill(self) -> dict[str, int]:
        """Start tasks until none fits. Return the running ones of each queue."""
        while (queue := next_queue(self.tree, self.next_requests(), self.free)) is not None:
            request, count = self.tasks[queue]
            self.tasks[queue] = (request, count - 1)
            self.set_running(queue, self.running[queue] + 1)
        return self.running

    def next_requests(self) -> Mapping[str, Amounts]:
        return {queue: request for queue, (request, count) in self.tasks.items() if count}

    def set_running(self, queue: str, count: int) -> None:
        self.running[queue] = count
        request = self.tasks[queue][0]
        self.tree.set_usage(queue, queue, JobUsage({r: n * count for r, n in request.items()}))


def test_dominant_share_is_the_largest_one() -> None:
    capacity = {"cpu": 9, "memory": 18}
    assert dominant_share({"cpu": 3, "memory": 12}, capacity) == pytest.approx(12 / 18)
    assert dominant_share({"cpu": 3, "memory": 12}, capacity, {"cpu"}) == pytest.approx(3 / 9)
    assert dominant_share({}, capacity) == dominant_share({"gpu": 0}, capacity) == 0
    assert dominant_share({"gpu": 1}, capacity) == 1


def test_example_of_the_drf_paper() -> None:
    filling = Filling({"cpu": 9, "memory": 18}, Queue(name="a"), Queue(name="b"))
    filling.submit("a", {"cpu": 1, "memory": 4}, 99)
    filling.submit("b", {"cpu": 3, "memory": 1}, 99)
    assert filling.fill() == {"a": 3, "b": 2}


def test_hierarchy_with_complementary_requests() -> None:
    filling = Filling(
        {"cpu": 10, "memory": 10},
        Queue(name="sci"),
        Queue(name="eng"),
        Queue(name="dev", parent="eng"),
        Queue(name="prod", parent="eng"),
    )
    filling.submit("sci", {"cpu": 1, "memory": 1}, 10)
    filling.submit("dev", {"cpu": 1}, 10)
    filling.submit("prod", {"memory": 1}, 10)
    assert filling.fill() == {"sci": 5, "dev": 5, "prod": 5}


def test_blocked_queue_does_not_hold_back_its_sibling() -> None:
    filling = Filling(
        {"cpu": 30, "memory": 30},
        *[Queue(name=f"q{i}") for i in (1, 2, 3, 4)],
        Queue(name="q31", parent="q3"),
        Queue(name="q32", parent="q3"),
    )
    for name in ("q1", "q2", "q31"):
        filling.submit(name, {"cpu": 1}, 30)
    for name in ("q32", "q4"):
        filling.submit(name, {"memory": 1}, 30)
    assert filling.fill() == {"q1": 10, "q2": 10, "q31": 10, "q32": 15, "q4": 15}


@pytest.mark.parametrize("pending_gpu_tasks", [0, 10])
@pytest.mark.parametrize("seed", range(5))
def test_queue_does_not_lose_its_share_while_tasks_end(pending_gpu_tasks: int, seed: int) -> None:
    """All GPUs belong to n22; n1 and n21 compete for cpus, of which each has half."""
    queues = [Queue(name="n1"), Queue(name="n2"), Queue(name="n21", parent="n2"), Queue(name="n22", parent="n2")]
    filling = Filling({"cpu": 10, "gpu": 10}, *queues)
    filling.submit("n1", {"cpu": 1}, 10**6)
    filling.submit("n21", {"cpu": 1}, 10**6)
    filling.submit("n22", {"gpu": 1}, 10 + pending_gpu_tasks)
    assert filling.fill() == {"n1": 5, "n21": 5, "n22": 10}
    for step in range(300):
        ended = ("n1", "n21")[hash((seed, step)) % 2]
        filling.set_running(ended, filling.running[ended] - 1)
        filling.fill()
        assert filling.running == {"n1": 5, "n21": 5, "n22": 10}


def test_running_tasks_of_a_satisfied_queue_count_for_its_parent() -> None:
    """`a` has 6 cpus and requests no more, so the other 4 belong to `q`, not to the sibling of `a`."""
    queues = [Queue(name="p"), Queue(name="q"), Queue(name="a", parent="p"), Queue(name="b", parent="p")]
    filling = Filling({"cpu": 10}, *queues)
    filling.submit("a", {"cpu": 1}, 6)
    filling.fill()
    filling.submit("b", {"cpu": 1}, 10)
    filling.submit("q", {"cpu": 1}, 10)
    assert filling.fill() == {"a": 6, "b": 0, "q": 4}


def test_weights() -> None:
    filling = Filling({"cpu": 12}, Queue(name="a", weight=3), Queue(name="b"), Queue(name="free", weight=0))
    for name in ("a", "b", "free"):
        filling.submit(name, {"cpu": 1}, 20)
    assert filling.fill() == {"a": 9, "b": 3, "free": 0}


def test_nothing_is_served_without_a_queue_that_fits() -> None:
    tree = QueueTree(link_queues([Queue(name="a")]), {"cpu": 4})
    assert next_queue(tree, {}, {"cpu": 4}) is None
    assert next_queue(tree, {"a": {"cpu": 5}, "unknown": {"cpu": 1}}, {"cpu": 4}) is None
    assert next_queue(tree, {"a": {}}, {}) == "a"
