"""Is a plugin what the scheduler takes it for? Checks that every plugin, ours or yours, can run in its own tests.

The plain form of a plugin is its specification. Whatever the NumPy form answers differently is a wrong placement that
nobody sees, so the two are compared node by node, for all nodes at once and for a part of them.
"""

from __future__ import annotations

from collections.abc import Iterable

import numpy as np

from pyscheduler.api import (
    MAX_NODE_SCORE,
    Cycle,
    FilterPlugin,
    NodeObject,
    NodeTable,
    Plugin,
    Pod,
    PreFilterPlugin,
    PreScorePlugin,
    Rejection,
    ScorePlugin,
    Scores,
    Skip,
    StatusError,
)
from pyscheduler.core.state import ClusterState


def assert_forms_agree(plugin: Plugin, pod: Pod, nodes: Iterable[NodeObject], running: Iterable[Pod] = ()) -> None:
    """AssertionError, naming plugin and node, unless Filter and Score of `plugin` answer alike in both forms.

    Nor may nodes score differently that are alike by its `score_equivalence`.
    `nodes` make up the cluster and `running` are the pods on them (each on its `node_name`); `pod` is to be placed.
    Normalised scores must lie in 0..100. Where PreFilter rejects or skips the pod there is nothing to filter, and where
    PreFilter or PreScore raises StatusError there is nothing to compare.
    """
    state = ClusterState()
    for node in nodes:
        state.set_node(node)
    for other in running:
        state.add_pod(other)
    tables = [state.table(), state.table(np.arange(0, len(state), 2))]
    for table in tables:
        cycle = Cycle(now=0.0, profile="default-scheduler", uid=pod.uid)
        assert_filters_agree(plugin, cycle, pod, table)
        assert_scores_agree(plugin, cycle, pod, table)


def assert_filters_agree(plugin: Plugin, cycle: Cycle, pod: Pod, nodes: NodeTable) -> None:
    """The Filter part of `assert_forms_agree`, for a table of your own."""
    if isinstance(plugin, PreFilterPlugin):
        try:
            answer = plugin.pre_filter(cycle, pod, nodes)
        except StatusError:
            return
        if isinstance(answer, Skip | Rejection):
            return
    if not isinstance(plugin, FilterPlugin):
        return
    verdicts = plugin.filter_all(cycle, pod, nodes)
    _same_length(plugin, "filter_all", len(verdicts.codes), len(nodes))
    for i, node in enumerate(nodes):
        plain, column = plugin.filter(cycle, pod, node), verdicts.at(i)
        assert plain == column, f"{plugin.name} on {node.name}: filter says {plain}, filter_all says {column}"


def assert_scores_agree(plugin: Plugin, cycle: Cycle, pod: Pod, nodes: NodeTable) -> None:
    """The Score part of `assert_forms_agree`, for a table of your own."""
    if not isinstance(plugin, ScorePlugin) or not len(nodes):
        return
    try:
        if isinstance(plugin, PreScorePlugin) and isinstance(plugin.pre_score(cycle, pod, nodes), Skip):
            return
    except StatusError:
        return
    scores = plugin.score_all(cycle, pod, nodes)
    _same_length(plugin, "score_all", len(scores), len(nodes))
    for node, column in zip(nodes, scores.tolist(), strict=True):
        plain = plugin.score(cycle, pod, node)
        assert plain == column, f"{plugin.name} on {node.name}: score says {plain}, score_all says {column}"
    _assert_alike(plugin, cycle, nodes, scores)
    final = plugin.normalize(cycle, pod, scores)
    _same_length(plugin, "normalize", len(final), len(nodes))
    outside = [n for n in final.tolist() if not 0 <= n <= MAX_NODE_SCORE]
    assert not outside, f"{plugin.name}: normalised scores {outside} are not in 0..{MAX_NODE_SCORE}"


def _assert_alike(plugin: ScorePlugin, cycle: Cycle, nodes: NodeTable, scores: Scores) -> None:
    """Nodes that are alike by what the plugin says score alike."""
    likeness = plugin.score_equivalence(cycle)
    if likeness is None:
        return
    columns = [nodes.topology(key).ids for key in likeness.topologies]
    columns += [nodes.count_pods(count) for count in likeness.counts]
    first: dict[tuple[int, ...], tuple[str, int]] = {}
    for i, node in enumerate(nodes):
        kind = tuple(int(column[i]) for column in columns)
        name, score = first.setdefault(kind, (node.name, int(scores[i])))
        says = f"{plugin.name} says by score_equivalence that {name} and {node.name} score alike"
        assert score == scores[i], f"{says}, which come to {score} and {scores[i]}"


def _same_length(plugin: Plugin, what: str, given: int, wanted: int) -> None:
    assert given == wanted, f"{plugin.name}: {what} gives {given} answers for {wanted} nodes"
