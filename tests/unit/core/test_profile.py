"""Profiles compiled from plugin instances by extension point, and the properties derived from their plugins."""

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
from pyscheduler.core.framework.handle import empty_handle
from pyscheduler.core.framework.profile import compile_profile, is_cacheable, reads_of
from pyscheduler.core.framework.registry import POINTS, DuplicatePlugin, PluginRegistration, Registry, points_of
from pyscheduler.intree import DefaultBinder, NodeResourcesFit, PrioritySort

CLAIM = ResourceKind("", "v1", "persistentvolumeclaims", "PersistentVolumeClaim")
REPLICAS = ResourceKind("apps", "v1", "replicasets", "ReplicaSet")


class Both(FilterPlugin, ScorePlugin):
    """Plugin with two extension points, watched kinds and indexed labels."""

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


class Prepared(PreScorePlugin, Both):
    """Score plugin with PreScore."""

    name = "Prepared"

    def pre_score(self, *_: Any) -> None:
        return None


class Undeclared(PostFilterPlugin):
    """Plugin that declares neither events nor reads."""

    name = "Undeclared"

    def post_filter(self, *_: Any) -> Rejection:
        return Rejection()


def instantiate(*classes: type[Plugin]) -> list[tuple[Plugin, int]]:
    handle = empty_handle()
    return [(cls(cls.Args(), handle), i) for i, cls in enumerate(classes, start=1)]


SORT, BIND = {"queueSort": instantiate(PrioritySort)}, {"bind": instantiate(DefaultBinder)}


@pytest.mark.parametrize(
    ("points", "message"),
    [
        (BIND, 'only one queue sort plugin required for profile with scheduler name "p", but got 0'),
        (
            {"queueSort": instantiate(PrioritySort, PrioritySort), **BIND},
            'only one queue sort plugin required for profile with scheduler name "p", but got 2',
        ),
        (SORT, 'at least one bind plugin is needed for profile with scheduler name "p"'),
    ],
)
def test_profile_without_one_queue_sort_and_a_bind_plugin_is_rejected(points: dict[str, Any], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        compile_profile("p", points)


def test_compiled_profile_has_plugins_by_point_in_order_with_weights() -> None:
    both, undeclared = instantiate(Both, Undeclared)
    profile = compile_profile("p", {**SORT, **BIND, "filter": [both], "score": [both], "postFilter": [undeclared]})
    assert profile.filter == (both[0],)
    assert [(weighted.plugin, weighted.weight) for weighted in profile.score] == [both]
    assert [plugin.name for plugin in profile.plugins] == ["PrioritySort", "Both", "Undeclared", "DefaultBinder"]


def test_pre_score_runs_once_if_a_plugin_is_enabled_for_score_alone_or_for_both() -> None:
    (prepared,) = instantiate(Prepared)
    assert compile_profile("p", {**SORT, **BIND, "score": [prepared]}).pre_score == (prepared[0],)
    both = {"preScore": [prepared], "score": [prepared]}
    assert compile_profile("p", {**SORT, **BIND, **both}).pre_score == (prepared[0],)


def test_profile_collects_watches_indexes_and_events_of_its_plugins() -> None:
    both, undeclared = instantiate(Both, Undeclared)
    profile = compile_profile("p", {**SORT, **BIND, "filter": [both], "score": [both], "postFilter": [undeclared]})
    assert profile.watches == {CLAIM}
    assert profile.indexes == {"app"}
    assert [interest for name, interest in profile.events_to_register if name == "Both"] == [
        ClusterEventWithHint("Node", Action.ADD)
    ]


class Spreader(Both):
    """Watches claims and replica sets, and registers for nodes and claims."""

    name = "Spreader"
    watches: ClassVar[tuple[ResourceKind, ...]] = (CLAIM, REPLICAS)

    def events_to_register(self) -> Sequence[ClusterEventWithHint]:
        return ClusterEventWithHint("Node", Action.ADD), ClusterEventWithHint(CLAIM.kind, Action.ADD)


class Watchful(Undeclared):
    """Registers for no events, and watches replica sets."""

    name = "Watchful"
    watches = (REPLICAS,)


def test_plugin_without_registrations_gets_all_registered_kinds_and_its_own_watches() -> None:
    spreader, undeclared, watchful = instantiate(Spreader, Undeclared, Watchful)
    profile = compile_profile("p", {**SORT, **BIND, "filter": [spreader], "postFilter": [undeclared, watchful]})
    woken = {
        name: {i.resource for plugin, i in profile.events_to_register if plugin == name}
        for name, _ in profile.events_to_register
    }
    assert woken["Undeclared"] == {"Node", "Pod", CLAIM.kind}
    assert woken["Watchful"] == {"Node", "Pod", CLAIM.kind, REPLICAS.kind}
    assert {i.actions for plugin, i in profile.events_to_register if plugin == "Undeclared"} == {Action.ALL}


@pytest.mark.parametrize(
    ("reads", "identity", "cached"),
    [
        (Reads.OWN_NODE, False, True),
        (Reads.ALL_NODES, False, True),
        (Reads.DOMAINS, False, False),
        (Reads.EVERYTHING, False, False),
        (Reads.OWN_NODE, True, False),
    ],
)
def test_results_are_cached_for_plugins_that_read_no_domains_and_no_names(
    reads: Reads, identity: bool, cached: bool
) -> None:
    ((plugin, _),) = instantiate(type("Other", (Both,), {"reads": reads, "reads_identity": identity}))
    assert is_cacheable(plugin) is cached


def test_plugin_that_declares_no_reads_is_taken_to_read_everything() -> None:
    ((undeclared, _),) = instantiate(Undeclared)
    assert (reads_of(undeclared), is_cacheable(undeclared)) == (Reads.EVERYTHING, False)


def test_registry_rejects_a_second_class_with_the_same_name() -> None:
    registry = Registry()
    for _ in range(2):
        registry.add(PluginRegistration("Both", Both, "mine"))
    with pytest.raises(DuplicatePlugin, match=r'a plugin named "Both" already exists: .*\(mine\) and .*\(theirs\)'):
        registry.add(PluginRegistration("Both", Undeclared, "theirs"))
    assert (registry.names(), "Both" in registry, registry.get("Unknown")) == (("Both",), True, None)


def test_extension_points_have_the_names_of_the_configuration() -> None:
    assert points_of(Both) == ("filter", "score")
    assert points_of(NodeResourcesFit) == ("preFilter", "filter", "placementScore", "preScore", "score")
    assert POINTS["queueSort"] is QueueSortPlugin
