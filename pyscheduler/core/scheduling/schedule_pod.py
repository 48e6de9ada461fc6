"""Selection of a node for a pod, top down: schedule_one.go.

    schedule_pod
        find_nodes_that_fit_pod
            run_pre_filter                   run_pre_filter_plugins, in extension_points.py
            evaluate_nominated_node
            find_nodes_that_pass_filters     Filter; its results are in filtered_nodes.py
        prioritize_nodes                     PreScore, Score, NormalizeScore; results in core/result_cache, or
                                             uncached_evaluation.py there
        select_host

It changes nothing but cached results. `start_cycle` precedes it.
"""

from __future__ import annotations

import numpy as np
from msgspec import Struct

from pyscheduler.api.cycle import Cycle
from pyscheduler.api.diagnosis import Diagnosis
from pyscheduler.api.nodes import Mask
from pyscheduler.api.normalize import Scores
from pyscheduler.api.outcome import Code, Status, StatusError
from pyscheduler.api.pod import Pod
from pyscheduler.api.queued import QueuedPod
from pyscheduler.core.context import Context
from pyscheduler.core.evaluation.uncached_evaluation import pre_score_rows, score_rows, sum_scores
from pyscheduler.core.framework.plugin_failure import PluginFailed
from pyscheduler.core.instrument import SUCCESS
from pyscheduler.core.result_cache.class_results import ClassResults
from pyscheduler.core.result_cache.equivalence_cache import EquivalenceCache
from pyscheduler.core.result_cache.plugin_result_cache import PluginResultCache
from pyscheduler.core.result_cache.row_scores import TopScores
from pyscheduler.core.scheduling.extension_points import (
    PreFilterResult,
    run_pre_filter_plugins,
)
from pyscheduler.core.scheduling.filtered_nodes import (
    FilteredNodes,
    NominatedNode,
    filter_all_nodes_uncached,
    filter_nodes,
    rejected_with_nominated_pods,
    run_filter_plugins_with_nominated_pods,
)
from pyscheduler.core.scheduling.node_order import random_best, top_of_heap
from pyscheduler.core.scheduling.profile_runtime import ProfileRuntime
from pyscheduler.core.state.node import NodeRow
from pyscheduler.kernels import Rows

NO_NODES = Status(Code.UNSCHEDULABLE_AND_UNRESOLVABLE, "", ("no nodes available to schedule pods",))


def start_cycle(context: Context, queued: QueuedPod, now: float) -> Cycle:
    """Count an attempt and return its cycle."""
    pod = queued.pod
    context.attempts += 1
    observer = context.instrument.call_observer(context.attempts)
    timer = context.instrument.timer if pod.is_large else None
    cycle = Cycle(now, pod.scheduler_name, pod.uid, queued.attempts, context.settings.seed, observer, timer)
    cycle.is_resize = bool(pod.node_name)  # other pods with a node are not attempted
    return cycle


class ScheduleResult(Struct, frozen=True):
    """The selected node and the number of feasible nodes."""

    node: NodeRow
    feasible: int


class FeasibleNodes(Struct, frozen=True):
    """Nodes that are scored: the feasible ones, or kube-scheduler's sample of them."""

    count: int
    rows: Rows | None
    """Their rows in the order in which they were found; None: all feasible rows of the cache, more than one."""
    cache: EquivalenceCache | None
    """Cache with their scores; None if its scores would be normalized over more nodes, or there is no cache."""


class ScoredRows(Struct, frozen=True):
    """Rows with their weighted total scores."""

    rows: Rows
    totals: Scores


def schedule_pod(
    runtime: ProfileRuntime, cycle: Cycle, pod: Pod, within: Mask | None = None
) -> ScheduleResult | Diagnosis:
    """Return a node for the pod, or a diagnosis if no node fits. PluginFailed if a plugin raises.

    `within` is a mask of the rows to choose from, by default all.
    """
    nodes = runtime.state.rows
    if runtime.order is not None:
        runtime.order.update_snapshot()
    if not nodes:
        return Diagnosis(0, pre_filter=NO_NODES)
    try:
        feasible = find_nodes_that_fit_pod(runtime, cycle, pod, within)
        if isinstance(feasible, Diagnosis):
            return feasible
        if feasible.count == 1 and feasible.rows is not None:
            return ScheduleResult(nodes[int(feasible.rows[0])], 1)
        prioritized = prioritize_nodes(runtime, cycle, pod, feasible)
        return ScheduleResult(nodes[select_host(runtime, cycle, prioritized)], feasible.count)
    except BaseException:
        runtime.reset(pod)  # its cache may be half updated
        raise


def find_nodes_that_fit_pod(
    runtime: ProfileRuntime, cycle: Cycle, pod: Pod, within: Mask | None = None
) -> FeasibleNodes | Diagnosis:
    """Run PreFilter, then Filter: on the nominated node, and on the others unless the pod fits there."""
    cache = cache_of(runtime, pod)
    pre = run_pre_filter(runtime, cycle, pod, cache)
    if pre.rejection is not None:
        return pre.diagnosis(len(runtime.state))
    nominated = evaluate_nominated_node(runtime, cycle, pod)
    if nominated is not None and nominated.rejection is None and (within is None or within[nominated.node.row]):
        return FeasibleNodes(1, np.array([nominated.node.row]), None)
    filtered = find_nodes_that_pass_filters(runtime, cycle, pod, pre, cache, nominated)
    if within is not None:
        inside = np.flatnonzero(filtered.fits & within)
        return FeasibleNodes(len(inside), inside, None) if len(inside) else filtered.diagnosis(runtime.state, pre)
    count, rows = filtered.feasible_count, None
    if runtime.order is not None:
        rows = runtime.order.find_feasible_rows(
            filtered.fits, filtered.evaluated_rows, nominated.node.row if nominated else None
        )
        count = len(rows)
    elif filtered.cache is None:
        rows = np.flatnonzero(filtered.fits)
    elif count == 1:
        rows = np.array([filtered.fits.argmax()])
    if not count:
        return filtered.diagnosis(runtime.state, pre)
    return FeasibleNodes(count, rows, filtered.cache if count == filtered.feasible_count else None)


def cache_of(runtime: ProfileRuntime, pod: Pod) -> EquivalenceCache | None:
    """Return the cached results for pods of this kind; None if the pod is evaluated without a cache."""
    # spec.nodeName is not part of the signature, so NodeName's result for this pod holds for no other pod.
    if not runtime.profile.caches_results or pod.node_name or pod.is_large:
        return None
    return runtime.caches.get(pod)


def run_pre_filter(runtime: ProfileRuntime, cycle: Cycle, pod: Pod, cache: EquivalenceCache | None) -> PreFilterResult:
    """Run the PreFilter plugins without a cached result. PluginFailed if one raises."""
    profile, point = runtime.profile, runtime.points.pre_filter
    point.began = point.clock()
    cached = PluginResultCache() if cache is None else cache.begin(pod.signature)
    evaluations = profile.evaluations.pre_filter
    pre = run_pre_filter_plugins(profile.pre_filter, cycle, pod, runtime.state.table, cached, evaluations)
    if cycle.is_resize:
        cycle.skipped |= profile.skipped_for_resizes
    point.leave(SUCCESS if pre.rejection is None else pre.rejection.code.camel)
    return pre


def evaluate_nominated_node(runtime: ProfileRuntime, cycle: Cycle, pod: Pod) -> NominatedNode | None:
    """Run Filter on the pod's nominated node, if it has one, before any other and even if PreFilter excluded it.

    An error status counts as no result, as in kube-scheduler: the search that follows meets it again if the node
    matters.
    """
    nominator = runtime.nominator
    if not nominator.node_of and not pod.nominated_node_name:
        return None
    name = nominator.nominated_node(pod)
    node = runtime.state.info(name) if name else None
    if node is None:
        return None
    try:
        return NominatedNode(node, run_filter_plugins_with_nominated_pods(runtime, cycle, pod, node))
    except PluginFailed as failed:
        if isinstance(failed.error, StatusError):
            failed.drop_traceback()
            return None
        raise


def find_nodes_that_pass_filters(
    runtime: ProfileRuntime,
    cycle: Cycle,
    pod: Pod,
    pre: PreFilterResult,
    cache: EquivalenceCache | None,
    nominated: NominatedNode | None,
) -> FilteredNodes:
    """Run Filter on the nodes that PreFilter named, or on every node. PluginFailed if a plugin raises."""
    point = runtime.points.filter
    point.began = point.clock()
    if pre.names is not None:
        filtered = _filter_named_nodes(runtime, cycle, pod, pre, pre.names, nominated)
    elif cache is None:
        filtered = filter_all_nodes_uncached(runtime, cycle, pod)
    else:
        filtered = _filter_all_nodes(runtime, cycle, pod, cache)
    point.leave(SUCCESS if filtered.feasible_count else Code.UNSCHEDULABLE.camel)
    return filtered


def _filter_all_nodes(runtime: ProfileRuntime, cycle: Cycle, pod: Pod, cache: EquivalenceCache) -> FilteredNodes:
    """Run Filter on every node that has changed since the results in the cache.

    Kube-scheduler filters with the nominated pods first, so that result is the node's status. As long as a node can be
    selected, only nodes that fit are filtered so.
    """
    nominator, state = runtime.nominator, runtime.state
    try:
        cache.refresh_filters(cycle, pod, cycle.skipped)
    except PluginFailed as failed:
        nominated = any(nominator.competing_pods(pod, node.name) for node in state.rows)
        places = runtime.profile.filter_places
        is_after = any(places[each.name] < places.get(failed.plugin, 0) for each in cache.class_filters)
        if not isinstance(failed.error, StatusError) or not (nominated or is_after):
            raise
        # The node may be one that its nominated pods reject before the plugin returns the error, or a plugin that comes
        # before it in the profile but is evaluated after it, by class.
        failed.drop_traceback()
        runtime.caches.drop(pod)
        return filter_all_nodes_uncached(runtime, cycle, pod)
    has_nominated_pods = bool(nominator.node_of)
    rejected = rejected_with_nominated_pods(runtime, cycle, pod, cache) if has_nominated_pods else {}
    feasible = cache.exclude_rows(rejected.keys())
    if has_nominated_pods and not feasible:
        rejected = rejected_with_nominated_pods(runtime, cycle, pod, cache, include_infeasible=True)
    return FilteredNodes(len(state.rows), feasible, None, rejected, cache=cache)


def _filter_named_nodes(
    runtime: ProfileRuntime,
    cycle: Cycle,
    pod: Pod,
    pre: PreFilterResult,
    names: frozenset[str],
    nominated: NominatedNode | None,
) -> FilteredNodes:
    """Run Filter on the nodes that PreFilter named. An earlier rejection by the nominated node stands."""
    state = runtime.state
    # Row order, not set order: the same events must give the same choice.
    nodes = sorted((node for name in names if (node := state.info(name)) is not None), key=lambda node: node.row)
    fits = np.zeros(len(state), np.bool_)
    nominated_status = nominated.rejection if nominated else None
    rejections: dict[int, Status] = {nominated.node.row: nominated_status} if nominated and nominated_status else {}
    rejections |= filter_nodes(runtime, cycle, pod, nodes)
    rows = np.fromiter((node.row for node in nodes), np.intp, len(nodes))
    fits[rows] = True
    fits[[*rejections]] = False
    absent_nodes_status = pre.absent_nodes_status(nominated_status)
    return FilteredNodes(len(state), int(np.count_nonzero(fits)), rows, rejections, absent_nodes_status, mask=fits)


def prioritize_nodes(
    runtime: ProfileRuntime, cycle: Cycle, pod: Pod, feasible: FeasibleNodes
) -> TopScores | ClassResults | ScoredRows:
    """Run PreScore, Score and NormalizeScore. PluginFailed if a plugin raises.

    Returns the best of all feasible rows where the cache has them, else every row with its total.
    """
    rows, cache, points = feasible.rows, feasible.cache, runtime.points
    if cache is None:
        assert rows is not None, "without a cache the feasible rows are listed"
        return ScoredRows(rows, prioritize_rows(runtime, cycle, pod, rows))
    points.pre_score.began = points.pre_score.clock()
    cache.pre_score(cycle, pod)
    points.pre_score.leave()
    points.score.began = points.score.clock()
    best = cache.refresh_scores(cycle, pod)
    points.score.leave()
    return best if rows is None else ScoredRows(rows, cache.totals[rows].astype(np.int64))


def prioritize_rows(runtime: ProfileRuntime, cycle: Cycle, pod: Pod, rows: Rows) -> Scores:
    """Return the weighted total score of each of the rows, normalized over these only."""
    profile, state, points = runtime.profile, runtime.state, runtime.points
    points.pre_score.began = points.pre_score.clock()
    skipped = pre_score_rows(profile, state, cycle, pod, rows)
    points.pre_score.leave()
    points.score.began = points.score.clock()
    scores = score_rows(profile, state, cycle, pod, rows, skipped)
    points.score.leave()
    return sum_scores(scores, len(rows))


def select_host(runtime: ProfileRuntime, cycle: Cycle, prioritized: TopScores | ClassResults | ScoredRows) -> int:
    """Return the row with the best total score; ties are broken pseudo-randomly, or in kube-scheduler's order."""
    if not isinstance(prioritized, ScoredRows):
        return prioritized.pick(cycle.random_bits)
    rows, totals = prioritized.rows, prioritized.totals
    return int(rows[random_best(totals, cycle) if runtime.order is None else top_of_heap(totals)])
