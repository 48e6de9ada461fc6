"""The scheduling cycle of pods that extenders are interested in: kube-scheduler's schedulePod with its extender calls.

The attempt is a generator: it yields extender calls and is resumed with their results. After Filter the extenders run
one after the other, each on the nodes that the previous one returned; after Score they run concurrently. The cluster
may change during a call, so the plugins run again after each response. Results refer to node names: a node that was
deleted or no longer fits when a response arrives is dropped.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

import msgspec
import numpy as np
from msgspec.structs import replace

from pyscheduler.api.cycle import Cycle
from pyscheduler.api.diagnosis import Diagnosis
from pyscheduler.api.outcome import Code, Status
from pyscheduler.api.queued import QueuedPod
from pyscheduler.api.steps import exhaust
from pyscheduler.core.commands import Command
from pyscheduler.core.context import Context, SuspendedAttempt
from pyscheduler.core.extenders.extender import (
    EXTENDER,
    Extender,
    ExtenderFailed,
    ExtenderFilterResult,
    ExtenderPrioritizeResult,
    FilterCall,
    PrioritizeCall,
    failure_of,
)
from pyscheduler.core.extenders.preemption import run_post_filter_with_extenders
from pyscheduler.core.extenders.session import ExtenderSession, ExtenderSteps
from pyscheduler.core.framework.plugin_failure import PluginFailed
from pyscheduler.core.scheduling.extension_points import PostFilterResult, PreFilterResult
from pyscheduler.core.scheduling.failure import Failure
from pyscheduler.core.scheduling.failure_handler import handle_scheduling_failure
from pyscheduler.core.scheduling.filtered_nodes import FilteredNodes, NominatedNode
from pyscheduler.core.scheduling.profile_runtime import ProfileRuntime
from pyscheduler.core.scheduling.schedule_one import (
    handle_fit_error,
    handle_plugin_failure,
    prepare_for_binding_cycle,
    schedule_one,
    skip_pod_schedule,
)
from pyscheduler.core.scheduling.schedule_pod import (
    NO_NODES,
    ScheduleResult,
    ScoredRows,
    cache_of,
    evaluate_nominated_node,
    find_nodes_that_pass_filters,
    prioritize_rows,
    run_pre_filter,
    select_host,
    start_cycle,
)
from pyscheduler.core.scheduling.suspended_attempts import run_until_pause
from pyscheduler.core.state.node import NodeRow

SCALE = 10
"""Extenders score from 0 to 10, plugins from 0 to 100."""
_MAX_ADDED = 1 << 60
"""Bound on the score that extenders add to a node, so that totals stay within int64."""


def schedule_one_with_extenders(context: Context, queued: QueuedPod, now: float) -> list[Command]:
    """Attempt to schedule one popped pod, calling the extenders that are interested in it."""
    pod = queued.pod
    interested = [extender for extender in context.settings.extenders if extender.is_interested(pod)]
    if not interested:
        return schedule_one(context, queued, now)
    skipped = skip_pod_schedule(context, pod)
    if skipped is not None:
        return skipped
    return run_until_pause(context, SuspendedAttempt(queued, pod, _attempt(context, queued, interested, now)))


def _attempt(
    context: Context, queued: QueuedPod, extenders: Sequence[Extender], now: float
) -> ExtenderSteps[list[Command]]:
    """Run the attempt; yields its extender calls."""
    pod, runtime = queued.pod, context.runtimes[queued.pod.scheduler_name]
    session = ExtenderSession(pod, extenders, start_cycle(context, queued, now))
    try:
        result = yield from _ExtenderAttempt(runtime, session).schedule_pod()
        if isinstance(result, Diagnosis):
            outcome = PostFilterResult()
            if result.total_nodes:
                outcome = yield from run_post_filter_with_extenders(
                    session, runtime.profile, result, context.state, context.instrument
                )
            return exhaust(handle_fit_error(context, runtime.profile, session.cycle, queued, result, outcome))
    except PluginFailed as failed:
        return handle_plugin_failure(context, queued, failed, session.cycle.now)
    except ExtenderFailed as failed:
        return handle_scheduling_failure(context, queued, Failure.error(str(failed)), session.cycle.now)
    return prepare_for_binding_cycle(context, runtime, session.cycle, queued, result.node)


class _FilterRound(msgspec.Struct):
    """Plugin results of one step; `filtered` is None if PreFilter rejected the pod."""

    cycle: Cycle
    pre: PreFilterResult
    filtered: FilteredNodes | None = None
    nominated: NominatedNode | None = None

    @property
    def fits_nominated_node(self) -> bool:
        """True if the pod has a nominated node and fits there."""
        return self.nominated is not None and self.nominated.rejection is None


class _ExtenderAttempt:
    """One attempt of a profile's pod."""

    def __init__(self, runtime: ProfileRuntime, session: ExtenderSession) -> None:
        self._runtime = runtime
        self._state = runtime.state
        self._session = session
        self._rejections: dict[str, Status] = {}
        """Rejections by extenders by node name; they stand if PreFilter excludes the node from the search."""

    def schedule_pod(self) -> ExtenderSteps[ScheduleResult | Diagnosis]:
        """Return a node for the pod, or a diagnosis if no node fits.

        PluginFailed if a plugin raises, ExtenderFailed if an extender that is not ignorable fails.
        """
        if self._runtime.order is not None:
            self._runtime.order.update_snapshot()
        try:
            node = yield from self._evaluate_nominated_node()
            return ScheduleResult(node, 1) if node is not None else (yield from self._schedule_on_any_node())
        except PluginFailed:
            self._runtime.reset(self._session.pod)
            raise

    def _evaluate_nominated_node(self) -> ExtenderSteps[NodeRow | None]:
        """Return the pod's nominated node if it fits and no extender rejects it."""
        name = self._runtime.nominator.nominated_node(self._session.pod)
        if not name or not self._filter().fits_nominated_node:
            return None
        try:
            returned = yield from self._call_filters([name])
        except ExtenderFailed:
            return None  # the search that follows calls the extender again and reports its error
        nominated = self._filter().nominated
        if nominated is None or nominated.rejection is not None or not returned:
            return None
        return nominated.node

    def _schedule_on_any_node(self) -> ExtenderSteps[ScheduleResult | Diagnosis]:
        """Return the best node among those that pass all plugins and extenders."""
        session, scores = self._session, dict[str, int]()
        step = self._filter()
        returned = yield from self._call_filters(self._feasible_names(step))
        step = step if step.cycle is session.cycle else self._filter()
        nodes = self._feasible_nodes(step, returned)
        if len(nodes) > 1:
            scores = yield from self._call_prioritizers([node.name for node in nodes])
            if step.cycle is not session.cycle:
                step = self._filter()
                nodes = self._feasible_nodes(step, returned)
        if not nodes:
            return self._diagnose(step)
        return ScheduleResult(nodes[0] if len(nodes) == 1 else self._select_host(nodes, scores), len(nodes))

    def _filter(self) -> _FilterRound:
        """Run PreFilter and Filter on the current cluster state; cached results make this cheap."""
        runtime, pod, cycle = self._runtime, self._session.pod, self._session.cycle
        if not self._state.rows:
            return _FilterRound(cycle, PreFilterResult(rejection=NO_NODES))
        cache = cache_of(runtime, pod)
        pre = run_pre_filter(runtime, cycle, pod, cache)
        if pre.rejection is not None:
            return _FilterRound(cycle, pre)
        nominated = evaluate_nominated_node(runtime, cycle, pod)
        filtered = find_nodes_that_pass_filters(runtime, cycle, pod, pre, cache, nominated)
        return _FilterRound(cycle, pre, filtered, nominated)

    def _feasible_names(self, step: _FilterRound) -> list[str]:
        """Return the names of the feasible nodes, or of kube-scheduler's sample of them."""
        order, filtered = self._runtime.order, step.filtered
        if filtered is None:
            return []
        if order is None:
            rows = np.flatnonzero(filtered.fits)
        else:
            rejecting = step.nominated.node.row if step.nominated and not step.fits_nominated_node else None
            rows = order.find_feasible_rows(filtered.fits, filtered.evaluated_rows, rejecting)
        return [self._state.rows[row].name for row in rows]

    def _feasible_nodes(self, step: _FilterRound, names: Sequence[str]) -> list[NodeRow]:
        """Return those of the nodes that exist and fit."""
        filtered = step.filtered
        if filtered is None:
            return []
        nodes = [node for name in names if (node := self._state.info(name)) is not None]
        fits = filtered.fits[np.array([node.row for node in nodes], np.intp)].tolist()
        return [node for node, is_feasible in zip(nodes, fits, strict=True) if is_feasible]

    def _call_filters(self, names: Sequence[str]) -> ExtenderSteps[Sequence[str]]:
        """Return the nodes that the filtering extenders keep, and store the rejections of the others."""
        for extender in self._session.extenders:
            if not extender.filters or not names:
                continue
            (result,) = yield from self._session.call(FilterCall(extender, tuple(names)))
            if isinstance(result, ExtenderFilterResult):
                self._rejections.update(_rejections(names, result))
                names = tuple(dict.fromkeys(result.nodes))
            elif not extender.ignorable:
                raise failure_of(result)
        return names

    def _call_prioritizers(self, names: Sequence[str]) -> ExtenderSteps[dict[str, int]]:
        """Return what extenders add to each node's total. Failed calls add nothing, whether ignorable or not."""
        extenders = self._session.extenders
        calls = [PrioritizeCall(extender, tuple(names)) for extender in extenders if extender.prioritizes]
        # An extender without prioritize gives each node 0, so ties are broken pseudo-randomly for all of them.
        scores = dict.fromkeys(names, 0) if len(calls) < len(extenders) else {}
        results = (yield from self._session.call(*calls)) if calls else ()
        for call, result in zip(calls, results, strict=True):
            for name, score in result.scores if isinstance(result, ExtenderPrioritizeResult) else ():
                scores[name] = scores.get(name, 0) + score * call.extender.weight * SCALE
        return {name: max(-_MAX_ADDED, min(score, _MAX_ADDED)) for name, score in scores.items()}

    def _select_host(self, nodes: Sequence[NodeRow], scores: Mapping[str, int]) -> NodeRow:
        """Return the node with the best total.

        Ties are broken pseudo-randomly among the nodes that extenders scored, or by the search order if there are none.
        """
        cycle = self._session.cycle
        rows = np.array([node.row for node in nodes], np.intp)
        totals = prioritize_rows(self._runtime, cycle, self._session.pod, rows)
        totals += np.fromiter((scores.get(node.name, 0) for node in nodes), np.int64, len(nodes))
        best = np.flatnonzero(totals == totals.max()).tolist()
        candidates = [place for place in best if nodes[place].name in scores]
        if candidates:
            return nodes[candidates[cycle.random_bits() % len(candidates)]]
        return self._state.rows[select_host(self._runtime, cycle, ScoredRows(rows, totals))]

    def _diagnose(self, step: _FilterRound) -> Diagnosis:
        """Return the diagnosis; an extender's rejection counts where no plugin rejects the node."""
        state, filtered = self._state, step.filtered
        if filtered is None:
            return step.pre.diagnosis(len(state))
        by_row = {
            node.row: status for name, status in self._rejections.items() if (node := state.info(name)) is not None
        }
        no_status = (None, filtered.absent_nodes_status)
        rejected = {row: status for row, status in by_row.items() if filtered.status(row) in no_status}
        fits = filtered.fits.copy()
        fits[list(rejected)] = False
        rejections = {**filtered.rejections, **rejected}
        return replace(filtered, mask=fits, feasible_count=0, rejections=rejections).diagnosis(state, step.pre)


def _rejections(names: Sequence[str], result: ExtenderFilterResult) -> Iterator[tuple[str, Status]]:
    """Yield the status of each node that the extender did not return.

    Nodes that it did not mention are unresolvable: they are not considered for preemption, as in kube-scheduler.
    """
    returned = frozenset(result.nodes)
    for name in names:
        if name in returned:
            continue
        if name in result.unresolvable:
            yield name, Status(Code.UNSCHEDULABLE_AND_UNRESOLVABLE, EXTENDER, (result.unresolvable[name],))
        elif name in result.failed:
            yield name, Status(Code.UNSCHEDULABLE, EXTENDER, (result.failed[name],))
        else:
            yield name, Status(Code.UNSCHEDULABLE_AND_UNRESOLVABLE, EXTENDER)
