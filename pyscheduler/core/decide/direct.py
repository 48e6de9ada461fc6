"""Filter and Score asked of a few named nodes, nothing kept: the framework's rules in their plainest form.

Used where PreFilter narrows the nodes (DaemonSet pods name theirs), for a nominated node, and for what-ifs.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from pyscheduler.api.cycle import Cycle
from pyscheduler.api.normalize import Scores
from pyscheduler.api.outcome import SKIP, Status
from pyscheduler.api.plugin import PreFilterPlugin
from pyscheduler.api.pod import Pod
from pyscheduler.core.decide.filtering import ask
from pyscheduler.core.decide.prefilter import KeptAnswers, run_pre_filter
from pyscheduler.core.decide.scoring import ScoreColumn
from pyscheduler.core.framework.failure import PluginFailed
from pyscheduler.core.framework.profile import Profile
from pyscheduler.core.state.cluster import ClusterState
from pyscheduler.core.state.node import NodeRow


def filter_node(profile: Profile, cycle: Cycle, pod: Pod, node: NodeRow, skipped: set[str]) -> Status | None:
    """The first plugin's "no" for one node, or None if the pod fits. PluginFailed if one raises."""
    for plugin in profile.filter:
        if plugin.name not in skipped:
            rejection = ask(plugin, cycle, pod, node)
            if rejection is not None:
                return Status.of(plugin.name, rejection)
    return None


def score_nodes(profile: Profile, state: ClusterState, cycle: Cycle, pod: Pod, nodes: Sequence[NodeRow]) -> Scores:
    """The weighted total of each of some feasible nodes. PluginFailed if a plugin raises."""
    rows = np.array([node.row for node in nodes], np.intp)
    skipped = _run_pre_score(profile, state, cycle, pod, rows)
    total = np.zeros(len(nodes), np.int64)
    for weighted in profile.score:
        if weighted.plugin.name not in skipped:
            column = ScoreColumn(weighted, len(state))
            column.ask(cycle, pod, state, rows)
            column.renormalize(cycle, pod, rows)
            total += column.weighted[rows]
    return total


def fits_with(
    profile: Profile, state: ClusterState, cycle: Cycle, pod: Pod, node: NodeRow, others: Sequence[Pod]
) -> Status | None:
    """Whether the pod would fit the node if `others` ran there too: None, or the "no". The state is left as it was."""
    with state.trial():
        what_if = Cycle(cycle.now, cycle.profile, cycle.uid, cycle.attempt, cycle.seed)
        result = run_pre_filter(profile.pre_filter, what_if, pod, state.table(), KeptAnswers())
        if result.rejection is not None:
            return result.rejection
        told = [plugin for plugin in profile.pre_filter if plugin.name not in result.skipped]
        for other in others:
            state.place(other, node.name)
            for plugin in told:
                _tell_added(plugin, what_if, pod, other, node)
        return filter_node(profile, what_if, pod, node, result.skipped)


def _tell_added(plugin: PreFilterPlugin, cycle: Cycle, pod: Pod, added: Pod, node: NodeRow) -> None:
    try:
        plugin.add_pod(cycle, pod, added, node)
    except Exception as error:
        raise PluginFailed(plugin.name, "PreFilterExtensionAddPod", error) from error


def _run_pre_score(profile: Profile, state: ClusterState, cycle: Cycle, pod: Pod, rows: np.ndarray) -> set[str]:
    skipped = set()
    for plugin in profile.pre_score:
        try:
            if plugin.pre_score(cycle, pod, state.table(rows)) is SKIP:
                skipped.add(plugin.name)
        except Exception as error:
            raise PluginFailed(plugin.name, "PreScore", error) from error
    return skipped
