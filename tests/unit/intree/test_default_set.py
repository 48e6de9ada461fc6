"""The default set is kube-scheduler's, and every plugin in it is whole."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import pytest

from pyscheduler.api import (
    ApiError,
    BindPlugin,
    ClusterEventWithHint,
    Cycle,
    FilterPlugin,
    Plugin,
    Pod,
    PostFilterPlugin,
    PreEnqueuePlugin,
    PreFilterPlugin,
    PreScorePlugin,
    QueueSortPlugin,
    Reads,
    ScorePlugin,
)
from pyscheduler.intree import DEFAULT_MULTIPOINT, PLUGINS, UNSUPPORTED_PLUGINS, DefaultBinder
from pyscheduler.testing import pod

from .cluster import build

VOLUMES = ["VolumeRestrictions", "NodeVolumeLimits", "VolumeBinding", "VolumeZone"]
PODS = ["PodTopologySpread", "InterPodAffinity"]
POINTS: Mapping[type[Plugin], list[str]] = {
    QueueSortPlugin: ["PrioritySort"],
    PreEnqueuePlugin: ["SchedulingGates", "DynamicResources", "DefaultPreemption", "GangScheduling"],
    PreFilterPlugin: [
        "NodeAffinity",
        "NodePorts",
        "NodeResourcesFit",
        *VOLUMES,
        *PODS,
        "DynamicResources",
        "NodeDeclaredFeatures",
    ],
    FilterPlugin: [
        "NodeUnschedulable",
        "NodeName",
        "TaintToleration",
        "NodeAffinity",
        "NodePorts",
        "NodeResourcesFit",
        *VOLUMES,
        *PODS,
        "DynamicResources",
        "NodeDeclaredFeatures",
    ],
    PostFilterPlugin: ["DynamicResources", "DefaultPreemption"],
    ScorePlugin: [
        "TaintToleration",
        "NodeAffinity",
        "NodeResourcesFit",
        "VolumeBinding",
        *PODS,
        "DynamicResources",
        "NodeResourcesBalancedAllocation",
        "ImageLocality",
    ],
    BindPlugin: ["DefaultBinder"],
}
"""Kube-scheduler's order (1.36); plugins that are not here yet are left out of the comparison."""


@pytest.mark.parametrize(("point", "names"), POINTS.items(), ids=lambda v: getattr(v, "__name__", None))
def test_the_order_at_each_point_is_kube_schedulers(point: type[Plugin], names: list[str]) -> None:
    assert [p.name for p in PLUGINS if issubclass(p, point)] == [
        name for name in names if name not in UNSUPPORTED_PLUGINS
    ]


def test_plugins_that_kube_scheduler_lists_at_pre_score_can_be_listed_there() -> None:
    here = {p.name for p in PLUGINS if issubclass(p, PreScorePlugin)}
    assert here >= {"TaintToleration", "NodeAffinity", "NodeResourcesFit", "NodeResourcesBalancedAllocation"}


def test_weights_are_kube_schedulers() -> None:
    stated = {"TaintToleration": 3, "NodeAffinity": 2, "DynamicResources": 2} | dict.fromkeys(PODS, 2)
    assert {n: w for n, w in DEFAULT_MULTIPOINT if w} == {
        n: w for n, w in stated.items() if n not in UNSUPPORTED_PLUGINS
    }
    assert [n for n, _ in DEFAULT_MULTIPOINT] == [p.name for p in PLUGINS]


def test_every_plugin_of_kube_scheduler_is_here_or_known_to_be_missing() -> None:
    assert len({p.name for p in PLUGINS} | set(UNSUPPORTED_PLUGINS)) == 23 == len(PLUGINS) + len(UNSUPPORTED_PLUGINS)


@pytest.mark.parametrize("plugin", PLUGINS, ids=lambda p: p.name)
def test_every_plugin_starts_with_its_default_args(plugin: type[Plugin]) -> None:
    assert all(isinstance(interest, ClusterEventWithHint) for interest in build(plugin).events_to_register())


@pytest.mark.parametrize(
    "plugin", [p for p in PLUGINS if issubclass(p, FilterPlugin | ScorePlugin)], ids=lambda p: p.name
)
def test_answers_are_kept_unless_they_depend_on_volumes_or_on_pods_elsewhere(plugin: Any) -> None:
    assert (plugin.reads <= Reads.ALL_NODES) == (plugin.name not in (*VOLUMES, *PODS))


class BindingApi:
    """Takes bindings, or refuses them."""

    def __init__(self, refuses: bool = False) -> None:
        self.bound: list[tuple[str, str]] = []
        self._refuses = refuses

    async def bind(self, of: Pod, node_name: str) -> None:
        if self._refuses:
            raise ApiError(409, "Conflict", "the pod is bound already")
        self.bound.append((of.key, node_name))


async def test_binding_asks_the_server_and_hands_its_refusal_on() -> None:
    server: Any = BindingApi()
    attempt = Cycle(0.0, "default-scheduler", "a")
    await build(DefaultBinder).bind(attempt, pod("a").build(), "node", server)
    assert server.bound == [("default/a", "node")]
    refusing: Any = BindingApi(refuses=True)
    with pytest.raises(ApiError, match="bound already"):
        await build(DefaultBinder).bind(attempt, pod("a").build(), "node", refusing)
