"""Helpers of the plugin tests: rejections and scores of each node.

Each helper runs the per-node and the NumPy form, so every test checks that they agree.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, TypeVar

from pyscheduler.api import (
    ASSIGNED_POD,
    NODE,
    SKIP,
    UNSCHEDULED_POD,
    Action,
    ClusterEvent,
    Cycle,
    NodeInfo,
    NodeTable,
    Plugin,
    PreFilterPlugin,
    PreScorePlugin,
    QueueingHint,
    Rejection,
)
from pyscheduler.core.framework.handle import empty_handle
from pyscheduler.core.state import ClusterState
from pyscheduler.testing import NodeBuilder, PodBuilder
from pyscheduler.testing.conformance import assert_filters_agree, assert_scores_agree

P = TypeVar("P", bound=Plugin)
Reasons = tuple[str, ...] | None
"""Result of a node: None if the pod fits, else the reasons."""


def build(plugin: type[P], **args: Any) -> P:
    return plugin(plugin.Args(**args), empty_handle())


def table(nodes: Sequence[NodeBuilder], pods: Sequence[PodBuilder] = ()) -> NodeTable:
    """Return a table of these nodes with their pods."""
    return state_of(nodes, pods).table()


def state_of(nodes: Sequence[NodeBuilder], pods: Sequence[PodBuilder] = ()) -> ClusterState:
    """Return a cluster of these nodes with their pods."""
    state = ClusterState()
    for node in nodes:
        state.set_node(node.build())
    for pod in pods:
        state.add_pod(pod.build())
    return state


def cycle() -> Cycle:
    return Cycle(now=0.0, profile="default-scheduler", uid="pod")


def rejections(
    plugin: Any, pod: PodBuilder, nodes: Sequence[NodeBuilder], pods: Sequence[PodBuilder] = ()
) -> list[Rejection | None]:
    """Return the rejection by the plugin's Filter for each node."""
    cluster, attempt = table(nodes, pods), cycle()
    assert_filters_agree(plugin, attempt, pod.build(), cluster)
    if isinstance(plugin, PreFilterPlugin):
        pre_filter_result = plugin.pre_filter(attempt, pod.build(), cluster)
        assert pre_filter_result in (None, SKIP)
        if pre_filter_result is SKIP:
            return [None] * len(nodes)
    return [plugin.filter(attempt, pod.build(), node) for node in cluster]


def reasons(
    plugin: Any, pod: PodBuilder, nodes: Sequence[NodeBuilder], pods: Sequence[PodBuilder] = ()
) -> list[Reasons]:
    """Return the reasons of the plugin's Filter for each node."""
    return [r.reasons if r else None for r in rejections(plugin, pod, nodes, pods)]


def scores(plugin: Any, pod: PodBuilder, nodes: Sequence[NodeBuilder], pods: Sequence[PodBuilder] = ()) -> list[int]:
    """Return the raw score of each node."""
    cluster, attempt = table(nodes, pods), cycle()
    assert_scores_agree(plugin, attempt, pod.build(), cluster)
    if isinstance(plugin, PreScorePlugin):
        assert plugin.pre_score(attempt, pod.build(), cluster) is None
    return [plugin.score(attempt, pod.build(), node) for node in cluster]


def final_scores(
    plugin: Any, pod: PodBuilder, nodes: Sequence[NodeBuilder], pods: Sequence[PodBuilder] = ()
) -> list[int]:
    """Return the score of each node after NormalizeScore."""
    cluster, attempt = table(nodes, pods), cycle()
    if isinstance(plugin, PreScorePlugin):
        plugin.pre_score(attempt, pod.build(), cluster)
    raw = plugin.score_all(attempt, pod.build(), cluster)
    final: list[int] = plugin.normalize(attempt, pod.build(), raw).tolist()
    return final


def node_added(new: NodeBuilder) -> ClusterEvent:
    return ClusterEvent(NODE, Action.ADD, None, new.build())


def node_updated(action: Action, old: NodeBuilder, new: NodeBuilder) -> ClusterEvent:
    return ClusterEvent(NODE, action, old.build(), new.build())


def pod_deleted(old: PodBuilder) -> ClusterEvent:
    pod = old.build()
    return ClusterEvent(ASSIGNED_POD if pod.node_name else UNSCHEDULED_POD, Action.DELETE, pod, None)


def pod_updated(action: Action, old: PodBuilder, new: PodBuilder) -> ClusterEvent:
    pod = new.build()
    return ClusterEvent(ASSIGNED_POD if pod.node_name else UNSCHEDULED_POD, action, old.build(), pod)


def requeues(plugin: Plugin, pod: PodBuilder, event: ClusterEvent) -> bool:
    """Return True if the event requeues a pod that the plugin rejected."""
    hints = [i.hint for i in plugin.events_to_register() if i.covers(event)]
    return any(hint is None or hint(pod.build(), event) is QueueingHint.QUEUE for hint in hints)


def info(cluster: NodeTable, name: str) -> NodeInfo:
    return next(node for node in cluster if node.name == name)
