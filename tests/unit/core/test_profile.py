"""Profiles compiled from plugin instances by extension point, and their properties."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, ClassVar

import pytest

from pyscheduler.api import (
    Action,
    ClusterEventWithHint,
    Cycle,
    FilterPlugin,
    NodeInfo,
    Plugin,
    Pod,
    PostFilterPlugin,
    PreScorePlugin,
    QueueSortPlugin,
    Reads,
    Rejection,
    ResourceKind,
    ScorePlugin,
)
from pyscheduler.core.framework.handle import CoreHandle
from pyscheduler.core.framework.profile import compile_profile, is_cacheable, reads_of
from pyscheduler.core.framework.registry import POINTS, DuplicatePlugin, PluginRegistration, Registry, points_of
from pyscheduler.intree import DefaultBinder, NodeResourcesFit, PrioritySort

CLAIM = ResourceKind("", "v1", "persistentvolumeclaims", "PersistentVolumeClaim")
REPLICAS = ResourceKind("apps", "v1", "replicasets", "ReplicaSet")


class Both(FilterPlugin, ScorePlugin):
    """Implements Filter and Score, watches a kind and indexes a label."""

    name = "Both"
    reads = Reads.OWN_NODE
    watches: ClassVar[tuple[ResourceKind, ...]] = (CLAIM,)
    indexes = ("app",)

    def events_to_register(self) -> Sequence[ClusterEventWithHint]:
        return (ClusterEventWithHint("Node", Action.ADD),)

    def filter(self, cycle: Cycle, pod: Pod, node: NodeInfo) -> Rejection | None:
        return None

    def score(self, cycle: Cycle, pod: Pod, node: NodeInfo) -> int:
        return 1


class WithPreScore(PreScorePlugin, Both):
    """Implements PreScore as well."""

    name = "WithPreScore"

    def pre_score(self, *_: Any) -> None:
        return None


class Undeclared(PostFilterPlugin):
    """Declares neither reads nor events."""

    name = "Undeclared"

    def post_filter(self, *_: Any) -> Rejection:
        return Rejection()


def instances(*classes: type[Plugin]) -> list[tuple[Plugin, int]]:
    handle = CoreHandle()
    return [(cls(cls.Args(), handle), i) for i, cls in enumerate(classes, start=1)]


SORT, BIND = {"queueSort": instances(PrioritySort)}, {"bind": instances(DefaultBinder)}


@pytest.mark.parametrize(
    ("points", "message"),
    [
        (BIND, 'only one queue sort plugin required for profile with scheduler name "p", but got 0'),
        (
            {"queueSort": instances(PrioritySort, PrioritySort), **BIND},
            'only one queue sort plugin required for profile with scheduler name "p", but got 2',
        ),
        (SORT, 'at least one bind plugin is needed for profile with scheduler name "p"'),
    ],
)
def test_invalid_profile_is_rejected(points: dict[str, Any], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        compile_profile("p", points)


def test_compiled_profile_keeps_order_and_weights() -> None:
    both, undeclared = instances(Both, Undeclared)
    profile = compile_profile("p", {**SORT, **BIND, "filter": [both], "score": [both], "postFilter": [undeclared]})
    assert profile.filter == (both[0],)
    assert [(weighted.plugin, weighted.weight) for weighted in profile.score] == [both]
    assert [plugin.name for plugin in profile.plugins] == ["PrioritySort", "Both", "Undeclared", "DefaultBinder"]


def test_pre_score_is_enabled_with_score() -> None:
    """A configuration may enable the plugin at Score only."""
    (with_pre_score,) = instances(WithPreScore)
    assert compile_profile("p", {**SORT, **BIND, "score": [with_pre_score]}).pre_score == (with_pre_score[0],)
    both = {"preScore": [with_pre_score], "score": [with_pre_score]}
    assert compile_profile("p", {**SORT, **BIND, **both}).pre_score == (with_pre_score[0],)


def test_profile_collects_watches_indexes_and_events() -> None:
    both, undeclared = instances(Both, Undeclared)
    profile = compile_profile("p", {**SORT, **BIND, "filter": [both], "score": [both], "postFilter": [undeclared]})
    assert profile.watches == {CLAIM}
    assert profile.indexes == {"app"}
    assert [interest for name, interest in profile.events_to_register if name == "Both"] == [
        ClusterEventWithHint("Node", Action.ADD)
    ]


class Spreader(Both):
    """Watch replica sets and register node and claim events."""

    name = "Spreader"
    watches: ClassVar[tuple[ResourceKind, ...]] = (CLAIM, REPLICAS)

    def events_to_register(self) -> Sequence[ClusterEventWithHint]:
        return ClusterEventWithHint("Node", Action.ADD), ClusterEventWithHint(CLAIM.kind, Action.ADD)


class WatchesReplicas(Undeclared):
    """Register no events, but watch replica sets."""

    name = "WatchesReplicas"
    watches = (REPLICAS,)


def test_wildcard_resource_excludes_kinds_only_read_by_others() -> None:
    spreader, undeclared, watches_replicas = instances(Spreader, Undeclared, WatchesReplicas)
    profile = compile_profile("p", {**SORT, **BIND, "filter": [spreader], "postFilter": [undeclared, watches_replicas]})
    resources = {
        name: {i.resource for plugin, i in profile.events_to_register if plugin == name}
        for name, _ in profile.events_to_register
    }
    assert resources["Undeclared"] == {"Node", "Pod", CLAIM.kind}
    assert resources["WatchesReplicas"] == {"Node", "Pod", CLAIM.kind, REPLICAS.kind}
    assert {i.actions for plugin, i in profile.events_to_register if plugin == "Undeclared"} == {Action.ALL}


@pytest.mark.parametrize(
    ("reads", "identity", "cacheable"),
    [
        (Reads.OWN_NODE, False, True),
        (Reads.ALL_NODES, False, True),
        (Reads.DOMAINS, False, False),
        (Reads.EVERYTHING, False, False),
        (Reads.OWN_NODE, True, False),
    ],
)
def test_results_are_cacheable_without_reading_pods_or_identity(reads: Reads, identity: bool, cacheable: bool) -> None:
    ((plugin, _),) = instances(type("Other", (Both,), {"reads": reads, "reads_identity": identity}))
    assert is_cacheable(plugin) is cacheable


def test_plugin_without_reads_reads_everything() -> None:
    ((undeclared, _),) = instances(Undeclared)
    assert (reads_of(undeclared), is_cacheable(undeclared)) == (Reads.EVERYTHING, False)


def test_registry_rejects_second_class_with_same_name() -> None:
    registry = Registry()
    for _ in range(2):
        registry.add(PluginRegistration("Both", Both, "mine"))
    with pytest.raises(DuplicatePlugin, match=r'a plugin named "Both" already exists: .*\(mine\) and .*\(theirs\)'):
        registry.add(PluginRegistration("Both", Undeclared, "theirs"))
    assert (registry.names(), "Both" in registry, registry.get("Unknown")) == (("Both",), True, None)


def test_points_use_configuration_names() -> None:
    assert points_of(Both) == ("filter", "score")
    assert points_of(NodeResourcesFit) == ("preFilter", "filter", "preScore", "score")
    assert POINTS["queueSort"] is QueueSortPlugin
