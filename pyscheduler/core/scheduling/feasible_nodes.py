"""Find the nodes that a pod fits: kube-scheduler's findNodesThatFitPod, over all nodes.

PreFilter runs once per pod, Filter once per node, or twice where other pods are nominated to the node: with and without
them. Results come from an `EquivalenceCache`, which keeps them for the next pod of the signature group. If PreFilter
narrows the search to a few nodes, Filter runs on these directly.
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
from pyscheduler.core.framework.plugin_failure import PluginFailed
from pyscheduler.core.framework.profile import Profile
from pyscheduler.core.queue.nominator import Nominator
from pyscheduler.core.result_cache.equivalence_cache import EquivalenceCache
from pyscheduler.core.result_cache.filter_columns import are_few
from pyscheduler.core.result_cache.uncached_evaluation import filter_node, filter_with_nominated_pods, rejected_rows
from pyscheduler.core.scheduling.prefilter import PreFilterResult, run_pre_filter
from pyscheduler.core.state.cluster import ClusterState
from pyscheduler.core.state.node import NodeRow
from pyscheduler.kernels import Rows


@dataclass(slots=True)
class FeasibleNodes:
    """Filter results of all nodes."""

    fits: Mask
    """One element per row of the state."""
    among: Rows | None
    """The evaluated rows in ascending order; None for all of them."""
    rejections: Mapping[int, Status]
    """Statuses from uncached evaluation, by row; they take precedence over the cache."""
    outside: Status | None = None
    """Status of the rows that were not evaluated."""
    result_cache: EquivalenceCache | None = None
    """Cache of the other results if all nodes were evaluated. `fits` is its `feasible`, so its totals can be used."""

    def status(self, row: int) -> Status | None:
        """Return the status of a row; None if the pod fits."""
        if row in self.rejections:
            return self.rejections[row]
        if self.result_cache is not None:
            return self.result_cache.filters.status(row)
        return None if self.fits[row] else self.outside

    def codes(self) -> NDArray[np.int64]:
        """Return the code of every row's status, SUCCESS where the pod fits."""
        if self.result_cache is not None:
            codes = self.result_cache.filters.status_codes(len(self.fits))
        else:
            outside = Code.SUCCESS if self.outside is None else self.outside.code
            codes = np.where(self.fits, Code.SUCCESS, outside).astype(np.int64)
        for row, status in self.rejections.items():
            codes[row] = status.code
        return codes

    def tally(self, nodes: int) -> Counter[Status]:
        """Return the number of rejected nodes per status."""
        if self.result_cache is None:
            tally = Counter(self.rejections.values())
            if self.outside is not None:
                tally[self.outside] += nodes - int(np.count_nonzero(self.fits)) - len(self.rejections)
            return +tally
        filters = self.result_cache.filters
        tally = filters.tally(nodes)
        tally.update(self.rejections.values())
        tally.subtract(own for row in self.rejections if (own := filters.status(row)) is not None)
        return +tally


@dataclass(frozen=True, slots=True)
class NominatedNode:
    """The pod's nominated node and why the pod does not fit there now; None if it fits."""

    node: NodeRow
    rejection: Status | None


class FeasibleNodeFinder:
    """Run the PreFilter and Filter plugins of one profile."""

    def __init__(self, profile: Profile, state: ClusterState, nominator: Nominator) -> None:
        self._profile = profile
        self._state = state
        self._nominator = nominator

    def pre_filter(self, cycle: Cycle, pod: Pod, cache: EquivalenceCache) -> PreFilterResult:
        """Run the PreFilter plugins. PluginFailed if one raises."""
        cached, evaluations = cache.begin(pod.signature), self._profile.evaluations.pre_filter
        return run_pre_filter(self._profile.pre_filter, cycle, pod, self._state.table(), cached, evaluations)

    def nominated_node(self, pod: Pod) -> str:
        """Return the name of the pod's nominated node, "" if it has none."""
        return self._nominator.nominated_node(pod)

    def evaluate_nominated_node(self, cycle: Cycle, pod: Pod, pre: PreFilterResult) -> NominatedNode | None:
        """Run Filter on the pod's nominated node, if it has one, before any other and even if PreFilter excluded it.

        An error status counts as no result, as in kube-scheduler: the search that follows meets it again if the node
        matters.
        """
        name = self.nominated_node(pod)
        node = self._state.info(name) if name else None
        if node is None:
            return None
        try:
            return NominatedNode(node, self._filter_node(cycle, pod, node, pre))
        except PluginFailed as failed:
            if isinstance(failed.error, StatusError):
                return None
            raise

    def filter_all(
        self, cycle: Cycle, pod: Pod, pre: PreFilterResult, cache: EquivalenceCache, all_statuses: bool = False
    ) -> FeasibleNodes:
        """Run Filter on every node, if no PreFilter plugin returned node names.

        `all_statuses`: compute every node's reason even if some node fits. Kube-scheduler filters with the nominated
        pods first, so that result is the node's status; as long as a node can be selected, only nodes that fit are
        filtered so.
        """
        try:
            cache.refresh_filters(cycle, pod, pre.skipped)
        except PluginFailed as failed:
            nominated = any(self._nominator.competing_pods(pod, node.name) for node in self._state.rows)
            if not isinstance(failed.error, StatusError) or not nominated:
                raise
            return self._filter_one_by_one(cycle, pod, pre)
        reserved = self._reserved_rows(cycle, pod, cache)
        feasible = cache.exclude_reserved(reserved.keys())
        if all_statuses or not feasible:
            reserved = self._reserved_rows(cycle, pod, cache, include_infeasible=True)
        return FeasibleNodes(cache.feasible[: len(self._state.rows)], None, reserved, result_cache=cache)

    def filter_named(
        self, cycle: Cycle, pod: Pod, pre: PreFilterResult, names: frozenset[str], nominated: NominatedNode | None
    ) -> FeasibleNodes:
        """Run Filter on the nodes that PreFilter named. An earlier rejection by the nominated node stands."""
        # Row order, not set order: the same events must give the same choice.
        nodes = sorted((n for name in names if (n := self._state.info(name)) is not None), key=lambda n: n.row)
        fits = np.zeros(len(self._state), np.bool_)
        nominated_status = nominated.rejection if nominated else None
        rejections: dict[int, Status] = {nominated.node.row: nominated_status} if nominated and nominated_status else {}
        rows = np.fromiter((node.row for node in nodes), np.intp, len(nodes))
        fits[rows] = True
        if are_few(rows):
            one_by_one = nodes
        else:
            # A pod may name thousands of nodes; those with nominated pods are evaluated with them first.
            one_by_one = [node for node in nodes if self._nominator.competing_pods(pod, node.name)]
            rejections |= rejected_rows(self._profile, self._state, cycle, pod, rows, pre.skipped)
        for node in one_by_one:
            status = self._filter_node(cycle, pod, node, pre)
            if status is not None:
                rejections[node.row] = status
        fits[[*rejections]] = False
        return FeasibleNodes(fits, rows, rejections, pre.outside_status(nominated_status))

    def _filter_one_by_one(self, cycle: Cycle, pod: Pod, pre: PreFilterResult) -> FeasibleNodes:
        """Filter each node with its nominated pods first.

        They may reject the pod before a plugin returns an error status.
        """
        nodes = self._state.rows
        rejections = {
            node.row: status for node in nodes if (status := self._filter_node(cycle, pod, node, pre)) is not None
        }
        fits = np.ones(len(nodes), np.bool_)
        fits[[*rejections]] = False
        return FeasibleNodes(fits, np.arange(len(nodes)), rejections)

    def _filter_node(self, cycle: Cycle, pod: Pod, node: NodeRow, pre: PreFilterResult) -> Status | None:
        others = self._nominator.competing_pods(pod, node.name)
        if others:
            status = filter_with_nominated_pods(self._profile, cycle, pod, node, others)
            if status is not None:
                return status
        return filter_node(self._profile, cycle, pod, node, pre.skipped)

    def _reserved_rows(
        self, cycle: Cycle, pod: Pod, cache: EquivalenceCache, include_infeasible: bool = False
    ) -> dict[int, Status]:
        """Return the status of the rows that reject the pod once nominated pods of its priority or above are added.

        Only rows that fit without them are evaluated, or all of them with `include_infeasible`.
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
        """Return the status with the nominated pods added, cached until the node or those pods change."""
        name = node.name
        versions = (
            (node.version, self._nominator.competing_pods_version(pod, name)) if cache.filters.is_stable else None
        )
        cached = cache.with_nominated_pods.get(name)
        if versions is None or cached is None or cached[0] != versions:
            others = self._nominator.competing_pods(pod, name)
            status = filter_with_nominated_pods(self._profile, cycle, pod, node, others) if others else None
            cached = cache.with_nominated_pods[name] = (versions, status)
        return cached[1]


def diagnose(state: ClusterState, pre: PreFilterResult, found: FeasibleNodes | None = None) -> Diagnosis:
    """Return the diagnosis of a pod that fits no node: PreFilter's rejection, else the Filter results."""
    if found is None:
        return _diagnose_pre_filter(state, pre, pre.rejection)
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


def _diagnose_pre_filter(state: ClusterState, pre: PreFilterResult, status: Status | None) -> Diagnosis:
    assert status is not None, "neither PreFilter nor Filter has rejected the pod"
    pending = {status.plugin} if status.code is Code.PENDING else set()
    return Diagnosis(
        len(state),
        status_of=lambda _: status,
        pre_filter=status,
        unschedulable_plugins={status.plugin, *pre.restricted_by} - pending - {""},
        pending_plugins=pending,
    )
