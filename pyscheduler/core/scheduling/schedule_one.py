"""One scheduling cycle, top down, from a popped pod to the start of its binding cycle: schedule_one.go.

    schedule_one
        schedule_pod                             select a node
            find_nodes_that_fit_pod
                run_pre_filter                   run_pre_filter_plugins, in extension_points.py
                evaluate_nominated_node
                find_nodes_that_pass_filters     Filter; its results are in filtered_nodes.py
            prioritize_nodes                     PreScore, Score, NormalizeScore; results in core/result_cache, or
                                                 uncached_evaluation.py there
            select_host
        repeat_fit_error                         instead, if another pod of the signature has just failed
        _run_post_filter                         if no node fits: run_post_filter_plugins_in_steps
            handle_fit_error                     evict victims, requeue the pod
        prepare_for_binding_cycle                if a node was selected
            assume
            run_reserve_plugins                  extension_points.py
            run_permit_plugins                   extension_points.py
            wait_on_permit or start_binding      permit.py, binding.py

It is one synchronous call, so the state cannot change during it; only a long PostFilter pauses. Extenders are called by
the variant in `core/extenders/schedule_one.py`.
"""

from __future__ import annotations

import numpy as np
from msgspec import Struct

from pyscheduler.api.cycle import AttemptLimitExceeded, Cycle
from pyscheduler.api.diagnosis import Diagnosis
from pyscheduler.api.normalize import Scores
from pyscheduler.api.outcome import Code, Nominate, Status, StatusError, Wait
from pyscheduler.api.pod import Pod
from pyscheduler.api.preemption import PreemptionPlugin
from pyscheduler.api.queued import QueuedPod
from pyscheduler.core.commands import Command, EventType, Record
from pyscheduler.core.context import AssumedPod, Context, SuspendedAttempt
from pyscheduler.core.framework.plugin_calls import call_guarded, call_plugin
from pyscheduler.core.framework.plugin_failure import PluginFailed
from pyscheduler.core.framework.profile import Profile
from pyscheduler.core.framework.result_checks import check_result
from pyscheduler.core.instrument import SUCCESS
from pyscheduler.core.preemption.executor import prepare_candidate
from pyscheduler.core.result_cache.class_results import ClassResults
from pyscheduler.core.result_cache.equivalence_cache import EquivalenceCache
from pyscheduler.core.result_cache.plugin_result_cache import PluginResultCache
from pyscheduler.core.result_cache.top_scores import TopScores
from pyscheduler.core.result_cache.uncached_evaluation import pre_score_rows, score_rows, sum_scores
from pyscheduler.core.scheduling.binding import forget_and_requeue, forget_pod, start_binding
from pyscheduler.core.scheduling.extension_points import (
    PERMIT,
    PostFilterResult,
    PostFilterSteps,
    PreFilterResult,
    run_permit_plugins,
    run_post_filter_plugins_in_steps,
    run_pre_filter_plugins,
    run_reserve_plugins,
)
from pyscheduler.core.scheduling.failure import Failure
from pyscheduler.core.scheduling.failure_handler import handle_scheduling_failure
from pyscheduler.core.scheduling.filtered_nodes import (
    FilteredNodes,
    NominatedNode,
    filter_all_nodes_uncached,
    filter_nodes,
    rejected_with_nominated_pods,
    run_filter_plugins_with_nominated_pods,
)
from pyscheduler.core.scheduling.fit_errors import FitError, Key, Reasons
from pyscheduler.core.scheduling.node_order import random_best, top_of_heap
from pyscheduler.core.scheduling.permit import wait_on_permit
from pyscheduler.core.scheduling.profile_runtime import ProfileRuntime
from pyscheduler.core.scheduling.suspended_attempts import run_until_pause
from pyscheduler.core.state.node import NodeRow
from pyscheduler.kernels import Rows

NO_NODES = Status(Code.UNSCHEDULABLE_AND_UNRESOLVABLE, "", ("no nodes available to schedule pods",))


def schedule_one(context: Context, queued: QueuedPod, now: float) -> list[Command]:
    """Attempt to schedule one popped pod and return the commands. A plugin that raises fails only the attempt."""
    pod = queued.pod
    skipped = skip_pod_schedule(context, pod)
    if skipped is not None:
        return skipped
    runtime = context.runtimes[pod.scheduler_name]
    fit_error = runtime.fit_errors.get(pod) if runtime.fit_errors.entries else None
    if fit_error is not None:
        return repeat_fit_error(context, queued, fit_error, now)
    cycle = start_cycle(context, queued, now)
    try:
        result = schedule_pod(runtime, cycle, pod)
    except PluginFailed as failed:
        return handle_plugin_failure(context, queued, failed, now)
    if isinstance(result, Diagnosis):
        steps = _run_post_filter(context, runtime, cycle, queued, result)
        return run_until_pause(context, SuspendedAttempt(queued, pod, steps))
    return prepare_for_binding_cycle(context, runtime, cycle, queued, result.node)


def skip_pod_schedule(context: Context, pod: Pod) -> list[Command] | None:
    """End the attempt of a pod that needs none and return the commands; None if it needs one."""
    if pod.deleting:
        context.queue.done(pod.uid)
        note = f"skip schedule deleting pod: {pod.key}"
        return [Record(EventType.WARNING, "FailedScheduling", "Scheduling", note, pod)]
    if pod.uid in context.assumed or context.state.node_of(pod.uid) is not None:
        context.queue.done(pod.uid)
        return []
    return None


def start_cycle(context: Context, queued: QueuedPod, now: float) -> Cycle:
    """Count an attempt and return its cycle."""
    pod = queued.pod
    context.attempts += 1
    observer = context.instrument.call_observer(context.attempts)
    timer = context.instrument.timer if pod.is_large else None
    return Cycle(now, pod.scheduler_name, pod.uid, queued.attempts, context.settings.seed, observer, timer)


# -- Select a node ---------------------------------------------------------------------------------------------------


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


def schedule_pod(runtime: ProfileRuntime, cycle: Cycle, pod: Pod) -> ScheduleResult | Diagnosis:
    """Return a node for the pod, or a diagnosis if no node fits. PluginFailed if a plugin raises."""
    nodes = runtime.state.rows
    if runtime.order is not None:
        runtime.order.update_snapshot()
    if not nodes:
        return Diagnosis(0, pre_filter=NO_NODES)
    try:
        feasible = find_nodes_that_fit_pod(runtime, cycle, pod)
        if isinstance(feasible, Diagnosis):
            return feasible
        if feasible.count == 1 and feasible.rows is not None:
            return ScheduleResult(nodes[int(feasible.rows[0])], 1)
        prioritized = prioritize_nodes(runtime, cycle, pod, feasible)
        return ScheduleResult(nodes[select_host(runtime, cycle, prioritized)], feasible.count)
    except BaseException:
        runtime.reset(pod)  # its cache may be half updated
        raise


def find_nodes_that_fit_pod(runtime: ProfileRuntime, cycle: Cycle, pod: Pod) -> FeasibleNodes | Diagnosis:
    """Run PreFilter, then Filter: on the nominated node, and on the others unless the pod fits there."""
    cache = cache_of(runtime, pod)
    pre = run_pre_filter(runtime, cycle, pod, cache)
    if pre.rejection is not None:
        return pre.diagnosis(len(runtime.state))
    nominated = evaluate_nominated_node(runtime, cycle, pod)
    if nominated is not None and nominated.rejection is None:
        return FeasibleNodes(1, np.array([nominated.node.row]), None)
    filtered = find_nodes_that_pass_filters(runtime, cycle, pod, pre, cache, nominated)
    count, rows = filtered.feasible_count, None
    if runtime.order is not None:
        rows = runtime.order.find_feasible_rows(
            filtered.fits, filtered.evaluated_rows, nominated.node.row if nominated else None
        )
        count = len(rows)
    elif count == 1 or filtered.cache is None:
        rows = np.flatnonzero(filtered.fits)
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
        if not isinstance(failed.error, StatusError) or not (
            nominated or _is_after_class_filter(failed, runtime, cycle)
        ):
            raise
        # The node may be one that its nominated pods or an earlier plugin reject before the plugin returns the error.
        runtime.caches.drop(pod)
        return filter_all_nodes_uncached(runtime, cycle, pod)
    has_nominated_pods = bool(nominator.node_of)
    rejected = rejected_with_nominated_pods(runtime, cycle, pod, cache) if has_nominated_pods else {}
    feasible = cache.exclude_rows(rejected.keys())
    if has_nominated_pods and not feasible:
        rejected = rejected_with_nominated_pods(runtime, cycle, pod, cache, include_infeasible=True)
    return FilteredNodes(len(state.rows), feasible, None, rejected, cache=cache)


def _is_after_class_filter(failed: PluginFailed, runtime: ProfileRuntime, cycle: Cycle) -> bool:
    """Return True if a plugin that is evaluated by class, so after the failed one, comes before it in the profile."""
    places = runtime.profile.filter_places
    before = (each for each in runtime.profile.class_filters if each.name not in cycle.skipped)
    return any(places[each.name] < places.get(failed.plugin, 0) for each in before)


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
    cache.refresh_scores(cycle, pod)
    points.score.leave()
    return cache.best if rows is None else ScoredRows(rows, cache.totals[rows])


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


# -- No node fits ----------------------------------------------------------------------------------------------------


def repeat_fit_error(context: Context, queued: QueuedPod, fit_error: FitError, now: float) -> list[Command]:
    """Let the attempt fail as that of another pod of the signature; it counts as an attempt of its own."""
    context.attempts += 1
    for point, status in fit_error.points:
        point.began = point.clock()
        point.leave(status)
    for _ in range(fit_error.preemptions):
        context.instrument.preemption_attempted()
    return handle_scheduling_failure(context, queued, fit_error.failure, now)


def _run_post_filter(
    context: Context, runtime: ProfileRuntime, cycle: Cycle, queued: QueuedPod, diagnosis: Diagnosis
) -> PostFilterSteps[list[Command]]:
    """Run PostFilter for a pod that fits no node, and requeue it; yields at each pause."""
    result, pod, profile = PostFilterResult(), queued.pod, runtime.profile
    key = runtime.fit_errors.key_of(pod) if diagnosis.total_nodes else None
    try:
        if diagnosis.total_nodes:
            plugins = profile.post_filter
            result = yield from run_post_filter_plugins_in_steps(plugins, cycle, pod, diagnosis, context.instrument)
        if key is not None and result.code is Code.UNSCHEDULABLE:
            fit_error = _fit_error(runtime, key, diagnosis, result)
            runtime.fit_errors.store(key, fit_error)
            return handle_scheduling_failure(context, queued, fit_error.failure, cycle.now)
        return handle_fit_error(context, profile, cycle, queued, diagnosis, result)
    except PluginFailed as failed:
        return handle_plugin_failure(context, queued, failed, cycle.now)


def _fit_error(runtime: ProfileRuntime, key: Key, diagnosis: Diagnosis, result: PostFilterResult) -> FitError:
    reasons = Reasons.of(diagnosis, result)
    last = runtime.fit_errors.last(key, reasons)
    if last is not None:
        return last
    diagnosis.post_filter_message = result.message
    plugins, points, rejected = runtime.profile.post_filter, runtime.points, Code.UNSCHEDULABLE.camel
    ran = ((points.pre_filter, SUCCESS), (points.filter, rejected), (points.post_filter, rejected))
    preemptions = sum(isinstance(plugin, PreemptionPlugin) for plugin in plugins)
    failure = Failure.fit_error(diagnosis, result.nominate)
    return FitError(failure, ran if plugins else ran[:2], preemptions, reasons)


def handle_fit_error(
    context: Context, profile: Profile, cycle: Cycle, queued: QueuedPod, diagnosis: Diagnosis, result: PostFilterResult
) -> list[Command]:
    """Requeue the pod, and evict the victims that PostFilter chose unless a Permit plugin rejects that."""
    now = cycle.now
    if not diagnosis.total_nodes:
        # Reported as unschedulable, but backs off like an error: no plugin rejected it, so no hint could requeue it.
        return handle_scheduling_failure(context, queued, Failure(NO_NODES.message, nominate=""), now)
    diagnosis.post_filter_message = result.message
    previous = context.queue.nominator.nominated_node(queued.pod)
    if _reject_eviction(profile, cycle, queued.pod, diagnosis, result, previous):
        failure = Failure.fit_error(diagnosis, result.nominate, in_memory=result.nominate != "")
        return handle_scheduling_failure(context, queued, failure, now)
    # Before the pod is requeued: it must not become active while its victims are still to be evicted.
    evictions = prepare_candidate(context, queued.pod, result.nominate or "", result.evict, result.plugin, now)
    return handle_scheduling_failure(context, queued, Failure.fit_error(diagnosis, result.nominate), now) + evictions


def _reject_eviction(
    profile: Profile, cycle: Cycle, pod: Pod, diagnosis: Diagnosis, result: PostFilterResult, previous: str
) -> bool:
    """Return True if a Permit plugin rejects evictions now; its reason goes into the diagnosis.

    `previous` is the pod's nominated node before the attempt, which PostFilter may leave unchanged.
    """
    node = previous if result.nominate is None else result.nominate
    nominated = Nominate(node, result.evict) if node else None
    rejected = False
    for plugin in profile.eviction_permits:
        rejection = call_plugin(plugin, PERMIT, plugin.handle_unschedulable, cycle, pod, diagnosis, nominated)
        call_guarded(
            plugin.name, PERMIT, check_result, "HandleUnschedulable", plugin.handle_unschedulable, rejection
        )  # unlike Permit, this must not return Wait
        if rejection is not None:
            rejected = True
            diagnosis.unschedulable_plugins |= {plugin.name}
            diagnosis.post_filter_message = ", ".join(filter(None, (diagnosis.post_filter_message, rejection.message)))
    return rejected


def handle_plugin_failure(context: Context, queued: QueuedPod, failed: PluginFailed, now: float) -> list[Command]:
    """Report a plugin that raised, and requeue the pod."""
    report(context, failed)
    return handle_scheduling_failure(context, queued, Failure.of_plugin(failed), now)


def report(context: Context, failed: PluginFailed) -> None:
    """Report a plugin that raised, unless the pod exceeded the limits of an attempt."""
    if not isinstance(failed.error, AttemptLimitExceeded):
        context.instrument.plugin_failed(failed.plugin, failed.point, failed.error)


# -- A node is selected ----------------------------------------------------------------------------------------------


def prepare_for_binding_cycle(
    context: Context, runtime: ProfileRuntime, cycle: Cycle, queued: QueuedPod, node: NodeRow
) -> list[Command]:
    """Assume the pod on its node, then run Reserve and Permit; a rejection or an error forgets the pod again."""
    pod, now, profile, points = queued.pod, cycle.now, runtime.profile, runtime.points
    was_nominated = context.queue.nominator.node_of.get(pod.uid) == node.name
    assumed = AssumedPod(queued, pod, node.name, cycle, profile, points)
    assume(context, assumed)
    failure: Failure | None = None
    waits: dict[str, Wait] = {}
    try:
        rejection = run_reserve_plugins(profile.reserve, cycle, pod, node, points.reserve)
        if rejection is None and profile.permit:
            rejection, waits = run_permit_plugins(profile.permit, cycle, pod, node, points.permit)
        if rejection is not None:
            failure = Failure.rejected(rejection.plugin, rejection.message, rejection.code is Code.PENDING)
    except PluginFailed as failed:
        points.fail()
        report(context, failed)
        failure = Failure.of_plugin(failed)
    if failure is None:
        return wait_on_permit(context, assumed, waits, now) if waits else start_binding(context, assumed, now)
    if was_nominated:
        return forget_and_requeue(context, assumed, failure, now)
    # No other pods are woken: before the attempt the node was as free as it is again.
    forget_pod(context, assumed)
    return handle_scheduling_failure(context, queued, failure, now)


def assume(context: Context, assumed: AssumedPod) -> None:
    """Count the pod on its node in memory, which also ends its nomination."""
    pod, node_name, nominator = assumed.pod, assumed.node_name, context.queue.nominator
    context.state.place(pod, node_name)
    if nominator.node_of or nominator.ended:
        nominator.remove(pod.uid, placed_on=node_name)
    context.assumed[pod.uid] = assumed
