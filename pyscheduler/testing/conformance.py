"""Conformance checks for the tests of any plugin.

The per-node form of a plugin is its specification. A NumPy form with other results places pods wrongly without an
error, so both are compared node by node, for all nodes and for a subset.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

import numpy as np

from pyscheduler.api import (
    MAX_NODE_SCORE,
    Cycle,
    FilterPlugin,
    NodeEquivalence,
    NodeInfo,
    NodeObject,
    NodeTable,
    Plugin,
    Pod,
    PreFilterPlugin,
    PreScorePlugin,
    Rejection,
    ScorePlugin,
    Skip,
    StatusError,
)
from pyscheduler.api.counts import counted
from pyscheduler.core.state import ClusterState


def assert_forms_agree(plugin: Plugin, pod: Pod, nodes: Iterable[NodeObject], running: Iterable[Pod] = ()) -> None:
    """Raise AssertionError unless both forms of Filter and Score of `plugin` return equal results on all nodes.

    `nodes` make up the cluster, `running` are the pods assigned to them by `node_name`, and `pod` is the incoming pod.
    Nodes that `filter_equivalence` or `score_equivalence` groups must have equal results, those with the
    `required_room` must fit, and normalised scores must be in 0..100. Filter is not compared if PreFilter rejects or
    skips the pod, and nothing is after a StatusError in PreFilter or PreScore.
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
    """Run the Filter part of `assert_forms_agree` on a given cycle and table."""
    if isinstance(plugin, PreFilterPlugin):
        try:
            result = plugin.pre_filter(cycle, pod, nodes)
        except StatusError:
            return
        if isinstance(result, Skip | Rejection):
            return
    if not isinstance(plugin, FilterPlugin):
        return
    results = plugin.filter_all(cycle, pod, nodes)
    _assert_length(plugin, "filter_all", len(results.codes), len(nodes))
    for i, node in enumerate(nodes):
        plain, column = plugin.filter(cycle, pod, node), results.at(i)
        assert plain == column, f"{plugin.name} on {node.name}: filter returns {plain}, filter_all returns {column}"
    room = plugin.required_room(cycle, pod)
    for i, node in enumerate(nodes if room is not None else ()):
        assert (results.at(i) is None) is _has_room(node, room or {}), f"{plugin.name}: required_room on {node.name}"
    equivalence = plugin.filter_equivalence(cycle)
    if equivalence is not None:
        _assert_equivalent(plugin, "filter_equivalence", equivalence, nodes, [results.at(i) for i in range(len(nodes))])


def _has_room(node: NodeInfo, required: Mapping[str, int]) -> bool:
    return len(node.pods) < node.allowed_pods and all(
        node.allocatable.get(resource, 0) - node.requested.get(resource, 0) >= amount
        for resource, amount in required.items()
    )


def assert_scores_agree(plugin: Plugin, cycle: Cycle, pod: Pod, nodes: NodeTable) -> None:
    """Run the Score part of `assert_forms_agree` on a given cycle and table."""
    if not isinstance(plugin, ScorePlugin) or not len(nodes):
        return
    try:
        if isinstance(plugin, PreScorePlugin) and isinstance(plugin.pre_score(cycle, pod, nodes), Skip):
            return
    except StatusError:
        return
    scores = plugin.score_all(cycle, pod, nodes)
    _assert_length(plugin, "score_all", len(scores), len(nodes))
    for node, column in zip(nodes, scores.tolist(), strict=True):
        plain = plugin.score(cycle, pod, node)
        assert plain == column, f"{plugin.name} on {node.name}: score returns {plain}, score_all returns {column}"
    equivalence = plugin.score_equivalence(cycle)
    if equivalence is not None:
        _assert_equivalent(plugin, "score_equivalence", equivalence, nodes, scores.tolist())
    final = plugin.normalize(cycle, pod, scores)
    _assert_length(plugin, "normalize", len(final), len(nodes))
    outside = [n for n in final.tolist() if not 0 <= n <= MAX_NODE_SCORE]
    assert not outside, f"{plugin.name}: normalised scores {outside} are not in 0..{MAX_NODE_SCORE}"


def _assert_equivalent(
    plugin: Plugin, method: str, equivalence: NodeEquivalence, nodes: NodeTable, results: Sequence[object]
) -> None:
    """Raise AssertionError if nodes of one equivalence class have different results."""
    columns = [nodes.topology(key).ids for key in equivalence.topologies]
    columns += [nodes.count_pods(count) for count in equivalence.counts]
    first: dict[tuple[int, ...], tuple[str, object]] = {}
    for i, node in enumerate(nodes):
        key = tuple(int(column[i]) for column in columns)
        name, result = first.setdefault(key, (node.name, results[i]))
        pair = f"{plugin.name}: {method} groups {name} and {node.name}"
        assert result == results[i], f"{pair}, which get {result} and {results[i]}"


def _assert_length(plugin: Plugin, method: str, length: int, expected: int) -> None:
    assert length == expected, (
        f"{plugin.name}: {method} returns {counted(length, 'result')} for {counted(expected, 'node')}"
    )
