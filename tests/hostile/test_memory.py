"""Memory of nodes and pods is at most what docs/memory.md states."""

from __future__ import annotations

import gc
import json
import random
import re
import tracemalloc
from collections.abc import Callable
from functools import partial
from typing import Any

import pytest

from bench.decide.listed import list_objects
from bench.decide.stored_objects import stored_nodes, stored_pods
from pyscheduler.api import NodeObject, PodObject
from pyscheduler.config.build import build_profiles
from pyscheduler.config.load import default
from pyscheduler.core.events import NodeChanged, PodChanged
from pyscheduler.core.machine import Machine
from pyscheduler.kube.paths import NODES, PODS
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
    """Return the number in a row of the page's table."""
    found = re.search(rf"^\| {row} \| (?P<number>\d+){unit}", GUIDE, re.MULTILINE)
    assert found, row
    return int(found["number"])


def held(cluster: HostilePodFixture, change: Callable[[], None]) -> int:
    """Return the bytes that a change takes."""
    before = in_use(cluster)
    change()
    return in_use(cluster) - before


def in_use(cluster: HostilePodFixture) -> int:
    cluster.clear_history()
    gc.collect()
    return tracemalloc.get_traced_memory()[0]


@pytest.fixture
def cluster(traced: None) -> HostilePodFixture:
    cluster = HostilePodFixture(nodes=3)
    cluster.handle_pods(*(plain(f"warm-{i}") for i in range(20)))
    cluster.run()
    return cluster


def test_node_memory_is_at_most_documented(cluster: HostilePodFixture) -> None:
    nodes = [node(f"more-{i}", cpu="64", pods="1000").zone("z1").label("rack", f"r{i % 50}") for i in range(2_000)]

    def add() -> None:
        for each in nodes:
            cluster.handle_node(each.manifest)

    assert held(cluster, add) < 2_000 * stated("a node", " KiB") * KIB


def test_pod_memory_is_at_most_documented(cluster: HostilePodFixture) -> None:
    def add() -> None:
        for i in range(2_000):
            cluster.handle_pods(plain(f"more-{i}"))
            cluster.run()
            cluster.clear_history()

    assert held(cluster, add) < 2_000 * stated("a pod", " KiB") * KIB


def test_running_pod_memory_is_at_most_documented(traced: None) -> None:
    machine, rng = Machine(partial(build_profiles, default())), random.Random(0)

    nodes = list_objects(NODES, NodeObject, stored_nodes(100, rng), lambda obj: machine.handle(NodeChanged(0.0, obj)))
    gc.collect()
    before = tracemalloc.get_traced_memory()[0]
    pods = stored_pods(5_000, 100, 20, rng)
    reflector = list_objects(PODS, PodObject, pods, lambda obj: machine.handle(PodChanged(0.0, obj)))
    gc.collect()
    assert tracemalloc.get_traced_memory()[0] - before < 5_000 * stated("a running pod", " KiB") * KIB
    assert (len(nodes), len(reflector)) == (100, 5_000)


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


def add_large(
    cluster: HostilePodFixture, make: Callable[[int], dict[str, Any]], number: int, first: int, **where: str
) -> int:
    """Show large pods on the watch and run attempts; return their JSON bytes."""
    size = 0
    for i in range(first, first + number):
        raw = large(make, i, **where)
        size += len(raw)
        cluster.handle_pod(raw)
        cluster.run()
        cluster.clear_history()
    return size


@pytest.mark.parametrize("make", LARGE.values(), ids=LARGE)
def test_pending_large_pod_memory_is_at_most_documented(
    cluster: HostilePodFixture, make: Callable[[int], dict[str, Any]]
) -> None:
    assert "| a pending pod of more than 64 KiB | its JSON, compressed less |" in GUIDE
    add_large(cluster, make, 3, 0, cpu="1000")  # two of them stay decoded
    before = in_use(cluster)
    size = add_large(cluster, make, 4, 3, cpu="1000")
    assert in_use(cluster) - before < size


@pytest.mark.parametrize("make", LARGE.values(), ids=LARGE)
def test_bound_large_pod_memory_is_at_most_documented(
    cluster: HostilePodFixture, make: Callable[[int], dict[str, Any]]
) -> None:
    times = stated("a pod of more than 64 KiB on a node", " times its JSON")
    before = in_use(cluster)
    size = add_large(cluster, make, 3, 0, cpu="1", node_name="n1")
    assert in_use(cluster) - before < times * size


@pytest.mark.parametrize("make", LARGE.values(), ids=LARGE)
def test_attempt_memory_of_large_pod_is_at_most_documented(
    cluster: HostilePodFixture, make: Callable[[int], dict[str, Any]]
) -> None:
    times = stated("an attempt of such a pod", " times its JSON")
    add_large(cluster, make, 1, 0, cpu="1000")
    before = in_use(cluster)
    tracemalloc.reset_peak()
    size = add_large(cluster, make, 1, 1, cpu="1000")
    assert tracemalloc.get_traced_memory()[1] - before < times * size
