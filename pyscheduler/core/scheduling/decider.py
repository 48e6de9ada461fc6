"""The part of a scheduling attempt that selects a node: kube-scheduler's schedulePod.

The steps run in kube-scheduler's order: PreFilter, the nominated node, Filter over the nodes, Score, selection. The
`SearchOrder` determines which feasible nodes are scored and how ties are broken.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
from msgspec import Struct

from pyscheduler.api.cycle import Cycle
from pyscheduler.api.diagnosis import Diagnosis
from pyscheduler.api.normalize import Scores
from pyscheduler.api.outcome import Code, Status
from pyscheduler.api.pod import Pod
from pyscheduler.core.framework.profile import Profile
from pyscheduler.core.instrument import Instrument, Point
from pyscheduler.core.queue.nominator import Nominator
from pyscheduler.core.result_cache.equivalence_cache import EquivalenceCache
from pyscheduler.core.result_cache.uncached_evaluation import pre_score_rows, score_nodes
from pyscheduler.core.scheduling.feasible_nodes import FeasibleNodeFinder, FeasibleNodes, diagnose
from pyscheduler.core.scheduling.node_order import EveryNode, KubeSchedulerOrder, NextStartNode, SearchOrder
from pyscheduler.core.state.cluster import ClusterState
from pyscheduler.core.state.node import NodeRow
from pyscheduler.kernels import Rows

MAX_CACHE_BYTES = 256 * 1024 * 1024
"""Limit on the memory of one profile's equivalence caches; beyond it the least recently used are dropped."""
MAX_CACHES = 1024
"""Maximum number of equivalence caches per profile, however small they are."""
MIN_CACHES = 256
"""Number of equivalence caches kept regardless of `MAX_CACHE_BYTES`: 1 GiB at 50,000 nodes.

A decision without a cache takes a hundred times as long.
"""
NO_NODES = Status(Code.UNSCHEDULABLE_AND_UNRESOLVABLE, "", ("no nodes available to schedule pods",))


_POINTS = ("PreFilter", "Filter", "PreScore", "Score")


class _Points(NamedTuple):
    """The extension points of a decision, as passed to the instrument."""

    pre_filter: Point
    filter: Point
    pre_score: Point
    score: Point


class Choice(Struct, frozen=True):
    """The selected node and the number of feasible nodes."""

    node: NodeRow
    feasible: int


class Decider:
    """Select nodes for the pods of one profile."""

    def __init__(
        self,
        profile: Profile,
        state: ClusterState,
        nominator: Nominator,
        instrument: Instrument,
        start: NextStartNode | None = None,
        has_extender_scores: bool = False,
    ) -> None:
        """`start` is shared by all deciders of a scheduler and used in kube-scheduler's order only.

        `has_extender_scores`: extenders rank nodes besides the Score plugins, so the search must not stop at the first
        feasible node.
        """
        self._profile = profile
        self._state = state
        self._finder = FeasibleNodeFinder(profile, state, nominator)
        self._points = _Points(*(instrument.point(name, profile.name) for name in _POINTS))
        percentage = profile.percentage_of_nodes_to_score
        self._order: SearchOrder = EveryNode()
        if percentage is not None:
            self._order = KubeSchedulerOrder(
                state, start or NextStartNode(), percentage, has_extender_scores or bool(profile.score)
            )
        self._caches: OrderedDict[int, EquivalenceCache] = OrderedDict()

    def decide(self, cycle: Cycle, pod: Pod) -> Choice | Diagnosis:
        """Return a node for the pod, or a diagnosis if no node fits. PluginFailed if a plugin raises."""
        self._order.begin()
        if not self._state.rows:
            return Diagnosis(0, pre_filter=NO_NODES)
        cache = self._cache_for(pod)
        try:
            return self._decide(cycle, pod, cache)
        except BaseException:
            self._drop_cache(pod)
            raise

    def _decide(self, cycle: Cycle, pod: Pod, cache: EquivalenceCache) -> Choice | Diagnosis:
        finder = self._finder
        self._points.pre_filter.enter()
        pre = finder.pre_filter(cycle, pod, cache)
        if pre.rejection is not None:
            self._points.pre_filter.leave(pre.rejection.code.camel)
            return diagnose(self._state, pre)
        self._points.pre_filter.leave()
        nominated = finder.evaluate_nominated_node(cycle, pod, pre)
        if nominated is not None and nominated.rejection is None:
            return Choice(nominated.node, 1)
        self._points.filter.enter()
        if pre.names is None:
            found = finder.filter_all(cycle, pod, pre, cache)
        else:
            found = finder.filter_named(cycle, pod, pre, pre.names, nominated)
        rows = self._order.visit(found, nominated.node.row if nominated else None)
        feasible = cache.feasible_count if rows is None else len(rows)
        if not feasible:
            self._points.filter.leave(Code.UNSCHEDULABLE.camel)
            return diagnose(self._state, pre, found)
        self._points.filter.leave()
        if feasible == 1:
            node = self._state.rows[int(np.argmax(found.fits) if rows is None else rows[0])]
            return Choice(node, 1)
        return Choice(self._best(cycle, pod, found, rows), feasible)

    def _best(self, cycle: Cycle, pod: Pod, found: FeasibleNodes, rows: Rows | None) -> NodeRow:
        """Return the node with the best score among `rows`; None stands for all feasible rows of the cache."""
        cache = found.result_cache
        if cache is not None and (rows is None or len(rows) == cache.feasible_count):
            self._points.pre_score.enter()
            cache.pre_score(cycle, pod)
            self._points.pre_score.leave()
            self._points.score.enter()
            cache.refresh_scores(cycle, pod)
            self._points.score.leave()
            if rows is None:
                return self._state.rows[cache.scores.top_scores.pick(cycle.random_bits)]
            return self._state.rows[int(rows[self._order.pick(cache.scores.total[rows], cycle)])]
        # Scores are normalised over the sampled nodes only, while the cached scores were normalised over more.
        fitting: list[NodeRow] = [
            self._state.rows[row] for row in (np.flatnonzero(found.fits) if rows is None else rows)
        ]
        return fitting[self._order.pick(self._totals(cycle, pod, fitting), cycle)]

    def _totals(self, cycle: Cycle, pod: Pod, nodes: Sequence[NodeRow]) -> Scores:
        """Return the weighted total score of each node, normalised over these nodes only."""
        self._points.pre_score.enter()
        among = np.array([node.row for node in nodes], np.intp)
        skipped = pre_score_rows(self._profile, self._state, cycle, pod, among)
        self._points.pre_score.leave()
        self._points.score.enter()
        totals = score_nodes(self._profile, self._state, cycle, pod, nodes, skipped)
        self._points.score.leave()
        return totals

    def _cache_for(self, pod: Pod) -> EquivalenceCache:
        """Return the equivalence cache of the pod's signature group and mark it as most recently used."""
        if pod.node_name or pod.is_large:
            # spec.nodeName is not part of the signature, so NodeName's result for this pod holds for no other pod.
            return EquivalenceCache(self._profile, self._state)
        template = pod.signature.template.id
        cache = self._caches.get(template)
        if cache is not None:
            self._caches.move_to_end(template)
            return cache
        cache = self._caches[template] = EquivalenceCache(self._profile, self._state)
        # All caches grow to about the same size; the oldest one has reached it.
        oldest = next(iter(self._caches.values()))
        while len(self._caches) > min(MAX_CACHES, max(MIN_CACHES, MAX_CACHE_BYTES // max(1, oldest.bytes))):
            self._caches.popitem(last=False)
        return cache

    def _drop_cache(self, pod: Pod) -> None:
        """Drop the pod's equivalence cache after a plugin raised: it may be half updated."""
        self._caches.pop(pod.signature.template.id, None)
        for point in self._points:
            point.fail()
