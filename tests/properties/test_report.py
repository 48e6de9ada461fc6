"""`evaluate` reports the result of running every plugin on every node one by one, with per-node calls."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from pyscheduler.api import Cycle, Pod, Skip, Status
from pyscheduler.cli.evaluate import Evaluator
from pyscheduler.core.context import Context
from pyscheduler.core.evaluation.uncached_evaluation import filter_node, filter_with_nominated_pods
from pyscheduler.core.framework.plugin_failure import PluginFailed
from pyscheduler.core.framework.profile import Profile
from pyscheduler.core.result_cache.plugin_result_cache import PluginResultCache
from pyscheduler.core.scheduling.extension_points import run_pre_filter_plugins
from pyscheduler.core.scheduling.report import report
from pyscheduler.core.snapshot import load_snapshot
from pyscheduler.core.state.node import NodeRow
from tests.conformance.generator import draw

Nodes = dict[str, Any]
Scores = dict[str, dict[str, int]]


def evaluate_one_by_one(context: Context, pod: Pod) -> tuple[Nodes, Scores]:
    """Return the status by node, and the weighted scores by plugin and node, without caches and columns."""
    profile, state = context.profiles[pod.scheduler_name], context.state
    cycle = Cycle(0.0, profile.name, pod.uid)
    pre = run_pre_filter_plugins(profile.pre_filter, cycle, pod, state.table, PluginResultCache())
    statuses: dict[str, Status | None] = {}
    nominated = state.info(context.queue.nominator.nominated_node(pod)) if pre.rejection is None else None
    nominated_status = None if nominated is None else _filter_status(context, profile, cycle, pod, nominated)
    for node in state.rows:
        if pre.rejection is not None:
            statuses[node.name] = pre.rejection
        elif pre.names is not None and node.name not in pre.names:
            status = nominated_status if node is nominated else None
            statuses[node.name] = status or pre.absent_nodes_status(nominated_status)
        else:
            statuses[node.name] = _filter_status(context, profile, cycle, pod, node)
    fitting = [node for node in state.rows if statuses[node.name] is None]
    expected_statuses = {
        name: None if s is None else (s.plugin, s.code.camel, sorted(s.reasons)) for name, s in statuses.items()
    }
    return expected_statuses, _scored(context, profile, cycle, pod, fitting) if fitting else {}


def _filter_status(context: Context, profile: Profile, cycle: Cycle, pod: Pod, node: NodeRow) -> Status | None:
    others = context.queue.nominator.competing_pods(pod, node.name)
    with_others = filter_with_nominated_pods(profile, cycle, pod, node, others) if others else None
    return with_others or filter_node(profile, cycle, pod, node, cycle.skipped)


def _scored(context: Context, profile: Profile, cycle: Cycle, pod: Pod, fitting: list[NodeRow]) -> Scores:
    table = context.state.table(np.array([node.row for node in fitting], np.intp))
    skipped = {plugin.name for plugin in profile.pre_score if isinstance(plugin.pre_score(cycle, pod, table), Skip)}
    scores: Scores = {}
    for weighted in profile.score:
        plugin = weighted.plugin
        if plugin.name not in skipped:
            raw = np.array([plugin.score(cycle, pod, node) for node in fitting], np.int64)
            final = plugin.normalize(cycle, pod, raw) * weighted.weight
            scores[plugin.name] = dict(zip([node.name for node in fitting], final.tolist(), strict=True))
    return scores


@pytest.mark.parametrize("seed", range(60))
def test_report_equals_per_node_evaluation(seed: int) -> None:
    document = draw(seed).document
    machine = Evaluator().machine(document.get("config"))
    sources = load_snapshot(machine, document["objects"])
    for name in document["pods"]:
        pod = machine.context.shapes.pod(sources[name])
        result = report(machine.context, pod)
        if "nodes" not in result:
            continue  # the pod is gated, or its attempt ends in an error before any node
        error, nodes, scores = "", Nodes(), Scores()
        try:
            nodes, scores = evaluate_one_by_one(machine.context, pod)
        except PluginFailed as failed:
            error = str(failed)
        assert result.get("error", "") == error
        if error:
            continue
        actual_statuses = {
            n: None if v["feasible"] else (v["plugin"], v["code"], v["reasons"]) for n, v in result["nodes"].items()
        }
        assert actual_statuses == nodes
        assert result.get("scores", {}) == scores
