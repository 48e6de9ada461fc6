"""Rejections of a pod by every Filter plugin, where an attempt stops at the first: what keeps the pod off each node."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from pyscheduler.api.outcome import Status
from pyscheduler.core.framework.plugin_failure import PluginFailed
from pyscheduler.core.result_cache.row_filters import run_filter_on_table
from pyscheduler.core.scheduling.report import FilterRun
from pyscheduler.core.state.cluster import ClusterState


def all_rejections(state: ClusterState, run: FilterRun) -> list[Sequence[Status]]:
    """Return the rejections of each row, none where the pod fits.

    The first one is the status that an attempt has for the node; it is the only one where PreFilter rejects the pod or
    leaves the node out. A plugin that raises on nodes that an earlier one rejects adds no rejection there.
    """
    profile, cycle, pod, pre, first = run
    found = [[] if status is None else [status] for status in first]
    if pre.rejection is not None:
        return list(found)
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
