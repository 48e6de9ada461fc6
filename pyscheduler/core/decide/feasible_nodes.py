"""Which nodes a pod fits: kube-scheduler's findNodesThatFitPod, asked of every node.

PreFilter looks at the pod, then Filter at each node, twice where others are nominated to it: with them and without. The
answers come from an `EquivalenceCache`, which keeps them for the next pod of the signature; where PreFilter narrows the nodes
down to a few, these are asked directly.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from pyscheduler.api.cycle import Cycle
from pyscheduler.api.diagnosis import Diagnosis
from pyscheduler.api.nodes import Mask
from pyscheduler.api.outcome import Code, Status, StatusError
from pyscheduler.api.pod import Pod
from pyscheduler.core.decide.equivalence_cache import EquivalenceCache
from pyscheduler.core.decide.filtering import are_few
from pyscheduler.core.decide.prefilter import PreFilterResult, run_pre_filter
from pyscheduler.core.decide.uncached_evaluation import filter_node, filter_with_nominated_pods, rejected_rows
from pyscheduler.core.framework.plugin_failure import PluginFailed
from pyscheduler.core.framework.profile import Profile
from pyscheduler.core.queue.nominator import Nominator
from pyscheduler.core.state.cluster import ClusterState
from pyscheduler.core.state.node import NodeRow
from pyscheduler.kernels import Rows


@dataclass(slots=True)
class FeasibleNodes:
    """What Filter said of every node."""

    fits: Mask
    """Per row of the state."""
    among: Rows | None
    """The rows that were looked at, in ascending order; None for all of them."""
    refused: Mapping[int, Status]
    """What was said directly, by row: it goes before what the cache keeps."""
    outside: Status | None = None
    """What rows that were not looked at are told."""
    result_cache: EquivalenceCache | None = None
    """Where the other answers are, if all nodes were asked: `fits` is what it holds feasible, so its totals serve."""

    def status(self, row: int) -> Status | None:
        """Why the pod does not fit a row; None if it does."""
        if row in self.refused:
            return self.refused[row]
        if self.result_cache is not None:
            return self.result_cache.filters.status(row)
        return None if self.fits[row] else self.outside

    def codes(self) -> NDArray[np.int64]:
        """The code of every row's status: SUCCESS where the pod fits."""
        if self.result_cache is not None:
            codes = self.result_cache.filters.status_codes(len(self.fits))
        else:
            outside = Code.SUCCESS if self.outside is None else self.outside.code
            codes = np.where(self.fits, Code.SUCCESS, outside).astype(np.int64)
        for row, status in self.refused.items():
            codes[row] = status.code
        return codes

    def tally(self, nodes: int) -> Counter[Status]:
        """How many of the nodes were refused with each status."""
        if self.result_cache is None:
            tally = Counter(self.refused.values())
            if self.outside is not None:
                tally[self.outside] += nodes - int(np.count_nonzero(self.fits)) - len(self.refused)
            return +tally
        filters = self.result_cache.filters
        tally = filters.tally(nodes)
        tally.update(self.refused.values())
        tally.subtract(own for row in self.refused if (own := filters.status(row)) is not None)
        return +tally


@dataclass(frozen=True, slots=True)
class NominatedNode:
    """The node that an earlier attempt made room on, and what keeps the pod off it now: nothing, if all went well."""

    node: NodeRow
    refusal: Status | None


class FeasibleNodeFinder:
    """Asks the PreFilter and Filter plugins of one profile."""

    def __init__(self, profile: Profile, state: ClusterState, nominator: Nominator) -> None:
        self._profile = profile
        self._state = state
        self._nominator = nominator

    def pre_filter(self, cycle: Cycle, pod: Pod, cache: EquivalenceCache) -> PreFilterResult:
        """Ask the PreFilter plugins. PluginFailed if one raises."""
        kept, asked = cache.begin(pod.signature), self._profile.evaluations.pre_filter
        return run_pre_filter(self._profile.pre_filter, cycle, pod, self._state.table(), kept, asked)

    def nominated_node(self, pod: Pod) -> str:
        """The node that an earlier attempt made room on for the pod, "" if none did."""
        return self._nominator.nominated_node(pod)

    def evaluate_nominated_node(self, cycle: Cycle, pod: Pod, pre: PreFilterResult) -> NominatedNode | None:
        """Run Filter on the pod's nominated node, if it has one, before any other and whatever PreFilter left.

        An error is no result, as in kube-scheduler: the search that follows runs into it again if the node counts.
        """
        name = self.nominated_node(pod)
        node = self._state.info(name) if name else None
        if node is None:
            return None
        try:
            return NominatedNode(node, self._refusal(cycle, pod, node, pre))
        except PluginFailed as failed:
            if isinstance(failed.error, StatusError):
                return None
            raise

    def filter_all(
        self, cycle: Cycle, pod: Pod, pre: PreFilterResult, cache: EquivalenceCache, with_reasons: bool = False
    ) -> FeasibleNodes:
        """Ask Filter of every node, where no PreFilter plugin has named some.

        `with_reasons`: the reasons matter even if some node fits. Kube-scheduler asks first with the nominated pods, so it is
        that answer which is told of a node; while a node is still to be chosen, only nodes that fit are asked so.
        """
        try:
            cache.refresh_filters(cycle, pod, pre.skipped)
        except PluginFailed as failed:
            nominated = any(self._nominator.rivals(pod, node.name) for node in self._state.rows)
            if not isinstance(failed.error, StatusError) or not nominated:
                raise
            return self._one_by_one(cycle, pod, pre)
        reserved = self._reserved_rows(cycle, pod, cache)
        left = cache.exclude_reserved(reserved.keys())
        if with_reasons or not left:
            reserved = self._reserved_rows(cycle, pod, cache, include_infeasible=True)
        return FeasibleNodes(cache.feasible[: len(self._state.rows)], None, reserved, result_cache=cache)

    def filter_named(
        self, cycle: Cycle, pod: Pod, pre: PreFilterResult, names: frozenset[str], nominated: NominatedNode | None
    ) -> FeasibleNodes:
        """Ask Filter of the few nodes that PreFilter left. What was said of the nominated node stands."""
        # Row order, not set order: the same events must give the same choice.
        nodes = sorted((n for name in names if (n := self._state.info(name)) is not None), key=lambda n: n.row)
        fits = np.zeros(len(self._state), np.bool_)
        before = nominated.refusal if nominated else None
        refused: dict[int, Status] = {nominated.node.row: before} if nominated and before else {}
        rows = np.fromiter((node.row for node in nodes), np.intp, len(nodes))
        fits[rows] = True
        if are_few(rows):
            alone = nodes
        else:
            # A pod may name thousands of nodes; those with nominated pods are evaluated with them first.
            alone = [node for node in nodes if self._nominator.rivals(pod, node.name)]
            refused |= rejected_rows(self._profile, self._state, cycle, pod, rows, pre.skipped)
        for node in alone:
            status = self._refusal(cycle, pod, node, pre)
            if status is not None:
                refused[node.row] = status
        fits[[*refused]] = False
        return FeasibleNodes(fits, rows, refused, pre.outside_status(before))

    def _one_by_one(self, cycle: Cycle, pod: Pod, pre: PreFilterResult) -> FeasibleNodes:
        """Filter each node with its nominated pods first: they may refuse the pod before a plugin meets an error."""
        nodes = self._state.rows
        refused = {node.row: status for node in nodes if (status := self._refusal(cycle, pod, node, pre)) is not None}
        fits = np.ones(len(nodes), np.bool_)
        fits[[*refused]] = False
        return FeasibleNodes(fits, np.arange(len(nodes)), refused)

    def _refusal(self, cycle: Cycle, pod: Pod, node: NodeRow, pre: PreFilterResult) -> Status | None:
        others = self._nominator.rivals(pod, node.name)
        if others:
            status = filter_with_nominated_pods(self._profile, cycle, pod, node, others)
            if status is not None:
                return status
        return filter_node(self._profile, cycle, pod, node, pre.skipped)

    def _reserved_rows(
        self, cycle: Cycle, pod: Pod, cache: EquivalenceCache, include_infeasible: bool = False
    ) -> dict[int, Status]:
        """The rows where the pod would take the place of a nominated one of its priority or above.

        Of those that it fits without them; `include_infeasible`: of all.
        """
        reserved = {}
        for name in self._nominator.nodes():
            node = self._state.info(name)
            if node is None or not (include_infeasible or cache.fits(node.row)):
                continue
            status = self._filter_with_nominated_pods(cycle, pod, node, cache)
            if status is not None:
                reserved[node.row] = status
        return reserved

    def _filter_with_nominated_pods(
        self, cycle: Cycle, pod: Pod, node: NodeRow, cache: EquivalenceCache
    ) -> Status | None:
        """What is in the way if its nominated pods run there too: kept while the answer rests on that node and them."""
        name = node.name
        at = (node.version, self._nominator.rivals_version(pod, name)) if cache.filters.is_stable else None
        known = cache.with_nominated_pods.get(name)
        if at is None or known is None or known[0] != at:
            others = self._nominator.rivals(pod, name)
            status = filter_with_nominated_pods(self._profile, cycle, pod, node, others) if others else None
            known = cache.with_nominated_pods[name] = (at, status)
        return known[1]


def diagnose(state: ClusterState, pre: PreFilterResult, found: FeasibleNodes | None = None) -> Diagnosis:
    """Why no node fits: what PreFilter said if it rejected the pod, else what Filter did."""
    if found is None:
        return _rejected(state, pre, pre.rejection)
    tally = found.tally(len(state))
    pending = {s.plugin for s in tally if s.code is Code.PENDING}

    def status_of(name: str) -> Status | None:
        node = state.info(name)
        return found.outside if node is None else found.status(node.row)

    plugins = {s.plugin for s in tally} | set(pre.restricted_by)
    return Diagnosis(
        len(state),
        tally,
        status_of,
        found.codes,
        unschedulable_plugins=plugins - pending - {""},
        pending_plugins=pending,
    )


def _rejected(state: ClusterState, pre: PreFilterResult, status: Status | None) -> Diagnosis:
    assert status is not None, "neither PreFilter nor Filter has refused the pod"
    pending = {status.plugin} if status.code is Code.PENDING else set()
    return Diagnosis(
        len(state),
        status_of=lambda _: status,
        pre_filter=status,
        unschedulable_plugins={status.plugin, *pre.restricted_by} - pending - {""},
        pending_plugins=pending,
    )
