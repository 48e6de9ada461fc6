"""Comparison of cached results with fresh ones, for the tests of any plugin.

`reads`, `node_fields`, `sign_group` and cache keys of a plugin declare for how long its Filter and Score results are
cached. If they declare less than the plugin reads, pods are placed by stale results, without an error.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import NamedTuple

import numpy as np

from pyscheduler.api.cycle import Cycle
from pyscheduler.api.outcome import Status
from pyscheduler.api.pod import Pod
from pyscheduler.config.types import DEFAULT_SCHEDULER_NAME
from pyscheduler.core.result_cache.equivalence_cache import EquivalenceCache
from pyscheduler.core.scheduling.profile_runtime import ProfileRuntime
from pyscheduler.core.scheduling.schedule_pod import (
    FeasibleNodes,
    ScoredRows,
    cache_of,
    find_nodes_that_pass_filters,
    prioritize_nodes,
    run_pre_filter,
)
from pyscheduler.testing.builders import PodBuilder
from pyscheduler.testing.harness import Harness


def assert_cache_agrees(harness: Harness, *pods: PodBuilder) -> None:
    """Raise AssertionError unless each pod gets the results from the harness's cache that it gets without the cache.

    Compared are PreFilter's rejection, the Filter status of every node, and the total scores of the feasible nodes.
    Results are in the cache after an attempt of a similar pod or an earlier call: call this before and after a change
    that the plugin reads. The pods need not exist. With `resultCache: Off` nothing is compared.
    """
    context = harness.machine.context
    for builder in pods:
        pod = builder.build(context.shapes)
        runtime = _runtime_of(pod, context.runtimes)
        cached, fresh = (_evaluate(runtime, pod, harness.now, cache) for cache in (cache_of(runtime, pod), None))
        if cached.rejection != fresh.rejection:
            _raise(pod, "PreFilter's result", _shown(cached.rejection), _shown(fresh.rejection))
        for name, status in fresh.statuses.items():
            if cached.statuses[name] != status:
                _raise(pod, f"the Filter status of {name}", _shown(cached.statuses[name]), _shown(status))
        for name, total in fresh.totals.items():
            if cached.totals[name] != total:
                _raise(pod, f"the total score of {name}", cached.totals[name], total)


def _runtime_of(pod: Pod, runtimes: Mapping[str, ProfileRuntime]) -> ProfileRuntime:
    """Return the pod's profile; the first one if the pod has the default scheduler and no profile has its name."""
    runtime = runtimes.get(pod.scheduler_name)
    if runtime is None and pod.scheduler_name == DEFAULT_SCHEDULER_NAME:
        runtime = next(iter(runtimes.values()))
    if runtime is None:
        raise ValueError(f"pod {pod.key}: schedulerName {pod.scheduler_name}: there is no such profile")
    return runtime


class _Evaluation(NamedTuple):
    """Results of one pod by node name."""

    rejection: Status | None
    """PreFilter's; there are no other results then."""
    statuses: dict[str, Status | None]
    totals: dict[str, int]
    """Those of the feasible nodes."""


def _evaluate(runtime: ProfileRuntime, pod: Pod, now: float, cache: EquivalenceCache | None) -> _Evaluation:
    cycle, nodes = Cycle(now, runtime.profile.name, pod.uid), runtime.state.rows
    pre = run_pre_filter(runtime, cycle, pod, cache)
    if pre.rejection is not None:
        return _Evaluation(pre.rejection, {}, {})
    filtered = find_nodes_that_pass_filters(runtime, cycle, pod, pre, cache, None)
    statuses, rows = {node.name: filtered.status(node.row) for node in nodes}, np.flatnonzero(filtered.fits)
    if not len(rows):
        return _Evaluation(None, statuses, {})
    scored = prioritize_nodes(runtime, cycle, pod, FeasibleNodes(len(rows), rows, filtered.cache))
    assert isinstance(scored, ScoredRows), "rows were given"
    totals = zip(scored.rows.tolist(), scored.totals.tolist(), strict=True)
    return _Evaluation(None, statuses, {nodes[row].name: total for row, total in totals})


def _shown(status: Status | None) -> str:
    return "Success" if status is None else f"{status.code.camel}, {status.plugin}: {status.message}"


def _raise(pod: Pod, what: str, cached: object, fresh: object) -> None:
    declared = "a plugin reads more than its reads, node_fields, sign_group or cache key declare"
    raise AssertionError(f"pod {pod.key}: {what} is {cached} in the cache, but now it is {fresh}: {declared}")
