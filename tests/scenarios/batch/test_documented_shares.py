"""Fair shares that the documentation of other batch schedulers computes, with its numbers.

Where our share differs, the row has both, and the reason.
"""

from __future__ import annotations

from collections.abc import Mapping
from fractions import Fraction
from typing import NamedTuple

import pytest

from pyscheduler_plugins.queues.drf import dominant_share, next_queue
from pyscheduler_plugins.queues.hierarchy import link_queues
from pyscheduler_plugins.queues.queue import Queue
from pyscheduler_plugins.queues.tree import JobUsage, QueueTree
from pyscheduler_plugins.queues.usage import DecayedUsage

VOLCANO = "Volcano, docs/design"
KOORDINATOR = "Koordinator, docs/proposals/scheduling/20220722-multi-hierarchy-elastic-quota-management.md"
GHODSI = "Ghodsi et al., Dominant Resource Fairness, NSDI 2011, 4.1"
FLOOR = "max-min fairness: the minimum is a floor of the share, and weights do not divide what is above it alone"
WORK_CONSERVING = "the share of a queue that requests nothing is lent to the others"


class Requests(NamedTuple):
    """A queue and what it requests."""

    queue: Queue
    requested: int = 0
    share: int = 0
    documented: int | None = None
    """Share by the documentation, if ours is another one."""


class Example(NamedTuple):
    """Shares of one resource."""

    source: str
    capacity: int
    rows: list[Requests]
    why: str = ""
    """Reason why our shares are others."""


def team(name: str, weight: int, parent: str = "root", *, least: int = 0, most: int = 0) -> Queue:
    amounts = {"cpu": least} if least else {}
    return Queue(name=name, parent=parent, weight=weight, guarantee=amounts, capability={"cpu": most} if most else {})


EXAMPLES = [
    Example(
        f"{VOLCANO}/drf - fairshare.md, first case: namespaces as child queues",
        16,
        [
            Requests(team("q1", 1), share=8),
            Requests(team("ns1", 1, "q1"), 5, 4),
            Requests(team("ns2", 1, "q1"), 10, 4),
            Requests(team("q2", 1), share=8),
            Requests(team("ns3", 1, "q2"), 10, 6),
            Requests(team("ns4", 1, "q2"), 2, 2),
        ],
    ),
    Example(
        f"{VOLCANO}/drf - fairshare.md, second case: weights",
        16,
        [
            Requests(team("q1", 1), share=4),
            Requests(team("ns1", 3, "q1"), 5, 3),
            Requests(team("ns2", 1, "q1"), 10, 1),
            Requests(team("q2", 3), share=12),
            Requests(team("ns3", 2, "q2"), 10, 10),
            Requests(team("ns4", 6, "q2"), 2, 2),
        ],
    ),
    Example(
        f"{VOLCANO}/drf - fairshare.md, third case: an idle queue",
        16,
        [
            Requests(team("q1", 1), share=0, documented=4),
            Requests(team("q2", 3), share=16, documented=12),
            Requests(team("ns1", 2, "q2"), 5, 4, documented=3),
            Requests(team("ns2", 6, "q2"), 20, 12, documented=9),
        ],
        WORK_CONSERVING,
    ),
    Example(
        "Kueue, keps/1714-fair-sharing, Story 3",
        300,
        [
            Requests(team("C1", 1), share=150),
            Requests(team("1A", 1, "C1"), 300, 30),
            Requests(team("1B", 1, "C1"), 300, 30),
            Requests(team("1C", 3, "C1"), 300, 90),
            Requests(team("C2", 1), share=150),
            Requests(team("2A", 1, "C2"), 300, 150),
        ],
    ),
    Example(
        "Kueue, concepts/cohort.md: weights of 0.75 and 0.25",
        100,
        [Requests(team("important-org", 3), 100, 75), Requests(team("regular-org", 1), 100, 25)],
    ),
    Example(
        f"{KOORDINATOR}, runtimequota4.jpg",
        100,
        [
            Requests(team("A", 40, least=10, most=40), 5, 5),
            Requests(team("B", 60, least=15, most=60), 20, 20),
            Requests(team("C", 50, least=20, most=50), 40, 29, documented=35),
            Requests(team("D", 80, least=15, most=80), 70, 46, documented=40),
        ],
        FLOOR,
    ),
    Example(
        f"{KOORDINATOR}, quotatree4.jpg",
        100,
        [
            Requests(team("ParentA", 100, least=20, most=100), share=20),
            Requests(team("ChildA-1", 10, "ParentA", least=10, most=10), 100, 10),
            Requests(team("ChildA-2", 10, "ParentA", least=10, most=10), 100, 10),
            Requests(team("ParentB", 100, least=80, most=100), share=80),
            Requests(team("ChildB-1", 40, "ParentB", least=20, most=40), 100, 29, documented=27),
            Requests(team("ChildB-2", 70, "ParentB", least=40, most=70), 100, 51, documented=53),
        ],
        FLOOR,
    ),
    Example(
        f"{KOORDINATOR}, quotaguarantee2.jpg",
        100,
        [Requests(team("A", 1), 100, 50), Requests(team("B", 1), 100, 50)],
    ),
]


@pytest.mark.parametrize("example", EXAMPLES, ids=lambda example: example.source)
def test_shares(example: Example) -> None:
    tree = QueueTree(link_queues(row.queue for row in example.rows), {"cpu": example.capacity})
    for row in example.rows:
        if row.requested:
            tree.set_usage(row.queue.name, row.queue.name, JobUsage({}, {"cpu": row.requested}))
    shares = {row.queue.name: tree.deserved(row.queue.name).get("cpu", 0) for row in example.rows}
    assert shares == {row.queue.name: row.share for row in example.rows}
    others = [row for row in example.rows if row.documented is not None and row.documented != row.share]
    assert bool(others) == bool(example.why)


# -- dominant resource fairness ------------------------------------------------------------------------------------

Task = Mapping[str, int]


class TasksOf(NamedTuple):
    """A queue, what each of its tasks requests, and how many run in the end."""

    queue: str
    task: Task
    running: int
    parent: str = "root"
    documented: int | None = None
    """Number by the documentation if ours is another one. It is one task away: ties go to the first queue by name."""


CPU: Task = {"cpu": 1}
GPU: Task = {"gpu": 1}
DRF_EXAMPLES = {
    GHODSI: (
        {"cpu": 9, "memory": 18},
        [TasksOf("A", {"cpu": 1, "memory": 4}, 3), TasksOf("B", {"cpu": 3, "memory": 1}, 2)],
    ),
    f"{VOLCANO}/hdrf.md, complementary children": (
        {"cpu": 10, "gpu": 10},
        [
            TasksOf("n1", GPU, 6, documented=5),
            TasksOf("n2,1", CPU, 10, "n2"),
            TasksOf("n2,2", GPU, 4, "n2", documented=5),
        ],
    ),
    f"{VOLCANO}/hdrf.md, a blocked child": (
        {"cpu": 30, "gpu": 30},
        [
            TasksOf("n1", CPU, 10),
            TasksOf("n2", CPU, 10),
            TasksOf("n3,1", CPU, 10, "n3"),
            TasksOf("n3,2", GPU, 15, "n3"),
            TasksOf("n4", GPU, 15),
        ],
    ),
}


@pytest.mark.parametrize("source", DRF_EXAMPLES)
def test_dominant_resource_fairness(source: str) -> None:
    capacity, examples = DRF_EXAMPLES[source]
    parents = {each.parent for each in examples if each.parent != "root"}
    queues = [Queue(name=parent) for parent in parents]
    queues += [Queue(name=each.queue, parent=each.parent) for each in examples]
    tree, free = QueueTree(link_queues(queues), capacity), dict(capacity)
    tasks, running = {each.queue: each.task for each in examples}, dict.fromkeys((each.queue for each in examples), 0)
    while (queue := next_queue(tree, tasks, free)) is not None:
        running[queue] += 1
        tree.set_usage(queue, queue, JobUsage({r: n * running[queue] for r, n in tasks[queue].items()}))
        free = {r: n - tasks[queue].get(r, 0) for r, n in free.items()}
    assert running == {each.queue: each.running for each in examples}
    assert all(each.documented is None or abs(each.running - each.documented) == 1 for each in examples)


def test_dominant_shares_of_volcanos_drf_design() -> None:
    """drfjobordering.png: two tasks each, of 1 cpu and 4 GB, and of 2 and 3 cpus and 2 GB."""
    capacity = {"cpu": 10, "memory": 20}
    assert dominant_share({"cpu": 2, "memory": 8}, capacity, capacity) == Fraction("0.4")
    assert dominant_share({"cpu": 5, "memory": 4}, capacity, capacity) == Fraction("0.5")


# -- usage over time -----------------------------------------------------------------------------------------------


@pytest.mark.parametrize("cpus", [[32], [8, 0], [32, 8, 0, 16]])
def test_usage_over_time_is_that_of_kueues_admission_fair_sharing(cpus: list[int]) -> None:
    """keps/4136-admission-fair-sharing, with the half-life of 168 h and the interval of 5 min of the concept page."""
    hours, samples, half_life = 24, 12, 168.0
    decay = 1 - 0.5 ** (1 / samples / half_life)
    usage, sampled = DecayedUsage(0.0), 0.0
    for day, cpu in enumerate(cpus):
        usage = usage.record(day * hours, {"cpu": cpu}, half_life)
        for _ in range(hours * samples):
            sampled = (1 - decay) * sampled + decay * cpu
    average = usage.advance(len(cpus) * hours, half_life).average
    assert average["cpu"] == pytest.approx(sampled)
