"""Profiles compiled from plugin instances by extension point, and what they tell about their plugins."""

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
from pyscheduler.core.framework.profile import compile_profile, is_kept, reads_of
from pyscheduler.core.framework.registry import POINTS, DuplicatePlugin, PluginRegistration, Registry, points_of
from pyscheduler.intree import DefaultBinder, NodeResourcesFit, PrioritySort

CLAIM = ResourceKind("", "v1", "persistentvolumeclaims", "PersistentVolumeClaim")
REPLICAS = ResourceKind("apps", "v1", "replicasets", "ReplicaSet")


class Both(FilterPlugin, ScorePlugin):
    """Serves two points, watches and indexes."""

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
    """Prepares what it scores by."""

    name = "Prepared"

    def pre_score(self, *_: Any) -> None:
        return None


class Secretive(PostFilterPlugin):
    """Says nothing about itself."""

    name = "Secretive"

    def post_filter(self, *_: Any) -> Rejection:
        return Rejection()


def made(*classes: type[Plugin]) -> list[tuple[Plugin, int]]:
    handle = CoreHandle()
    return [(cls(cls.Args(), handle), i) for i, cls in enumerate(classes, start=1)]


SORT, BIND = {"queueSort": made(PrioritySort)}, {"bind": made(DefaultBinder)}


@pytest.mark.parametrize(
    ("points", "complaint"),
    [
        (BIND, 'only one queue sort plugin required for profile with scheduler name "p", but got 0'),
        (
            {"queueSort": made(PrioritySort, PrioritySort), **BIND},
            'only one queue sort plugin required for profile with scheduler name "p", but got 2',
        ),
        (SORT, 'at least one bind plugin is needed for profile with scheduler name "p"'),
    ],
)
def test_a_profile_that_cannot_work_is_refused(points: dict[str, Any], complaint: str) -> None:
    with pytest.raises(ValueError, match=complaint):
        compile_profile("p", points)


def test_plugins_stand_at_their_points_in_order_with_their_weights() -> None:
    both, secretive = made(Both, Secretive)
    profile = compile_profile("p", {**SORT, **BIND, "filter": [both], "score": [both], "postFilter": [secretive]})
    assert profile.filter == (both[0],)
    assert [(weighted.plugin, weighted.weight) for weighted in profile.score] == [both]
    assert [plugin.name for plugin in profile.plugins] == ["PrioritySort", "Both", "Secretive", "DefaultBinder"]


def test_what_prepares_for_score_runs_with_it() -> None:
    """A configuration may name the plugin at Score alone."""
    (prepared,) = made(Prepared)
    assert compile_profile("p", {**SORT, **BIND, "score": [prepared]}).pre_score == (prepared[0],)
    both = {"preScore": [prepared], "score": [prepared]}
    assert compile_profile("p", {**SORT, **BIND, **both}).pre_score == (prepared[0],)


def test_a_profile_tells_what_its_plugins_want_to_know() -> None:
    both, secretive = made(Both, Secretive)
    profile = compile_profile("p", {**SORT, **BIND, "filter": [both], "score": [both], "postFilter": [secretive]})
    assert profile.watches == {CLAIM}
    assert profile.indexes == {"app"}
    assert [interest for name, interest in profile.events_to_register if name == "Both"] == [
        ClusterEventWithHint("Node", Action.ADD)
    ]


class Spreader(Both):
    """Reads replica sets, and waits for nodes and claims."""

    name = "Spreader"
    watches: ClassVar[tuple[ResourceKind, ...]] = (CLAIM, REPLICAS)

    def events_to_register(self) -> Sequence[ClusterEventWithHint]:
        return ClusterEventWithHint("Node", Action.ADD), ClusterEventWithHint(CLAIM.kind, Action.ADD)


class Watchful(Secretive):
    """Does not say what may help either, and reads replica sets itself."""

    name = "Watchful"
    watches = (REPLICAS,)


def test_anything_is_what_somebody_waits_for_and_not_what_others_only_read() -> None:
    spreader, secretive, watchful = made(Spreader, Secretive, Watchful)
    profile = compile_profile("p", {**SORT, **BIND, "filter": [spreader], "postFilter": [secretive, watchful]})
    woken = {
        name: {i.resource for plugin, i in profile.events_to_register if plugin == name}
        for name, _ in profile.events_to_register
    }
    assert woken["Secretive"] == {"Node", "Pod", CLAIM.kind}
    assert woken["Watchful"] == {"Node", "Pod", CLAIM.kind, REPLICAS.kind}
    assert {i.actions for plugin, i in profile.events_to_register if plugin == "Secretive"} == {Action.ALL}


@pytest.mark.parametrize(
    ("reads", "identity", "kept"),
    [
        (Reads.OWN_NODE, False, True),
        (Reads.ALL_NODES, False, True),
        (Reads.DOMAINS, False, False),
        (Reads.EVERYTHING, False, False),
        (Reads.OWN_NODE, True, False),
    ],
)
def test_answers_are_kept_of_plugins_that_read_no_pods_and_no_names(reads: Reads, identity: bool, kept: bool) -> None:
    ((plugin, _),) = made(type("Other", (Both,), {"reads": reads, "reads_identity": identity}))
    assert is_kept(plugin) is kept


def test_a_plugin_that_does_not_say_what_it_reads_reads_everything() -> None:
    ((secretive, _),) = made(Secretive)
    assert (reads_of(secretive), is_kept(secretive)) == (Reads.EVERYTHING, False)


def test_a_registry_knows_a_name_for_one_class_only() -> None:
    registry = Registry()
    for _ in range(2):
        registry.add(PluginRegistration("Both", Both, "mine"))
    with pytest.raises(DuplicatePlugin, match=r'a plugin named "Both" already exists: .*\(mine\) and .*\(theirs\)'):
        registry.add(PluginRegistration("Both", Secretive, "theirs"))
    assert (registry.names(), "Both" in registry, registry.get("Nobody")) == (("Both",), True, None)


def test_points_are_named_as_configurations_name_them() -> None:
    assert points_of(Both) == ("filter", "score")
    assert points_of(NodeResourcesFit) == ("preFilter", "filter", "preScore", "score")
    assert POINTS["queueSort"] is QueueSortPlugin
