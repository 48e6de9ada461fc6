"""Tables keyed by tenants' input: each is bounded or cleaned up, so that a flood leaves no more than the one before.

The pods of a flood differ in one field. They are created, tried or bound, and deleted; then as many others follow.
Memory that the second flood leaves beyond the first is a leak.
"""

from __future__ import annotations

import gc
import tracemalloc
from collections.abc import Callable
from typing import Any

import pytest

from pyscheduler.core.result_cache import equivalence_cache
from pyscheduler.core.scheduling import fit_errors
from pyscheduler.core.state import columns, placed, pod_counters
from pyscheduler.intree import inter_pod_affinity
from pyscheduler.testing import PodBuilder
from tests.hostile.pod_fixture import HostilePodFixture, plain

pytestmark = pytest.mark.slow
POD_COUNT = 120
MOST_LEFT = 64 * 1024
"""Bytes: half a kibibyte per pod, for larger numbers and for strings in lru_caches."""


def _selecting(i: int) -> dict[str, Any]:
    return {"topologyKey": "kubernetes.io/hostname", "labelSelector": {"matchLabels": {f"key-{i}": f"value-{i}"}}}


def _spread(i: int, key: str) -> list[dict[str, Any]]:
    selector = {"matchLabels": {f"key-{i}": "x"}}
    return [{"maxSkew": 1, "whenUnsatisfiable": "ScheduleAnyway", "topologyKey": key, "labelSelector": selector}]


FLOODS: dict[str, Callable[[int], PodBuilder]] = {
    "labels": lambda i: plain(f"p{i}").label(f"key-{i}", f"value-{i}"),
    "annotations": lambda i: plain(f"p{i}").annotation(f"key-{i}", f"value-{i}"),
    "namespaces": lambda i: plain(f"p{i}").namespace(f"ns-{i}"),
    "requests": lambda i: plain(f"p{i}").requests(cpu=f"{i + 1}m"),
    "resources": lambda i: plain(f"p{i}").request(f"example.com/r{i}", "1"),
    "node selectors": lambda i: plain(f"p{i}").node_selector(**{f"key-{i}": f"value-{i}"}),
    "node names that do not exist": lambda i: plain(f"p{i}").on(f"nowhere-{i}"),
    "nominations": lambda i: plain(f"p{i}").requests(cpu="1000").nominated(f"nowhere-{i}"),
    "schedulers": lambda i: plain(f"p{i}").scheduler(f"theirs-{i}"),
    "tolerations": lambda i: plain(f"p{i}").tolerates(f"key-{i}", operator="Exists"),
    "host ports": lambda i: plain(f"p{i}").host_port(i + 1),
    "images": lambda i: plain(f"p{i}").image(f"image-{i}"),
    "priorities": lambda i: plain(f"p{i}").priority(i),
    "anti-affinity": lambda i: plain(f"p{i}").label(f"key-{i}", "x").pod_anti_affinity(_selecting(i)),
    "preferred affinity": lambda i: plain(f"p{i}").label(f"key-{i}", "x").preferred_pod_affinity(1, _selecting(i)),
    "topologies": lambda i: plain(f"p{i}").pod_anti_affinity({**_selecting(i), "topologyKey": f"topology-{i}"}),
    "spread constraints": lambda i: plain(f"p{i}").spec(topologySpreadConstraints=_spread(i, "kubernetes.io/hostname")),
    "spread over topologies": lambda i: plain(f"p{i}").spec(topologySpreadConstraints=_spread(i, f"topology-{i}")),
    "gates": lambda i: plain(f"p{i}").gate(f"gate-{i}"),
    "groups": lambda i: plain(f"p{i}").spec(schedulingGroup={"podGroupName": f"group-{i}"}),
    "claims": lambda i: plain(f"p{i}").spec(volumes=[{"name": "v", "persistentVolumeClaim": {"claimName": f"c{i}"}}]),
    "unschedulable for distinct reasons": lambda i: plain(f"p{i}").request(f"example.com/r{i}", "1").priority(i),
}


@pytest.fixture(autouse=True)
def small_bounds(monkeypatch: pytest.MonkeyPatch) -> None:
    """Lower the bounds, so that bounded tables are full after the first flood."""
    monkeypatch.setattr(equivalence_cache, "MAX_CACHES", 16)
    monkeypatch.setattr(equivalence_cache, "MAX_SIGNED", 16)
    monkeypatch.setattr(fit_errors, "MAX_FIT_ERRORS", 16)
    monkeypatch.setattr(placed, "MOST_COUNTS", 16)
    monkeypatch.setattr(placed, "MOST_COUNTED_SETS", 64)
    monkeypatch.setattr(pod_counters, "CHANGES", 16)
    monkeypatch.setattr(columns, "_SPARE_VALUES", 16)
    monkeypatch.setattr(placed, "KEEP_FACETS", 4)
    monkeypatch.setattr(inter_pod_affinity, "_MAX_SIGNATURES", 16)


def flood(cluster: HostilePodFixture, make: Callable[[int], PodBuilder], start: int) -> int:
    """Create and delete pods; return the memory in use after that."""
    for i in range(start, start + POD_COUNT):
        cluster.handle_pods(make(i))
        if i % 3 == 0:
            cluster.run()
    cluster.run()
    context = cluster.harness.machine.context
    for pod in list(context.pods.values()):
        cluster.delete_pod(pod.name, pod.namespace)
    cluster.clear_history()
    cluster.check_invariants()
    assert not context.pods
    assert not len(context.queue)
    gc.collect()
    assert len(context.shapes) <= 100, (
        "a shape is let go of with its last pod, but for those that answers are leaked of"
    )
    return tracemalloc.get_traced_memory()[0]


@pytest.mark.parametrize("make", [pytest.param(make, id=name) for name, make in FLOODS.items()])
def test_repeated_floods_leave_no_more_memory(make: Callable[[int], PodBuilder], traced: None) -> None:
    cluster = HostilePodFixture(nodes=5)
    flood(cluster, make, 0)
    before = flood(cluster, make, 1_000)
    left = flood(cluster, make, 2_000) - before
    assert left < MOST_LEFT, f"{left / POD_COUNT:.0f} bytes of each pod are left"


def test_growing_table_is_detected(traced: None, monkeypatch: pytest.MonkeyPatch) -> None:
    cluster, leaked = HostilePodFixture(nodes=5), []
    pods = cluster.harness.handle.pods
    set_pod = pods.set_pod

    def leak(old: Any, new: Any) -> None:
        leaked.append(bytes(2_000))
        set_pod(old, new)

    monkeypatch.setattr(pods, "set_pod", leak)
    make = FLOODS["labels"]
    flood(cluster, make, 0)
    before = flood(cluster, make, 1_000)
    assert flood(cluster, make, 2_000) - before > MOST_LEFT


def test_invalid_objects_are_remembered_up_to_a_limit() -> None:
    cluster = HostilePodFixture(nodes=1)
    for i in range(3_000):
        cluster.handle_pods(plain(f"p{i}").requests(cpu="lots"))
    assert len(cluster.skipped) == 3_000
    assert len(cluster.refusals._last) <= 1_000
