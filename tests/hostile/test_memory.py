"""Memory use of nodes and pods is at most what the page on memory states."""

from __future__ import annotations

import gc
import json
import re
import tracemalloc
from collections.abc import Callable
from typing import Any

import pytest

from pyscheduler.testing import node
from tests.docs.pages import ROOT
from tests.hostile.pod_fixture import HostilePodFixture, plain

pytestmark = pytest.mark.slow
KIB = 1 << 10
GUIDE = (ROOT / "docs" / "memory.md").read_text()
REQUIRED, PREFERRED = (
    "requiredDuringSchedulingIgnoredDuringExecution",
    "preferredDuringSchedulingIgnoredDuringExecution",
)


def stated(row: str, unit: str) -> int:
    """The number that the guide's table has for the row."""
    found = re.search(rf"^\| {row} \| (?P<number>\d+){unit}", GUIDE, re.MULTILINE)
    assert found, row
    return int(found["number"])


def held(world: HostilePodFixture, change: Callable[[], None]) -> int:
    """Bytes that a change of the world takes."""
    before = in_use(world)
    change()
    return in_use(world) - before


def in_use(world: HostilePodFixture) -> int:
    world.clear_history()
    gc.collect()
    return tracemalloc.get_traced_memory()[0]


@pytest.fixture
def world(traced: None) -> HostilePodFixture:
    world = HostilePodFixture(nodes=3)
    world.see(*(plain(f"warm-{i}") for i in range(20)))
    world.run()
    return world


def test_a_node_takes_what_the_guide_states(world: HostilePodFixture) -> None:
    nodes = [node(f"more-{i}", cpu="64", pods="1000").zone("z1").label("rack", f"r{i % 50}") for i in range(2_000)]

    def add() -> None:
        for each in nodes:
            world.see_node(each.manifest)

    assert held(world, add) < 2_000 * stated("a node", " KiB") * KIB


def test_a_pod_takes_what_the_guide_states(world: HostilePodFixture) -> None:
    def add() -> None:
        for i in range(2_000):
            world.see(plain(f"more-{i}"))
            world.run()
            world.clear_history()

    assert held(world, add) < 2_000 * stated("a pod", " KiB") * KIB


LARGE: dict[str, Callable[[int], dict[str, Any]]] = {
    "node affinity of terms with keys of their own": lambda i: node_terms(
        {"matchExpressions": [{"key": f"a{i}x{j}", "operator": "Exists"}]} for j in range(6_000)
    ),
    "node affinity of bounds": lambda i: node_terms(
        {"matchExpressions": [{"key": "size", "operator": "Gt", "values": [str(i + j)]}]} for j in range(6_000)
    ),
    "empty terms": lambda i: {"affinity": {"nodeAffinity": {REQUIRED: {"nodeSelectorTerms": [{}] * 100_000}}}},
    "anti-affinity": lambda i: {
        "affinity": {
            "podAntiAffinity": {PREFERRED: [{"weight": 1, "podAffinityTerm": term(i, j)} for j in range(3_000)]}
        }
    },
    "containers": lambda i: {
        "containers": [
            {"name": f"c{j}", "image": f"i{i}-{j}", "resources": {"requests": {"cpu": "1"}}} for j in range(4_000)
        ]
    },
    "tolerations": lambda i: {"tolerations": [{"operator": "Exists", "key": f"k{i}-{j}"} for j in range(8_000)]},
}


def node_terms(terms: Any) -> dict[str, Any]:
    return {"affinity": {"nodeAffinity": {REQUIRED: {"nodeSelectorTerms": list(terms)}}}}


def term(i: int, j: int) -> dict[str, Any]:
    return {"topologyKey": "kubernetes.io/hostname", "labelSelector": {"matchLabels": {f"k{i}x{j}": ""}}}


def large(make: Callable[[int], dict[str, Any]], i: int, cpu: str, node_name: str = "") -> bytes:
    containers = [{"name": "c", "image": "i", "resources": {"requests": {"cpu": cpu}}}]
    spec = {"containers": containers, "nodeName": node_name, **make(i)}
    metadata = {"name": f"large-{i}", "namespace": "t", "uid": f"large-{i}", "resourceVersion": "1"}
    return json.dumps({"metadata": {**metadata, "annotations": {"number": str(i)}}, "spec": spec}).encode()


def see_large(
    world: HostilePodFixture, make: Callable[[int], dict[str, Any]], number: int, first: int, **where: str
) -> int:
    """The JSON bytes of so many large pods, which the watch shows and the scheduler tries to place."""
    size = 0
    for i in range(first, first + number):
        raw = large(make, i, **where)
        size += len(raw)
        world.see_pod(raw)
        world.run()
        world.clear_history()
    return size


@pytest.mark.parametrize("make", LARGE.values(), ids=LARGE)
def test_a_large_pod_that_waits_takes_what_the_guide_states(
    world: HostilePodFixture, make: Callable[[int], dict[str, Any]]
) -> None:
    assert "| a pod of more than 64 KiB that waits | as much as its JSON, compressed less |" in GUIDE
    see_large(world, make, 3, 0, cpu="1000")  # two of them are kept decoded
    before = in_use(world)
    size = see_large(world, make, 4, 3, cpu="1000")
    assert in_use(world) - before < size


@pytest.mark.parametrize("make", LARGE.values(), ids=LARGE)
def test_a_large_pod_on_a_node_takes_what_the_guide_states(
    world: HostilePodFixture, make: Callable[[int], dict[str, Any]]
) -> None:
    times = stated("a pod of more than 64 KiB on a node", " times its JSON")
    before = in_use(world)
    size = see_large(world, make, 3, 0, cpu="1", node_name="n1")
    assert in_use(world) - before < times * size


@pytest.mark.parametrize("make", LARGE.values(), ids=LARGE)
def test_an_attempt_of_a_large_pod_takes_what_the_guide_states(
    world: HostilePodFixture, make: Callable[[int], dict[str, Any]]
) -> None:
    times = stated("an attempt of such a pod", " times its JSON")
    see_large(world, make, 1, 0, cpu="1000")
    before = in_use(world)
    tracemalloc.reset_peak()
    size = see_large(world, make, 1, 1, cpu="1000")
    assert tracemalloc.get_traced_memory()[1] - before < times * size
