"""A PreScore result that holds live views of placed pods is reused until more than their number changes."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import ClassVar

import pytest

from pyscheduler.api import (
    Cycle,
    NodeInfo,
    NodeTable,
    Pod,
    PodCount,
    PodSignature,
    PreScorePlugin,
    Reads,
    ResourceKind,
    ScorePlugin,
    StateKey,
)
from pyscheduler.api.topology import DomainSums
from pyscheduler.testing import Harness, PodBuilder, node, pod

SETTINGS = ResourceKind("example.com", "v1", "settings", "Setting", namespaced=False)
OTHERS = ResourceKind("example.com", "v1", "others", "Other", namespaced=False)
ZONES = {"n1": "a", "n2": "b", "n3": "b", "full": "b"}
Change = Callable[[Harness], None]


@dataclass(frozen=True)
class App(PodCount):
    """Count of the pods of one app."""

    name: str
    terminating: bool = True

    def of(self, signature: PodSignature) -> int:
        return int(signature.labels.get("app") == self.name)


_SUMS: StateKey[DomainSums] = StateKey("PrefersCrowds")


class PrefersCrowds(PreScorePlugin, ScorePlugin):
    """Prefer zones with pods of the app, and count the calls of PreScore."""

    name = "PrefersCrowds"
    reads = Reads.DOMAINS
    pre_score_is_live = True
    watches = (SETTINGS,)
    calls: ClassVar[list[str]] = []

    def pre_score(self, cycle: Cycle, pod: Pod, nodes: NodeTable) -> None:
        self.calls.append(pod.name)
        whole = nodes.all_nodes
        cycle[_SUMS] = whole.count_by_domain(App(pod.labels["app"]), whole.topology("zone"))

    def score(self, cycle: Cycle, pod: Pod, node: NodeInfo) -> int:
        return min(100, 10 * int(cycle[_SUMS].numbers[1 + (node.labels["zone"] != "a")]))


class WatchesOthers(ScorePlugin):
    """Watch objects that PrefersCrowds does not read."""

    name = "WatchesOthers"
    reads = Reads.OWN_NODE
    watches = (OTHERS,)

    def score(self, cycle: Cycle, pod: Pod, node: NodeInfo) -> int:
        return 0


@pytest.fixture
def harness() -> Harness:
    own = (f"{__name__}:PrefersCrowds", f"{__name__}:WatchesOthers")
    names = ("PrioritySort", "DefaultBinder", "NodeResourcesFit", *own)
    enabled = ", ".join(f'{{name: "{name}"}}' for name in names)
    harness = Harness(
        "apiVersion: kubescheduler.config.k8s.io/v1\nkind: KubeSchedulerConfiguration\nprofiles:\n"
        f'- plugins: {{multiPoint: {{disabled: [{{name: "*"}}], enabled: [{enabled}]}}}}\n'
    )
    harness.add(*(node(name, cpu="4").label("zone", zone) for name, zone in ZONES.items()))
    harness.add(web("r1").on("n1"), web("r2").on("n3"), web("r3").on("n3"))
    harness.add(filler("f1").on("full"))
    for name in ("w1", "w2"):
        place(harness, web(name))
    return harness


def web(name: str) -> PodBuilder:
    return pod(name).label("app", "web").requests(cpu="10m")


def filler(name: str) -> PodBuilder:
    return pod(name).requests(cpu="4")


def place(harness: Harness, built: PodBuilder) -> str:
    """Schedule a pod; return its node."""
    PrefersCrowds.calls.clear()
    harness.add(built)
    harness.run()
    return harness.assignments[built.build().name]


def test_placed_pods_of_known_signatures_show_in_the_cached_result(harness: Harness) -> None:
    for i in range(20):
        assert ZONES[place(harness, web(f"more-{i}"))] == "b"
        assert not PrefersCrowds.calls
    for name in ("r2", "r3", "w1", "w2", *(f"more-{i}" for i in range(20))):
        harness.delete_pod(name)
    assert place(harness, web("last")) == "n1"
    assert not PrefersCrowds.calls


def _add_signature(harness: Harness) -> None:
    harness.add(web("heavy").requests(cpu="20m").on("n1"))


def _add_node(harness: Harness) -> None:
    harness.add(node("n4", cpu="4").label("zone", "a"))


def _fill_node(harness: Harness) -> None:
    harness.add(filler("f2").on("n2"))  # of a signature that is placed already


def _change_setting(harness: Harness) -> None:
    harness.add_object(SETTINGS, {"metadata": {"name": "s"}})


@pytest.mark.parametrize("change", [_add_signature, _add_node, _fill_node, _change_setting])
def test_other_changes_call_pre_score_again(harness: Harness, change: Change) -> None:
    change(harness)
    place(harness, web("next"))
    assert PrefersCrowds.calls == ["next"]


def test_object_that_the_plugin_does_not_watch_is_no_reason_for_a_call(harness: Harness) -> None:
    harness.add_object(OTHERS, {"metadata": {"name": "o"}})
    place(harness, web("next"))
    assert not PrefersCrowds.calls
