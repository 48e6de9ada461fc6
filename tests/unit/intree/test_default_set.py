"""The default plugins are kube-scheduler's, and each is complete."""

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
    PermitPlugin,
    PlacementGeneratePlugin,
    PlacementScorePlugin,
    Plugin,
    Pod,
    PostFilterPlugin,
    PreEnqueuePlugin,
    PreFilterPlugin,
    PreScorePlugin,
    QueueSortPlugin,
    ScorePlugin,
)
from pyscheduler.core.framework.profile import is_cacheable
from pyscheduler.intree import DEFAULT_MULTIPOINT, PLUGINS, DefaultBinder
from pyscheduler.testing import pod

from .cluster import build

VOLUMES = ["VolumeRestrictions", "NodeVolumeLimits", "VolumeBinding", "VolumeZone"]
PODS = ["PodTopologySpread", "InterPodAffinity"]
POINTS: Mapping[type[Plugin], list[str]] = {
    QueueSortPlugin: ["PrioritySort"],
    PreEnqueuePlugin: ["SchedulingGates", "DynamicResources", "DefaultPreemption", "GangScheduling"],
    PreFilterPlugin: [
        "NodeName",
        "NodeUnschedulable",
        "TaintToleration",
        "NodeAffinity",
        "NodePorts",
        "DeferredPodScheduling",
        "NodeResourcesFit",
        *VOLUMES,
        *PODS,
        "DynamicResources",
        "NodeDeclaredFeatures",
    ],
    FilterPlugin: [
        "NodeName",
        "NodeUnschedulable",
        "TaintToleration",
        "NodeAffinity",
        "NodePorts",
        "DeferredPodScheduling",
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
    PlacementGeneratePlugin: ["TopologyPlacementGenerator"],
    PlacementScorePlugin: ["NodeResourcesFit", "PodGroupPodsCount"],
    PermitPlugin: ["DeferredPodScheduling", "GangScheduling"],
    BindPlugin: ["DefaultBinder"],
}
"""Kube-scheduler's order (1.37)."""


@pytest.mark.parametrize(("point", "names"), POINTS.items(), ids=lambda v: getattr(v, "__name__", None))
def test_plugin_order_equals_kube_schedulers(point: type[Plugin], names: list[str]) -> None:
    assert [p.name for p in PLUGINS if issubclass(p, point)] == names


def test_pre_score_plugins_of_kube_scheduler_have_pre_score() -> None:
    here = {p.name for p in PLUGINS if issubclass(p, PreScorePlugin)}
    assert here >= {"TaintToleration", "NodeAffinity", "NodeResourcesFit", "NodeResourcesBalancedAllocation"}


def test_default_weights_equal_kube_schedulers() -> None:
    stated = {"TaintToleration": 3, "NodeAffinity": 2, "DynamicResources": 2, "PodGroupPodsCount": 1} | dict.fromkeys(
        PODS, 2
    )
    assert {n: w for n, w in DEFAULT_MULTIPOINT if w} == stated
    assert [n for n, _ in DEFAULT_MULTIPOINT] == [p.name for p in PLUGINS]


def test_every_kube_scheduler_plugin_is_present() -> None:
    assert len({p.name for p in PLUGINS}) == 24 == len(PLUGINS)


@pytest.mark.parametrize("plugin", PLUGINS, ids=lambda p: p.name)
def test_every_plugin_starts_with_its_default_args(plugin: type[Plugin]) -> None:
    assert all(isinstance(interest, ClusterEventWithHint) for interest in build(plugin).events_to_register())


@pytest.mark.parametrize(
    "plugin", [p for p in PLUGINS if issubclass(p, FilterPlugin | ScorePlugin)], ids=lambda p: p.name
)
def test_results_are_cacheable_unless_they_depend_on_claims_or_other_nodes(plugin: Any) -> None:
    assert is_cacheable(build(plugin)) == (plugin.name not in (*VOLUMES, *PODS, "DynamicResources"))


class BindingApi:
    """API client that records bindings, or rejects them."""

    def __init__(self, refuses: bool = False) -> None:
        self.bound: list[tuple[str, str]] = []
        self._refuses = refuses

    async def bind(self, of: Pod, node_name: str) -> None:
        if self._refuses:
            raise ApiError(409, "Conflict", "the pod is bound already")
        self.bound.append((of.key, node_name))


async def test_default_binder_binds_and_raises_api_errors() -> None:
    server: Any = BindingApi()
    attempt = Cycle(0.0, "default-scheduler", "a")
    await build(DefaultBinder).bind(attempt, pod("a").build(), "node", server)
    assert server.bound == [("default/a", "node")]
    refusing: Any = BindingApi(refuses=True)
    with pytest.raises(ApiError, match="bound already"):
        await build(DefaultBinder).bind(attempt, pod("a").build(), "node", refusing)
