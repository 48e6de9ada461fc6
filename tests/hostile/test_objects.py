"""Each hostile object has its outcome and cost, and leaves no memory; other pods are scheduled meanwhile."""

from __future__ import annotations

import gc
import tracemalloc
from typing import Any

import pytest

from pyscheduler.testing import PodBuilder, node
from tests.hostile.objects import IGNORED, PODS, SCHEDULED, SKIPPED, WAITS, Hostile
from tests.hostile.pod_fixture import HostilePodFixture, cpu, plain

NEIGHBOURS = 40
MAX_TIMES_SIZE = 60
"""Maximum bytes of memory per byte of a hostile object while it is tried, Python's object overhead included."""
MIB = 1 << 20


def schedule(cluster: HostilePodFixture, name: str, number: int) -> None:
    """Create plain pods and schedule them."""
    for i in range(number):
        cluster.handle_pods(plain(f"{name}-{i}"))
        cluster.run()
    assert all(f"{name}-{i}" in cluster.assignments for i in range(number))


@pytest.fixture(scope="module")
def plain_pod() -> float:
    """CPU seconds of a plain pod."""
    cluster = HostilePodFixture()
    schedule(cluster, "warm", 50)
    return cpu(lambda: schedule(cluster, "plain", 200)) / 200


def outcome_in(cluster: HostilePodFixture) -> str:
    context = cluster.harness.machine.context
    if "hostile" in cluster.assignments:
        return SCHEDULED
    if cluster.skipped:
        return SKIPPED
    return WAITS if "hostile" in context.queue or context.queue.in_flight("hostile") else IGNORED


def costs_with_neighbours(hostile: Hostile) -> tuple[float, float]:
    """Return the cost of a hostile pod and of each other pod next to it, in plain pods."""
    cluster = HostilePodFixture()
    raw = hostile.raw

    def try_it() -> None:
        cluster.handle_pod(raw)
        cluster.run()

    schedule(cluster, "warm", 10)
    plain_pod = cpu(lambda: schedule(cluster, "before", NEIGHBOURS)) / NEIGHBOURS
    spent = cpu(try_it)
    assert outcome_in(cluster) == hostile.outcome
    beside = cpu(lambda: schedule(cluster, "after", NEIGHBOURS)) / NEIGHBOURS
    if hostile.outcome != SKIPPED:
        cluster.delete_pod("hostile")
    cluster.check_invariants()
    return spent / plain_pod, beside / plain_pod


@pytest.mark.parametrize("hostile", [pytest.param(hostile, id=name) for name, hostile in PODS.items()])
def test_hostile_pod_stays_within_cost_and_others_are_scheduled(hostile: Hostile) -> None:
    spent, beside = costs_with_neighbours(hostile)
    for _ in range(2):
        if spent < hostile.cost and beside < 20:
            break
        # Other processes slow the processor down for a while; a real excess repeats every time.
        again = costs_with_neighbours(hostile)
        spent, beside = min(spent, again[0]), min(beside, again[1])
    assert spent < hostile.cost, f"as much as {spent:.0f} plain pods"
    assert beside < 20, f"each neighbour costs as much as {beside:.0f} plain pods"


LARGE = (
    "annotations of 250 KiB",
    "10,000 labels",
    "5,000 preferred anti-affinity terms",
)


@pytest.mark.parametrize("hostile", [pytest.param(PODS[name], id=name) for name in LARGE])
def test_memory_of_large_pod_is_freed_after_deletion(hostile: Hostile, traced: None) -> None:
    cluster = HostilePodFixture(nodes=3)
    schedule(cluster, "before", 5)
    cluster.handle_pods(hostile_like(hostile, "first"))  # lazily created objects are created now
    cluster.run()
    cluster.delete_pod("hostile")
    before = memory(cluster)
    tracemalloc.reset_peak()
    for turn in ("second", "third"):  # each differs, so that caches of the one before do not serve it
        cluster.handle_pods(hostile_like(hostile, turn))
        cluster.run()
        cluster.delete_pod("hostile")
    size = len(hostile.raw)
    _, peak = tracemalloc.get_traced_memory()
    assert peak - before < MAX_TIMES_SIZE * size + MIB, f"{(peak - before) / size:.0f} times its size"
    schedule(cluster, "after", 5)
    left = memory(cluster) - before
    assert left < MIB / 4, f"{left} bytes of {size} are left"


def hostile_like(hostile: Hostile, turn: str) -> PodBuilder:
    made = hostile.make()
    assert isinstance(made, PodBuilder)
    return made.annotation("turn", turn).spec(hostname=turn, priorityClassName=turn)


def memory(cluster: HostilePodFixture) -> int:
    """Bytes in use, without what the test itself holds."""
    cluster.clear_history()
    gc.collect()
    return tracemalloc.get_traced_memory()[0]


HUGE = {"cpu": "1e30", "memory": "9" * 30, "pods": "1e30"}


@pytest.mark.parametrize(
    ("path", "value", "skipped"),
    [
        ("spec.taints", [{"key": f"k{i}", "effect": "NoSchedule"} for i in range(10_000)], False),
        ("status.images", [{"names": [f"i{i}:1"], "sizeBytes": 1} for i in range(10_000)], False),
        ("metadata.labels", {f"l{i}": "x" for i in range(10_000)}, False),
        ("metadata.annotations", {"a": "x" * 1_000_000}, False),
        ("status.allocatable", HUGE, False),
        ("status.allocatable", {f"example.com/r{i}": "1" for i in range(5_000)}, False),
        ("status.allocatable", {"cpu": "-1", "memory": "-1", "pods": "-1"}, False),
        ("status.allocatable", {"cpu": "NaN"}, True),
        ("status.allocatable", {"cpu": "1e400"}, True),
        ("status.allocatable", ["cpu"], True),
        ("status.images", [{"names": ["pause:1"], "sizeBytes": 10**400}], False),
        ("spec.taints", {"key": "a"}, True),
    ],
    ids=[
        "10,000 taints",
        "10,000 images",
        "10,000 labels",
        "a megabyte",
        "all there is",
        "5,000 resources",
        "less than nothing",
        "NaN",
        "1e400",
        "a list of amounts",
        "an image without end",
        "taints that are no list",
    ],
)
def test_hostile_node_does_not_affect_others(path: str, value: Any, skipped: bool, plain_pod: float) -> None:
    cluster = HostilePodFixture(nodes=20)
    schedule(cluster, "before", 10)
    bad = node("bad", cpu="64")._with(path, value).manifest
    spent = cpu(lambda: cluster.handle_node(bad))
    assert spent < 2_000 * plain_pod, f"as much as {spent / plain_pod:.0f} plain pods"
    assert cluster.skipped == (["nodes"] if skipped else [])
    beside = cpu(lambda: schedule(cluster, "after", NEIGHBOURS)) / NEIGHBOURS
    assert beside < 50 * plain_pod, f"each pod costs as much as {beside / plain_pod:.0f} plain pods"
    cluster.check_invariants()


def test_absurd_image_size_counts_as_large_image() -> None:
    """The node reports image sizes; pods that use the image must not fail."""
    cluster = HostilePodFixture(nodes=2)
    cluster.handle_node(node("bad")._with("status.images", [{"names": ["huge:1"], "sizeBytes": 10**400}]).manifest)
    cluster.handle_pods(plain("wanted").image("huge:1"))
    cluster.run()
    assert cluster.assignments == {"wanted": "bad"}
    cluster.check_invariants()
