"""Filter results of all nodes for one pod, and Filter with the pods that are nominated to a node."""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Hashable, Iterable, Mapping, Sequence

import numpy as np
from msgspec import Struct
from numpy.typing import NDArray

from pyscheduler.api.cycle import Cycle
from pyscheduler.api.diagnosis import Diagnosis
from pyscheduler.api.nodes import Mask
from pyscheduler.api.outcome import Code, Status
from pyscheduler.api.pod import Pod
from pyscheduler.core.evaluation.uncached_evaluation import filter_node, filter_with_nominated_pods, rejected_rows
from pyscheduler.core.framework.score_plugins import are_few
from pyscheduler.core.result_cache.equivalence_cache import EquivalenceCache
from pyscheduler.core.scheduling.competing_pods import reject_by_room
from pyscheduler.core.scheduling.extension_points import PreFilterResult
from pyscheduler.core.scheduling.profile_runtime import ProfileRuntime
from pyscheduler.core.state.cluster import ClusterState
from pyscheduler.core.state.node import NodeRow
from pyscheduler.kernels import Rows


class FilteredNodes(Struct, eq=False):
    """Filter results of all nodes."""

    nodes: int
    """Number of rows of the state."""
    feasible_count: int
    """Number of rows that fit."""
    evaluated_rows: Rows | None
    """The evaluated rows in ascending order; None for all of them."""
    rejections: Mapping[int, Status]
    """Statuses from uncached evaluation, by row; they take precedence over the cache."""
    absent_nodes_status: Status | None = None
    """Status of the rows that were not evaluated."""
    cache: EquivalenceCache | None = None
    """Cache of the other results if all nodes were evaluated; its feasible rows are these, so it can score them."""
    mask: Mask | None = None
    """Mask of the rows that fit; None: those that are feasible in the cache."""

    @property
    def fits(self) -> Mask:
        """Mask of the rows that fit."""
        if self.mask is not None:
            return self.mask
        assert self.cache is not None, "without a mask the results are in a cache"
        return self.cache.feasible

    def status(self, row: int) -> Status | None:
        """Return the status of a row; None if the pod fits."""
        if row in self.rejections:
            return self.rejections[row]
        if self.cache is not None:
            return self.cache.status(row)
        return None if self.fits[row] else self.absent_nodes_status

    def codes(self) -> NDArray[np.int64]:
        """Return the code of every row's status, SUCCESS where the pod fits."""
        if self.cache is not None:
            statuses, indexes = self.cache.statuses()
            codes = np.array([status.code for status in statuses], np.int64).take(indexes)
        else:
            absent = Code.SUCCESS if self.absent_nodes_status is None else self.absent_nodes_status.code
            codes = np.where(self.fits, Code.SUCCESS, absent).astype(np.int64)
        for row, status in self.rejections.items():
            codes[row] = status.code
        return codes

    def tally(self) -> Counter[Status]:
        """Return the number of rejected nodes per status."""
        if self.cache is None:
            tally = Counter(self.rejections.values())
            if self.absent_nodes_status is not None:
                tally[self.absent_nodes_status] += self.nodes - int(np.count_nonzero(self.fits)) - len(self.rejections)
            return +tally
        tally = self.cache.tally()
        if not self.rejections:
            return tally
        tally.update(self.rejections.values())
        tally.subtract(own for row in self.rejections if (own := self.cache.status(row)) is not None)
        return +tally

    def diagnosis(self, state: ClusterState, pre: PreFilterResult) -> Diagnosis:
        """Return the diagnosis of a pod that fits no node."""
        tally = self.tally()
        pending = {status.plugin for status in tally if status.code is Code.PENDING}

        def status_of(name: str) -> Status | None:
            node = state.info(name)
            return self.absent_nodes_status if node is None else self.status(node.row)

        plugins = {status.plugin for status in tally} | set(pre.restricted_by)
        return Diagnosis(
            len(state),
            tally,
            status_of,
            self.codes,
            unschedulable_plugins=plugins - pending - {""},
            pending_plugins=pending,
        )


class NominatedNode(Struct, frozen=True):
    """The pod's nominated node and why the pod does not fit there now; None if it fits."""

    node: NodeRow
    rejection: Status | None


def filter_all_nodes_uncached(runtime: ProfileRuntime, cycle: Cycle, pod: Pod) -> FilteredNodes:
    """Run Filter on every node. PluginFailed if a plugin raises."""
    nodes = runtime.state.rows
    rejections = filter_nodes(runtime, cycle, pod, nodes)
    fits = np.ones(len(nodes), np.bool_)
    fits[[*rejections]] = False
    return FilteredNodes(len(nodes), len(nodes) - len(rejections), None, rejections, mask=fits)


def filter_nodes(runtime: ProfileRuntime, cycle: Cycle, pod: Pod, nodes: Sequence[NodeRow]) -> dict[int, Status]:
    """Return the first rejection of each node that the pod does not fit, by row. PluginFailed if a plugin raises.

    A node with nominated pods is evaluated with them first. They may reject the pod before a plugin returns an error
    status.
    """
    nominator, few = runtime.nominator, are_few(nodes)
    if not few and not nominator.node_of:
        rows = np.fromiter((node.row for node in nodes), np.intp, len(nodes))
        return rejected_rows(runtime.profile, runtime.state, cycle, pod, rows, cycle.skipped)
    rejections: dict[int, Status] = {}
    other_rows: list[int] = []
    for node in nodes:
        if not few and not nominator.competing_pods(pod, node.name):
            other_rows.append(node.row)
            continue
        status = run_filter_plugins_with_nominated_pods(runtime, cycle, pod, node)
        if status is not None:
            rejections[node.row] = status
    rows = np.array(other_rows, np.intp)
    return rejections | rejected_rows(runtime.profile, runtime.state, cycle, pod, rows, cycle.skipped)


def run_filter_plugins_with_nominated_pods(
    runtime: ProfileRuntime, cycle: Cycle, pod: Pod, node: NodeRow
) -> Status | None:
    """Return the first rejection by the node, with its nominated pods first (RunFilterPluginsWithNominatedPods)."""
    others = runtime.nominator.competing_pods(pod, node.name)
    if others:
        status = filter_with_nominated_pods(runtime.profile, cycle, pod, node, others)
        if status is not None:
            return status
    return filter_node(runtime.profile, cycle, pod, node, cycle.skipped)


def rejected_with_nominated_pods(
    runtime: ProfileRuntime, cycle: Cycle, pod: Pod, cache: EquivalenceCache, include_infeasible: bool = False
) -> dict[int, Status]:
    """Return the status of the rows that reject the pod once nominated pods of its priority or above are added.

    Only rows that fit without them are evaluated, or all of them with `include_infeasible`.
    """
    nominator, state, results = runtime.nominator, runtime.state, cache.with_nominated_pods
    if include_infeasible or not cache.is_stable:
        return _rejected_by_nodes(runtime, cycle, pod, cache, nominator.nodes(), include_infeasible)
    version, log = nominator.all_competing_pods_version(pod), state.usage_log
    changed = log.since(results.usage_mark) if version == results.version else None
    names: Collection[str] = nominator.nodes()
    rejected: dict[int, Status] = {}
    if changed is not None and len(changed) <= len(names):
        # Only these nodes may have another status: hundreds of nominated pods must not slow down every attempt.
        rows = {row for row in changed.tolist() if row < len(state) and state.rows[row].name in names}
        if not rows:
            results.usage_mark = log.mark
            return results.rejected
        rejected = {row: status for row, status in results.rejected.items() if row not in rows}
        names = [state.rows[row].name for row in rows]
    rejected |= _rejected_by_nodes(runtime, cycle, pod, cache, names)
    results.rejected, results.version, results.usage_mark = rejected, version, log.mark
    return rejected


def _rejected_by_nodes(
    runtime: ProfileRuntime,
    cycle: Cycle,
    pod: Pod,
    cache: EquivalenceCache,
    names: Iterable[str],
    include_infeasible: bool = False,
) -> dict[int, Status]:
    """Return the first rejection of nodes with their nominated pods, cached until a node or these pods change."""
    nodes = [node for name in names if (node := runtime.state.info(name)) is not None]
    if not include_infeasible:
        nodes = [node for node in nodes if cache.fits(node.row)]
    nominator, by_node, is_stable = runtime.nominator, cache.with_nominated_pods.by_node, cache.is_stable
    rejected: dict[int, Status] = {}
    stale: list[NodeRow] = []
    versions: dict[int, Hashable] = {}
    for node in nodes:
        version = versions[node.row] = (node.generation, nominator.competing_pods_version(pod, node.name))
        known = by_node.get(node.name) if is_stable else None
        if known is None or known[0] != version:
            stale.append(node)
        elif known[1] is not None:
            rejected[node.row] = known[1]
    left = stale
    if not are_few(stale):
        without = {node.row: status for node in stale if (status := cache.status(node.row)) is not None}
        competing = runtime.competing_pods.of(pod)
        by_room, left = reject_by_room(runtime.profile, runtime.state, competing, cycle, pod, stale, without)
        rejected |= by_room
    for node in left:
        others = nominator.competing_pods(pod, node.name)
        status = filter_with_nominated_pods(runtime.profile, cycle, pod, node, others) if others else None
        if status is not None:
            rejected[node.row] = status
    if is_stable:
        if len(by_node) > 2 * len(nominator.nodes()):
            by_node.clear()  # most of these nodes have no nominated pods any more
        by_node.update({node.name: (versions[node.row], rejected.get(node.row)) for node in stale})
    return rejected
