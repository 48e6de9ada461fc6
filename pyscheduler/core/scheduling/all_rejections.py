"""Rejections of a pod by every Filter plugin, where an attempt stops at the first: what keeps the pod off each node."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from pyscheduler.api.cycle import Cycle
from pyscheduler.api.outcome import Status
from pyscheduler.api.pod import Pod
from pyscheduler.core.context import Context
from pyscheduler.core.framework.plugin_failure import PluginFailed
from pyscheduler.core.framework.profile import Profile
from pyscheduler.core.instrument import Instrument
from pyscheduler.core.result_cache.row_filters import run_filter_on_table
from pyscheduler.core.scheduling.profile_runtime import ProfileRuntime
from pyscheduler.core.scheduling.schedule_pod import find_nodes_that_pass_filters, run_pre_filter


def all_rejections(context: Context, profile: Profile, pod: Pod) -> list[Sequence[Status]]:
    """Return the rejections of each row, none where the pod fits. PluginFailed if a plugin raises.

    The first one is the status that an attempt has for the node; it is the only one where PreFilter rejects the pod or
    leaves the node out. A plugin that raises on nodes that an earlier one rejects adds no rejection there.
    """
    state = context.state
    runtime = ProfileRuntime.of(profile, state, context.queue.nominator, Instrument())
    cycle = Cycle(0.0, profile.name, pod.uid, 1, context.settings.seed)
    pre = run_pre_filter(runtime, cycle, pod, None)
    if pre.rejection is not None:
        return [(pre.rejection,)] * len(state)
    filtered = find_nodes_that_pass_filters(runtime, cycle, pod, pre, None, None)
    first = [filtered.status(row) for row in range(len(state))]
    found = [[] if status is None else [status] for status in first]
    named = None if pre.names is None else {node.row for node in state.rows if node.name in pre.names}
    rejected = [row for row, status in enumerate(first) if status is not None and (named is None or row in named)]
    for plugin in profile.filter:
        if plugin.name in cycle.skipped or not rejected:
            continue
        try:
            verdicts = run_filter_on_table(plugin, cycle, pod, state.table(np.array(rejected, np.intp)))
        except PluginFailed as failed:
            failed.drop_traceback()
            continue
        for row, code in zip(rejected, verdicts.codes.tolist(), strict=True):
            if code and found[row][0].plugin != plugin.name:
                found[row].append(Status.of(plugin.name, verdicts.rejections[code - 1]))
    return list(found)
