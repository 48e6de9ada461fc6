"""Results of every plugin for a pod and all nodes as plain data: the pure part of `pyscheduler evaluate`.

Nothing is sampled, chosen pseudo-randomly or cached. The results come from the code that attempts run; an attempt
differs only in stopping earlier.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import numpy as np

from pyscheduler.api.cycle import Cycle
from pyscheduler.api.diagnosis import Diagnosis
from pyscheduler.api.outcome import Code, Status
from pyscheduler.api.pod import Pod
from pyscheduler.api.preemption import PreemptionPlugin, PreemptionSearch
from pyscheduler.core.context import Context
from pyscheduler.core.evaluation.uncached_evaluation import pre_score_rows, score_rows, sum_scores
from pyscheduler.core.framework.plugin_calls import call_guarded
from pyscheduler.core.framework.plugin_failure import PluginFailed, describe
from pyscheduler.core.framework.profile import Profile
from pyscheduler.core.instrument import Instrument
from pyscheduler.core.preemption.plugin_dry_run import PreemptionDryRun
from pyscheduler.core.scheduling.extension_points import PostFilterResult, PreFilterResult, run_post_filter_plugins
from pyscheduler.core.scheduling.profile_runtime import ProfileRuntime
from pyscheduler.core.scheduling.schedule_pod import (
    NO_NODES,
    evaluate_nominated_node,
    find_nodes_that_pass_filters,
    run_pre_filter,
)
from pyscheduler.kernels import Rows

Json = dict[str, Any]
_FITS = Status(Code.SUCCESS)


class FilterRun(NamedTuple):
    """Results of PreFilter and Filter for one pod."""

    profile: Profile
    cycle: Cycle
    pod: Pod
    pre: PreFilterResult
    statuses: Sequence[Status | None]
    """Status of each row, None where the pod fits."""


def report(context: Context, pod: Pod, on_filtered: Callable[[FilterRun], None] = lambda _: None) -> Json:
    """Return the report on one pod, evaluated in isolation: the keys of docs/evaluate.md except `id` and `pod`.

    `on_filtered` is called after Filter, before a later extension point runs in the cycle.
    """
    profile = context.profiles.get(pod.scheduler_name)
    if profile is None:
        return {"error": f'profile not found for scheduler name "{pod.scheduler_name}"'}
    gated = _pre_enqueue(profile, pod)
    if gated is not None:
        return {"preenqueue": gated}
    result: Json = {}
    try:
        _PodReport(context, profile, pod, result).run(on_filtered)
    except PluginFailed as failed:
        if failed.point == "PreFilter":
            result["prefilter"] = {**_verdict(Status(Code.ERROR, failed.plugin, (str(failed),))), "nodeNames": None}
        result["error"] = str(failed)
        failed.drop_traceback()
    return result


def _pre_enqueue(profile: Profile, pod: Pod) -> Json | None:
    """Return the rejection of the first plugin that keeps the pod out of the active queue; None if all admit it."""
    for plugin in profile.pre_enqueue:
        try:
            rejection = call_guarded(plugin.name, "PreEnqueue", plugin.pre_enqueue, pod)
        except PluginFailed as failed:
            failed.drop_traceback()
            return _verdict(Status(Code.ERROR, plugin.name, (describe(failed.error),)))
        if rejection is not None:
            return _verdict(Status.of(plugin.name, rejection))
    return None


class _PodReport:
    """Run one pod through the extension points and write the results to `result`."""

    def __init__(self, context: Context, profile: Profile, pod: Pod, result: Json) -> None:
        self._context = context
        self._profile = profile
        self._pod = pod
        self._result = result
        self._cycle = Cycle(0.0, profile.name, pod.uid, 1, context.settings.seed)

    def run(self, on_filtered: Callable[[FilterRun], None]) -> None:
        """Run all extension points. PluginFailed if a plugin raises; the results up to there are in `result`."""
        state = self._context.state
        if not len(state):
            self._result.update(filter_message=NO_NODES.message, fit_error_message=NO_NODES.message)
            return
        cycle, pod = self._cycle, self._pod
        runtime = ProfileRuntime.of(self._profile, state, self._context.queue.nominator, Instrument())
        pre = run_pre_filter(runtime, cycle, pod, None)
        self._result["prefilter"] = _pre_filter(pre)
        if pre.rejection is not None:
            self._result["nodes"] = {node.name: _node(pre.rejection) for node in state.rows}
            on_filtered(FilterRun(self._profile, cycle, pod, pre, [pre.rejection] * len(state)))
            self._explain(pre.diagnosis(len(state)))
            return
        nominated = evaluate_nominated_node(runtime, cycle, pod)
        filtered = find_nodes_that_pass_filters(runtime, cycle, pod, pre, None, nominated)
        statuses = [filtered.status(row) for row in range(len(state))]
        self._result["nodes"] = {node.name: _node(status) for node, status in zip(state.rows, statuses, strict=True)}
        on_filtered(FilterRun(self._profile, cycle, pod, pre, statuses))
        if filtered.feasible_count:
            self._rank(np.flatnonzero(filtered.fits))
        if nominated is not None and nominated.rejection is None:
            self._result["choice"] = [nominated.node.name]
        elif not filtered.feasible_count:
            self._explain(filtered.diagnosis(state, pre))

    def _rank(self, rows: Rows) -> None:
        """Score the feasible nodes, even a single one, which an attempt would select without scoring."""
        state = self._context.state
        names = [state.rows[row].name for row in rows]
        skipped = pre_score_rows(self._profile, state, self._cycle, self._pod, rows)
        scores = score_rows(self._profile, state, self._cycle, self._pod, rows, skipped)
        # Without Score plugins every node has a score of 1, as in kube-scheduler.
        total = sum_scores(scores, len(rows)) if self._profile.score else np.ones(len(rows), np.int64)
        best = total == total.max()
        self._result["scores"] = {
            name: dict(zip(names, of_nodes.tolist(), strict=True)) for name, of_nodes in scores.items()
        }
        self._result["weights"] = {weighted.plugin.name: weighted.weight for weighted in self._profile.score}
        self._result["total"] = dict(zip(names, total.tolist(), strict=True))
        self._result["choice"] = sorted(name for name, is_best in zip(names, best, strict=True) if is_best)

    def _explain(self, diagnosis: Diagnosis) -> None:
        """Add the messages of an unschedulable pod and the result of PostFilter."""
        self._result["filter_message"] = self._result["fit_error_message"] = diagnosis.filter_message
        if self._profile.post_filter:
            result, search = _post_filter(self._profile, self._cycle, self._pod, diagnosis)
            diagnosis.post_filter_message = result.message
            self._result["fit_error_message"] = diagnosis.message
            self._result["preemption"] = _preemption(result, search)


def _post_filter(
    profile: Profile, cycle: Cycle, pod: Pod, diagnosis: Diagnosis
) -> tuple[PostFilterResult, PreemptionSearch]:
    """Return the result of PostFilter and the preemption search, which is made even if PostFilter ends before it."""
    plugins = tuple(PreemptionDryRun(p) if isinstance(p, PreemptionPlugin) else p for p in profile.post_filter)
    result = run_post_filter_plugins(plugins, cycle, pod, diagnosis, Instrument())
    dry_run = next((p for p in plugins if isinstance(p, PreemptionDryRun)), None)
    if dry_run is None:
        return result, PreemptionSearch(result.code)
    return result, dry_run.search(cycle, pod, diagnosis)


def _preemption(result: PostFilterResult, search: PreemptionSearch) -> Json:
    return {
        "status": result.code.camel,
        "message": result.message,
        "nominatedNode": result.nominate or "",
        "victims": [victim.key for victim in result.evict],
        "ties": sorted(search.ties),
        "candidates": {
            name: {"victims": [victim.key for victim in candidate.victims], "pdbViolations": candidate.pdb_violations}
            for name, candidate in search.candidates.items()
        },
    }


def _pre_filter(pre: PreFilterResult) -> Json:
    names = None if pre.names is None or pre.rejection is not None else sorted(pre.names)
    return {**_verdict(pre.rejection or _FITS), "nodeNames": names}


def _node(status: Status | None) -> Json:
    shown = status or _FITS
    return {
        "feasible": status is None,
        "plugin": shown.plugin,
        "code": shown.code.camel,
        "reasons": sorted(shown.reasons),
    }


def _verdict(status: Status) -> Json:
    return {"status": status.code.camel, "plugin": status.plugin, "reasons": sorted(status.reasons)}
