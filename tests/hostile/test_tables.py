"""Tables whose keys are tenants' words: each has an end or is let go of, so that a flood leaves what the last one left.

Every flood is of pods that differ in one thing. They come, are tried or bound, and go; then as many others of the same
kind. What the second flood leaves beyond the first is what piles up.
"""

from __future__ import annotations

import gc
import tracemalloc
from collections.abc import Callable
from typing import Any

import pytest

from pyscheduler.core.decide import decider
from pyscheduler.core.state import columns, placed
from pyscheduler.intree import inter_pod_affinity
from pyscheduler.testing import PodBuilder
from tests.hostile.pod_fixture import HostilePodFixture, plain

pytestmark = pytest.mark.slow
POD_COUNT = 120
MOST_LEFT = 64 * 1024
"""Bytes: half a kibibyte for each pod. Some of it are numbers that have grown, and texts that lru_caches hold."""


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
    "node names that are nowhere": lambda i: plain(f"p{i}").on(f"nowhere-{i}"),
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
    "hopeless, each in its own way": lambda i: plain(f"p{i}").request(f"example.com/r{i}", "1").priority(i),
}


@pytest.fixture(autouse=True)
def small(monkeypatch: pytest.MonkeyPatch) -> None:
    """What is bounded by a number is full after the first flood."""
    monkeypatch.setattr(decider, "MAX_CACHES", 16)
    monkeypatch.setattr(placed, "MOST_COUNTS", 16)
    monkeypatch.setattr(placed, "JOURNAL", 16)
    monkeypatch.setattr(columns, "_SPARE_VALUES", 16)
    monkeypatch.setattr(placed, "KEEP_FACETS", 4)
    monkeypatch.setattr(placed, "_REMEMBER", 16)
    monkeypatch.setattr(inter_pod_affinity, "_SHAPES", 16)


def flood(world: HostilePodFixture, make: Callable[[int], PodBuilder], start: int) -> int:
    """Pods come and go; how much memory is taken after that."""
    for i in range(start, start + POD_COUNT):
        world.see(make(i))
        if i % 3 == 0:
            world.run()
    world.run()
    context = world.harness.machine.context
    for pod in list(context.pods.values()):
        world.gone(pod.name, pod.namespace)
    world.clear_history()
    world.sound()
    assert not context.pods
    assert not len(context.queue)
    gc.collect()
    assert len(context.shapes) <= 100, "a shape is let go of with its last pod, but for those that answers are kept of"
    return tracemalloc.get_traced_memory()[0]


@pytest.mark.parametrize("make", [pytest.param(make, id=name) for name, make in FLOODS.items()])
def test_a_flood_leaves_no_more_than_the_one_before(make: Callable[[int], PodBuilder], traced: None) -> None:
    world = HostilePodFixture(nodes=5)
    flood(world, make, 0)
    before = flood(world, make, 1_000)
    left = flood(world, make, 2_000) - before
    assert left < MOST_LEFT, f"{left / POD_COUNT:.0f} bytes of each pod are left"


def test_a_table_that_piles_up_is_noticed(traced: None, monkeypatch: pytest.MonkeyPatch) -> None:
    world, kept = HostilePodFixture(nodes=5), []
    handle = world.harness.machine.context.handle
    set_pod = handle.set_pod

    def keep(old: Any, new: Any) -> None:
        kept.append(bytes(2_000))
        set_pod(old, new)

    monkeypatch.setattr(handle, "set_pod", keep)
    make = FLOODS["labels"]
    flood(world, make, 0)
    before = flood(world, make, 1_000)
    assert flood(world, make, 2_000) - before > MOST_LEFT


def test_objects_that_cannot_be_read_are_remembered_for_a_while_only() -> None:
    world = HostilePodFixture(nodes=1)
    for i in range(3_000):
        world.see(plain(f"p{i}").requests(cpu="lots"))
    assert len(world.skipped) == 3_000
    assert len(world.refusals._last) <= 1_000
