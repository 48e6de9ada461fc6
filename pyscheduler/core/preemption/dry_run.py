"""Dry runs for PostFilter plugins: remove and add pods on one node, then run Filter again.

A dry run works on a copy of the node's accounting (three small dicts) and restores the cycle's state afterwards. The
cluster state is not modified, so nothing has to be undone or recomputed. Filter plugins that read only the node object
cannot change their result during a dry run, so they run until they accept the node once.
"""

from __future__ import annotations

from collections.abc import Hashable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field

import numpy as np

from pyscheduler.api.cycle import Cycle
from pyscheduler.api.nodes import Mask, NodeInfo, NodeTable
from pyscheduler.api.outcome import Code, NodeToStatus, Status, StatusError
from pyscheduler.api.plugin import FilterPlugin, PreFilterPlugin, Reads
from pyscheduler.api.pod import Pod
from pyscheduler.core.framework.plugin_failure import PluginFailed
from pyscheduler.core.framework.profile import Profile
from pyscheduler.core.queue.nominator import Nominator
from pyscheduler.core.result_cache.filter_columns import run_filter_on_table
from pyscheduler.core.result_cache.uncached_evaluation import (
    filter_with_nominated_pods,
    first_rejection,
    has_pre_filter_extensions,
    pre_filter_extensions,
    run_add_pod,
    run_remove_pod,
)
from pyscheduler.core.state.cluster import ClusterState
from pyscheduler.core.state.node import NodeRow
from pyscheduler.core.state.without_lower_priority import ReprieveTable

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
    node_only_filters: Sequence[FilterPlugin]
    """The other filters."""
    depend_on_one_node: bool
    """True if results depend only on the node and its pods, not on the order in which pods were added and removed."""
    are_cacheable: bool
    """True if no filter reads other objects or the pod's identity either: results hold for the whole signature.

    False if the profile caches no results.
    """
    hold_for_signature_group: bool
    """True if results hold for every pod of the signature group, whatever its labels, claims and named nodes."""


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
            pod_dependent = [p for p in filters if _reads(p) is not Reads.OWN_NODE]
            node_only = [p for p in filters if p not in pod_dependent]
            extensions = pre_filter_extensions(profile, cycle)
            one_node = not extensions and all(_depends_on_own_row(p) for p in filters)
            reads_no_more = all(p.reads <= Reads.OWN_NODE_AND_PODS and not p.reads_identity for p in filters)
            cacheable = profile.caches_results and one_node and reads_no_more
            group = not any(p.reads_labels or p.reads_claims or p.reads_match_fields for p in filters)
            plugins = _Plugins(profile, extensions, filters, pod_dependent, node_only, one_node, cacheable, group)
            self._plugins[key] = plugins
        return plugins

    def filter_without_lower_priority(self, cycle: Cycle, pod: Pod, priority: int) -> NodeToStatus:
        """Return the nodes that reject the pod even without pods below `priority`.

        See `DryRuns.filter_without_lower_priority`.

        Filters run in profile order, so the first rejection is the one that a dry run would return. The search stops at
        the first filter that needs more than a node's row; the remaining filters run in dry runs only.
        """
        table = self.state.table_without_lower_priority(priority)
        statuses = NodeToStatus(len(table))
        for plugin in self.profiles[cycle.profile].filter:
            if plugin.name in cycle.skipped:
                continue
            result = self._filter_all(plugin, cycle, pod, table) if _depends_on_own_row(plugin) else None
            if result is None:
                break
            first = (statuses.codes == 0) & (result.codes != 0)
            statuses.codes[first] = result.codes[first] + len(statuses.rejections)
            statuses.rejections += result.rejections
        statuses.codes[table.overflowed | self._nominated_rows()] = 0
        return statuses

    def reprieve_pods(self, cycle: Cycle, pod: Pod, orders: Mapping[int, Sequence[Pod]]) -> dict[int, list[bool]]:
        """Return, per row, which of the pods stay when they are added back one by one (`DryRuns.reprieve_pods`)."""
        plugins = self.plugins(cycle)
        if pod.signature.host_ports or not plugins.depend_on_one_node:
            return {}  # with two pods on one host port, the result depends on the order of adding and removing them
        rows = np.fromiter(orders, np.intp, len(orders))
        table = ReprieveTable(self.state, pod.priority, rows)
        node_rejects = self._rejecting_rows(plugins.node_only_filters, cycle, pod, table)
        if node_rejects is None:
            return {}
        stays: list[list[bool]] = [[] for _ in orders]
        for step in range(max(map(len, orders.values()), default=0)):
            added = {place: order[step] for place, order in enumerate(orders.values()) if step < len(order)}
            table.put(added)
            rejects = self._rejecting_rows(plugins.pod_dependent_filters, cycle, pod, table)
            if rejects is None:
                return {}
            removed = {place: candidate for place, candidate in added.items() if rejects[place]}
            table.take(removed)
            for place in added:
                stays[place].append(place not in removed)
        needs_dry_run = node_rejects | table.overflowed | self._nominated_rows()[rows]
        return {row: stays[place] for place, row in enumerate(orders) if not needs_dry_run[place]}

    def cache_key(self, cycle: Cycle, pod: Pod, node: NodeInfo) -> Hashable | None:
        """Return the cache key of dry runs on a node, None if they cannot be cached (`DryRuns.cache_key`)."""
        row, plugins = self.state.info(node.name), self.plugins(cycle)
        if row is None or not plugins.are_cacheable:
            return None
        rivals = self.nominator.competing_pods_version(pod, node.name)
        signature = None if plugins.hold_for_signature_group else pod.signature.id
        return self.state.nodes_version, plugins, row.version, rivals, signature

    def _nominated_rows(self) -> Mask:
        """Return a mask of the rows with nominated pods, since those change the result of a dry run."""
        return self.state.table().named(frozenset(self.nominator.nodes()))

    def _filter_all(self, plugin: FilterPlugin, cycle: Cycle, pod: Pod, table: NodeTable) -> NodeToStatus | None:
        """Return the filter's result for all nodes; None if it cannot parse an object that it reads.

        The dry runs that follow report the node with that object.
        """
        self.profiles[cycle.profile].evaluations.filter[plugin.name].n += len(table)
        try:
            return run_filter_on_table(plugin, cycle, pod, table)
        except PluginFailed as failed:
            if isinstance(failed.error, StatusError) and plugin.reads_in_dry_run is not None:
                return None
            raise

    def _rejecting_rows(self, plugins: Sequence[FilterPlugin], cycle: Cycle, pod: Pod, table: NodeTable) -> Mask | None:
        """Return a mask of the nodes that some filter rejects; None if a filter cannot parse an object."""
        rejects = np.zeros(len(table), np.bool_)
        for plugin in plugins:
            result = self._filter_all(plugin, cycle, pod, table)
            if result is None:
                return None
            rejects |= result.codes != 0
        return rejects


def _reads(plugin: FilterPlugin) -> Reads:
    """Return what the filter's result depends on during a dry run."""
    return plugin.reads if plugin.reads_in_dry_run is None else plugin.reads_in_dry_run


def _depends_on_own_row(plugin: FilterPlugin) -> bool:
    """Return True if the result depends only on the node and its pods, not on how they came there."""
    return _reads(plugin) <= Reads.OWN_NODE_AND_PODS and not has_pre_filter_extensions(plugin)


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
