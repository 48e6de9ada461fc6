"""Runs PlacementGenerate and PlacementScore: the sets of nodes that are tried for a group, and the best one that fits.

The counterpart is podGroupSchedulingPlacementAlgorithm of kube-scheduler 1.37 (schedule_one_podgroup.go). It tries all
candidates; here those without enough free resources are left out, and of the others at most 32 are tried.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Final

import numpy as np
from msgspec import Struct

from pyscheduler.api.nodes import Ints, Mask, NodeInfo, NodeTable
from pyscheduler.api.normalize import MAX_NODE_SCORE
from pyscheduler.api.outcome import Rejection
from pyscheduler.api.pod import Pod
from pyscheduler.api.pod_group import PodGroup
from pyscheduler.api.pod_group_cycle import (
    Placement,
    PlacementCandidate,
    PlacementGeneratePlugin,
    PlacementScorePlugin,
)
from pyscheduler.api.return_values import InvalidReturnValue
from pyscheduler.core.context import Context
from pyscheduler.core.framework.plugin_calls import call_guarded
from pyscheduler.core.framework.plugin_failure import PluginFailed
from pyscheduler.core.framework.profile import Profile
from pyscheduler.core.framework.result_checks import check_result
from pyscheduler.core.scheduling.failure import UNSCHEDULABLE, Failure
from pyscheduler.core.scheduling.failure_handler import report_plugin_failure
from pyscheduler.texts import text_of

PLACEMENT_GENERATE: Final = "PlacementGenerate"
PLACEMENT_SCORE: Final = "PlacementScore"
NORMALIZE: Final = "NormalizePlacementScore"
_MAX_TRIED: Final = 32
"""Number of candidates that are tried: each costs an attempt to place all members."""


def generate_placements(context: Context, profile: Profile, group: PodGroup) -> Sequence[PlacementCandidate] | Failure:
    """Return the candidates of the first PlacementGenerate plugin; none if it leaves the choice to the scheduler."""
    plugin = profile.placement_generate[0]
    nodes = context.state.table()
    with context.instrument.point(PLACEMENT_GENERATE, profile.name) as point:
        try:
            scheduled = scheduled_members(context, group)
            result = call_guarded(plugin.name, PLACEMENT_GENERATE, _generated, plugin, group, scheduled, nodes)
        except PluginFailed as failed:
            report_plugin_failure(context, failed)
            return Failure.of_plugin(failed)
        if result is None:
            return ()
        if not isinstance(result, Rejection) and result:
            return result
        message = result.message if isinstance(result, Rejection) else "no feasible placements found"
        point.status = "Unschedulable"
        return Failure(message, UNSCHEDULABLE, frozenset({plugin.name}), nominate="")


def _generated(
    plugin: PlacementGeneratePlugin, group: PodGroup, scheduled: Sequence[tuple[Pod, NodeInfo]], nodes: NodeTable
) -> Sequence[PlacementCandidate] | Rejection | None:
    """Return the result of the plugin. InvalidReturnValue if it is not valid."""
    method = plugin.generate_placements
    result = method(group, scheduled, nodes)
    check_result(PLACEMENT_GENERATE, method, result)
    for candidate in () if result is None or isinstance(result, Rejection) else result:
        if not isinstance(candidate, PlacementCandidate):
            raise InvalidReturnValue(method, candidate, "PlacementCandidates")
        rows: object = candidate.nodes
        if not isinstance(rows, np.ndarray) or rows.dtype.kind not in "iu" or rows.ndim != 1:
            raise InvalidReturnValue(method, rows, "candidates with an array of indexes")
        if len(rows) and not 0 <= rows.min() <= rows.max() < len(nodes):
            raise InvalidReturnValue(method, rows, f"indexes below {len(nodes)}", shown=f"index {rows.max()}")
    return result


def scheduled_members(context: Context, group: PodGroup) -> list[tuple[Pod, NodeInfo]]:
    """Return the pods of the group that have a node, with their nodes; nodes that no longer exist are left out."""
    state = context.groups.get(group.key)
    if state is None:
        return []
    nodes = ((pod, context.state.node_of(uid)) for uid, pod in state.pods.items() if uid in state.placed)
    return [(pod, node) for pod, node in nodes if node is not None and node.row >= 0]


def tightest_first(
    candidates: Sequence[PlacementCandidate], nodes: NodeTable, requests: Iterable[Mapping[str, int]], needed: int
) -> Iterator[tuple[PlacementCandidate, Mask]]:
    """Yield the candidates to try with the mask of their nodes, those with the least room first.

    `requests` are those of each member. Candidates without room for the `needed` smallest members are left out; those
    without room for all come last.
    """
    smallest_first = sorted(requests, key=lambda each: sum(each.values()))
    everything, least = _sum(smallest_first), _sum(smallest_first[:needed])
    free = {r: np.maximum(nodes.allocatable(r) - nodes.requested(r), 0) for r in everything}
    ranked: list[tuple[bool, float, int]] = []
    for i, candidate in enumerate(candidates):
        room = {resource: int(column[candidate.nodes].sum()) for resource, column in free.items()}
        if all(room[resource] >= amount for resource, amount in least.items()):
            lacks = any(room[resource] < amount for resource, amount in everything.items())
            ranked.append((lacks, sum(room[r] / max(1, amount) for r, amount in everything.items()), i))
    for _, _, i in sorted(ranked)[:_MAX_TRIED]:
        mask = np.zeros(len(nodes), np.bool_)
        mask[candidates[i].nodes] = True
        yield candidates[i], mask


class ScoredPlacement(Struct, frozen=True, eq=False):
    """Placement of a group that fits, to be repeated if it is the best."""

    nodes: Mapping[str, int]
    """Row of the node of each placed member by UID, in the order in which they were placed."""
    failures: Mapping[str, Failure]
    """Why other members have no node."""
    scores: Sequence[int]
    """Scores of the PlacementScore plugins before they are normalized."""


def score_placement(
    context: Context, profile: Profile, group: PodGroup, pending: Sequence[Pod], candidate: Ints
) -> tuple[int, ...]:
    """Return the scores of the current placement of the group. PluginFailed if a plugin fails."""
    placed = context.groups[group.key].placed
    members = scheduled_members(context, group)
    placement = Placement(group, members, [pod for pod in pending if pod.uid not in placed])
    nodes = context.state.table(candidate)
    with context.instrument.point(PLACEMENT_SCORE, profile.name):
        return tuple(
            call_guarded(each.plugin.name, PLACEMENT_SCORE, each.plugin.score_placement, placement, nodes)
            for each in profile.placement_score
        )


def by_total_score(profile: Profile, group: PodGroup, placements: Sequence[ScoredPlacement]) -> list[ScoredPlacement]:
    """Return the placements by their weighted sum of normalized scores, the best first. PluginFailed if a plugin fails.

    Of equal ones the first comes first; kube-scheduler chooses one at random.
    """
    totals = [0] * len(placements)
    for i, each in enumerate(profile.placement_score):
        raw = [placement.scores[i] for placement in placements]
        scores = call_guarded(each.plugin.name, NORMALIZE, _normalized, each.plugin, group, raw)
        totals = [total + each.weight * score for total, score in zip(totals, scores, strict=True)]
    order = sorted(range(len(placements)), key=lambda i: -totals[i])
    return [placements[i] for i in order]


def _normalized(plugin: PlacementScorePlugin, group: PodGroup, raw: Sequence[int]) -> Sequence[int]:
    """Return the normalized scores of a plugin. InvalidReturnValue if they are not in the range of scores."""
    method = plugin.normalize_placement_scores
    scores: object = method(group, raw)
    if not isinstance(scores, Sequence) or len(scores) != len(raw):
        raise InvalidReturnValue(method, scores, f"a sequence of {len(raw)} scores")
    for score in scores:
        if type(score) is not int or not 0 <= score <= MAX_NODE_SCORE:
            raise InvalidReturnValue(method, scores, f"scores from 0 to {MAX_NODE_SCORE}", shown=text_of(score, repr))
    return scores


def _sum(requests: Sequence[Mapping[str, int]]) -> Counter[str]:
    total = Counter[str]()
    for each in requests:
        total.update(each)
    return total
