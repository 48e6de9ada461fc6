"""Dry runs for PostFilter plugins: remove and add pods on one node or on many, then run Filter again.

A dry run on one node works on a copy of its accounting (three small dicts) and restores the cycle's state afterwards.
The cluster state is not modified, so nothing has to be undone or recomputed. Filter plugins that read only the node
object cannot change their result during a dry run, so they run until they accept the node once.

If all Filter plugins depend on a node and its pods only, many nodes are evaluated at once in columns.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

from pyscheduler.api.cycle import Cycle
from pyscheduler.api.nodes import Mask, NodeTable
from pyscheduler.api.outcome import Code, NodeToStatus, Status, StatusError
from pyscheduler.api.plugin import FilterPlugin, PreFilterPlugin
from pyscheduler.api.pod import Pod
from pyscheduler.api.reads import Reads
from pyscheduler.api.victims import PotentialVictims, Reprieve
from pyscheduler.core.evaluation.uncached_evaluation import (
    filter_with_nominated_pods,
    first_rejection,
    has_pre_filter_extensions,
    pre_filter_extensions,
    run_add_pod,
    run_remove_pod,
)
from pyscheduler.core.framework.plugin_failure import PluginFailed
from pyscheduler.core.framework.profile import Profile
from pyscheduler.core.preemption.nominated_pods import joined, no_victims, with_nominated_pods
from pyscheduler.core.preemption.reprieve import reprieve_by_room, required_room
from pyscheduler.core.queue.nominator import Nominator
from pyscheduler.core.result_cache.row_filters import run_filter_on_table
from pyscheduler.core.state.cluster import ClusterState
from pyscheduler.core.state.node import NodeRow
from pyscheduler.core.state.without_lower_priority import HostPortCount, ReprieveTable, TableWithoutLowerPriority

_MAX_CACHED = 64


@dataclass(frozen=True, slots=True, eq=False)
class _Plugins:
    """The plugins that take part in the dry runs of an attempt."""

    profile: Profile
    pre_filter_extensions: Sequence[PreFilterPlugin]
    """PreFilter plugins that implement `add_pod` or `remove_pod`."""
    filters: Sequence[FilterPlugin]
    pod_dependent_filters: Sequence[FilterPlugin]
    """Filters with a result that may change when pods are added or removed."""
    depend_on_one_node: bool
    """True if results depend only on the node and its pods, not on the order in which pods were added and removed."""


@dataclass(frozen=True, slots=True)
class DryRunner:
    """Create dry runs over the cluster state, its nominated pods and the profiles by name."""

    profiles: Mapping[str, Profile]
    state: ClusterState
    nominator: Nominator
    _plugins: dict[tuple[str, frozenset[str]], _Plugins] = field(default_factory=dict)

    @contextmanager
    def open(self, cycle: Cycle, pod: Pod, node_name: str) -> Iterator[NodeDryRun]:
        """Open a dry run on one node (`DryRuns.open`). KeyError if the node does not exist."""
        node = self.state.info(node_name)
        if node is None:
            raise KeyError(f"no node {node_name!r}")
        before = cycle.state()
        try:
            yield NodeDryRun(self, cycle, pod, node.copy())
        finally:
            cycle.restore(before)

    def plugins(self, cycle: Cycle) -> _Plugins:
        """Return the plugins of the attempt's dry runs, cached by profile and skipped plugins."""
        key, profile = (cycle.profile, cycle.skipped), self.profiles[cycle.profile]
        plugins = self._plugins.get(key)
        if plugins is None or plugins.profile is not profile:
            if len(self._plugins) >= _MAX_CACHED:
                self._plugins.clear()
            filters = [p for p in profile.filter if p.name not in cycle.skipped]
            pod_dependent = [p for p in filters if reads_in_dry_run(p) is not Reads.OWN_NODE]
            extensions = pre_filter_extensions(profile, cycle)
            one_node = not extensions and all(depends_on_own_row(p) for p in filters)
            plugins = self._plugins[key] = _Plugins(profile, extensions, filters, pod_dependent, one_node)
        return plugins

    def filter_without_lower_priority(
        self, cycle: Cycle, pod: Pod, rows: NDArray[np.intp]
    ) -> tuple[NodeToStatus, Mask]:
        """Return the status of nodes without their pods of lower priority, and a mask of those that need a dry run.

        See `DryRuns.filter_without_lower_priority`.

        Filters run in profile order, so the first rejection is the one that a dry run would return. The search stops at
        the first filter that needs more than a node's row; the remaining filters run in dry runs only.
        """
        n, nominated = len(rows), self._nominated_pods(pod, rows)
        if nominated and required_room(self.plugins(cycle).pod_dependent_filters, cycle, pod) is None:
            twin = np.array([*nominated], np.intp)
            nodes = no_victims(rows)
            table: TableWithoutLowerPriority = ReprieveTable(
                self.state, pod.priority, joined(nodes, with_nominated_pods(nodes, nominated)), 0
            )
        else:  # nominated pods only take room: a node that has enough with them also has enough without them
            twin = np.empty(0, np.intp)
            table = TableWithoutLowerPriority(self.state, pod.priority, rows, nominated)
        statuses, is_complete = self._first_rejections(cycle, pod, table)
        codes, beside = statuses.codes[:n], statuses.codes[n:]
        # Filter runs with the nominated pods first; without them only if it accepts the pod.
        codes[twin] = np.where(beside, beside, codes[twin] if is_complete else 0)
        overflowed = table.overflowed[:n]
        overflowed[twin] |= table.overflowed[n:]
        codes[overflowed] = 0
        statuses.codes = codes
        is_exact = is_complete and self.plugins(cycle).depend_on_one_node
        return statuses, overflowed if is_exact else codes == 0

    def reprieve_pods(self, cycle: Cycle, pod: Pod, victims: PotentialVictims) -> Reprieve:
        """Return which of the pods stay when they are added back one by one (`DryRuns.reprieve_pods`)."""
        (steps, n), nominated = victims.pods.shape, self._nominated_pods(pod, victims.rows)
        filters = self.plugins(cycle).pod_dependent_filters
        required = required_room(filters, cycle, pod)
        if required is not None:
            for plugin in filters:
                self._count_evaluations(cycle, plugin, steps * (n + len(nominated)))
            return reprieve_by_room(self.state, pod, victims, nominated, required)
        stays, twin = np.zeros((steps, n), np.bool_), np.array([*nominated], np.intp)
        pods = joined(victims, with_nominated_pods(victims, nominated)) if nominated else victims
        table = ReprieveTable(self.state, pod.priority, pods, steps)
        for i in range(steps):
            table.put(i)
            rejected = self._rejected(filters, cycle, pod, table, twin)
            if rejected is None:
                return Reprieve(stays, np.ones(n, np.bool_))
            table.take(i, rejected if not nominated else np.concatenate((rejected, rejected[twin])))
            stays[i] = ~rejected
        stays &= victims.pods >= 0
        needs_dry_run = table.overflowed[:n] | self._share_host_ports(pod, victims.rows)
        needs_dry_run[twin] |= table.overflowed[n:]
        return Reprieve(stays, needs_dry_run)

    def _nominated_pods(self, pod: Pod, rows: NDArray[np.intp]) -> dict[int, list[Pod]]:
        """Return the nominated pods that take precedence over `pod` on some nodes, by index into `rows`."""
        nodes = [node for name in self.nominator.nodes() if (node := self.state.info(name)) is not None]
        if not nodes:
            return {}
        has_nominated = np.zeros(len(self.state), np.bool_)
        has_nominated[[node.row for node in nodes]] = True
        found = {}
        for index in np.flatnonzero(has_nominated[rows]).tolist():
            others = self.nominator.competing_pods(pod, self.state.rows[rows[index]].name)
            if others:
                found[index] = others
        return found

    def _share_host_ports(self, pod: Pod, rows: NDArray[np.intp]) -> Mask:
        """Return a mask of the nodes with two pods on one host port, if the pod needs one.

        The result then depends on the order of adding and removing them.
        """
        if not pod.signature.host_ports:
            return np.zeros(len(rows), np.bool_)
        table = self.state.table(rows)
        return np.not_equal(table.by_ports(len), table.count_pods(HostPortCount()))

    def _first_rejections(self, cycle: Cycle, pod: Pod, table: NodeTable) -> tuple[NodeToStatus, bool]:
        """Return the first rejection of each node, and True if all filters ran."""
        statuses = NodeToStatus(len(table))
        for plugin in self.plugins(cycle).filters:
            result = self._filter_all(plugin, cycle, pod, table) if depends_on_own_row(plugin) else None
            if result is None:
                return statuses, False
            if result.rejections:
                first = (statuses.codes == 0) & (result.codes != 0)
                statuses.codes[first] = result.codes[first] + len(statuses.rejections)
                statuses.rejections += result.rejections
        return statuses, True

    def _rejected(
        self, plugins: Sequence[FilterPlugin], cycle: Cycle, pod: Pod, table: NodeTable, twin: NDArray[np.intp]
    ) -> Mask | None:
        """Return a mask of the nodes that some filter rejects; None if a filter cannot parse an object.

        The last nodes of the table are those with the indexes `twin` again, with nominated pods.
        """
        rejects = np.zeros(len(table), np.bool_)
        for plugin in plugins:
            result = self._filter_all(plugin, cycle, pod, table)
            if result is None:
                return None
            if result.rejections:
                rejects |= result.codes != 0
        rejected = rejects[: len(table) - len(twin)]
        rejected[twin] |= rejects[len(rejected) :]
        return rejected

    def _filter_all(self, plugin: FilterPlugin, cycle: Cycle, pod: Pod, table: NodeTable) -> NodeToStatus | None:
        """Return the filter's result for all nodes; None if it fails for one, as where it cannot parse an object.

        The dry runs that follow report that node, if the filters before this one accept it.
        """
        self._count_evaluations(cycle, plugin, len(table))
        try:
            return run_filter_on_table(plugin, cycle, pod, table)
        except PluginFailed as failed:
            if isinstance(failed.error, StatusError):
                failed.drop_traceback()
                return None
            raise

    def _count_evaluations(self, cycle: Cycle, plugin: FilterPlugin, n: int) -> None:
        self.profiles[cycle.profile].evaluations.filter[plugin.name].n += n


def reads_in_dry_run(plugin: FilterPlugin) -> Reads:
    """Return what the filter's result depends on during a dry run."""
    return plugin.reads if plugin.reads_in_dry_run is None else plugin.reads_in_dry_run


def depends_on_own_row(plugin: FilterPlugin) -> bool:
    """Return True if the result depends only on the node and its pods, not on how they came there."""
    return reads_in_dry_run(plugin) <= Reads.OWN_NODE_AND_PODS and not has_pre_filter_extensions(plugin)


class NodeDryRun:
    """Implementation of the public interface `DryRun` for one node."""

    __slots__ = ("_cycle", "_extensions", "_filters", "_node", "_pod", "_pod_dependent_filters", "_profile", "_rivals")

    def __init__(self, runner: DryRunner, cycle: Cycle, pod: Pod, node: NodeRow) -> None:
        self._profile = runner.profiles[cycle.profile]
        self._rivals = runner.nominator.competing_pods(pod, node.name)
        self._cycle = cycle
        self._pod = pod
        self._node = node
        plugins = runner.plugins(cycle)
        self._extensions, self._filters, self._pod_dependent_filters = (
            plugins.pre_filter_extensions,
            plugins.filters,
            plugins.pod_dependent_filters,
        )

    def remove(self, victim: Pod) -> None:
        self._node.take(victim.uid)
        run_remove_pod(self._extensions, self._cycle, self._pod, victim, self._node)

    def add(self, pod: Pod) -> None:
        self._node.put(pod)
        run_add_pod(self._extensions, self._cycle, self._pod, pod, self._node)

    def run_filters(self) -> Status | None:
        try:
            return self._first_rejection()
        except PluginFailed as failed:
            if isinstance(failed.error, StatusError):
                failed.drop_traceback()
                return Status(Code.ERROR, failed.plugin, (str(failed),))
            raise

    def _first_rejection(self) -> Status | None:
        rejection = None
        if self._rivals:
            rejection = filter_with_nominated_pods(self._profile, self._cycle, self._pod, self._node, self._rivals)
        if rejection is None:
            rejection = first_rejection(self._profile, self._filters, self._cycle, self._pod, self._node)
        if rejection is None:
            self._filters = self._pod_dependent_filters
        return rejection
