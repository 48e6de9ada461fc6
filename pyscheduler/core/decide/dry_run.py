"""What-if trials for PostFilter plugins: pods come and go on one node, and Filter is asked again.

They do so on a copy of that one node's books, three small dicts, and the cycle gets its earlier values back: nothing
else in the cluster is touched, so nothing has to be undone or computed again afterwards. What a plugin says of a node
object alone cannot change in a trial, so it is asked for that only until it has said yes.
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
from pyscheduler.core.decide.filtering import run_filter_on_table
from pyscheduler.core.decide.uncached_evaluation import (
    filter_with_nominated_pods,
    first_rejection,
    has_pre_filter_extensions,
    pre_filter_extensions,
    run_add_pod,
    run_remove_pod,
)
from pyscheduler.core.framework.plugin_failure import PluginFailed
from pyscheduler.core.framework.profile import Profile
from pyscheduler.core.queue.nominator import Nominator
from pyscheduler.core.state.cluster import ClusterState
from pyscheduler.core.state.node import NodeRow
from pyscheduler.core.state.without_lower_priority import ReprieveTable, TableWithoutLowerPriority

_MANY = 64


@dataclass(frozen=True, slots=True)
class _Plugins:
    """Who has a part in the trials of an attempt."""

    pre_filter_extensions: Sequence[PreFilterPlugin]
    """Those that are told of pods that come and go."""
    filters: Sequence[FilterPlugin]
    pod_dependent_filters: Sequence[FilterPlugin]
    """Those whose answer may be another once pods have come or gone."""
    node_only_filters: Sequence[FilterPlugin]
    """The others."""
    depend_on_one_node: bool
    """Whether what they say in trials on a node follows from the node and its pods, by whatever way they came there."""
    are_cacheable: bool
    """Whether it does so for good, for any pod of the signature: other objects do not matter to any of them."""
    hold_for_template: bool
    """Whether what they say holds for any pod of the template, whatever labels and claims it has and nodes it names."""


@dataclass(frozen=True, slots=True)
class DryRunner:
    """Where trials are made: the cluster, its nominated pods, and the profiles by name."""

    profiles: Mapping[str, Profile]
    state: ClusterState
    nominator: Nominator
    _known: dict[tuple[str, frozenset[str]], _Plugins] = field(default_factory=dict)

    @contextmanager
    def open(self, cycle: Cycle, pod: Pod, node_name: str) -> Iterator[NodeDryRun]:
        """One trial (`Handle.dry_run`). KeyError for an unknown node."""
        node = self.state.info(node_name)
        if node is None:
            raise KeyError(f"no node {node_name!r}")
        before = cycle.state()
        try:
            yield NodeDryRun(self, cycle, pod, node.copy())
        finally:
            cycle.restore(before)

    def plugins(self, cycle: Cycle) -> _Plugins:
        """Who has a part in the attempt's trials: the same for all that skip the same plugins."""
        key = (cycle.profile, cycle.skipped)
        known = self._known.get(key)
        if known is None:
            if len(self._known) >= _MANY:
                self._known.clear()
            profile = self.profiles[cycle.profile]
            asked = [p for p in profile.filter if p.name not in cycle.skipped]
            again = [p for p in asked if _reads(p) is not Reads.OWN_NODE]
            once = [p for p in asked if p not in again]
            told = pre_filter_extensions(profile, cycle)
            one_node = not told and all(_depends_on_own_row(p) for p in asked)
            for_good = one_node and all(p.reads <= Reads.OWN_NODE_AND_PODS and not p.reads_identity for p in asked)
            alike = not any(p.reads_labels or p.reads_claims or p.reads_match_fields for p in asked)
            known = self._known[key] = _Plugins(told, asked, again, once, one_node, for_good, alike)
        return known

    def is_assigned_or_assumed(self, uid: str) -> bool:
        """Whether a pod is on a node or on its way there (`Handle.is_assigned_or_assumed`)."""
        return self.state.node_of(uid) is not None

    def nodes(self) -> NodeTable:
        """All nodes."""
        return self.state.table()

    def nodes_without_lower_priority(self, priority: int) -> NodeTable:
        """All nodes without their pods below a priority (`Handle.nodes_without_lower_priority`)."""
        return TableWithoutLowerPriority(self.state, priority)

    def filter_without_lower_priority(self, cycle: Cycle, pod: Pod, priority: int) -> NodeToStatus:
        """Which nodes refuse the pod even without their pods below `priority` (`Handle.filter_without_lower_priority`).

        The plugins are asked in their order, so the first "no" is the one that a trial would hear; where one comes
        whose answer the columns of a node cannot tell, the rest is left to trials.
        """
        table = TableWithoutLowerPriority(self.state, priority)
        found = NodeToStatus(len(table))
        for plugin in self.profiles[cycle.profile].filter:
            if plugin.name in cycle.skipped:
                continue
            said = self._filter_all(plugin, cycle, pod, table) if _depends_on_own_row(plugin) else None
            if said is None:
                break
            first = (found.codes == 0) & (said.codes != 0)
            found.codes[first] = said.codes[first] + len(found.rejections)
            found.rejections += said.rejections
        found.codes[table.overflowed | self._nominated_rows()] = 0
        return found

    def reprieve_pods(self, cycle: Cycle, pod: Pod, orders: Mapping[int, Sequence[Pod]]) -> dict[int, list[bool]]:
        """Who may stay of pods that are let back one by one (`Handle.reprieve_pods`)."""
        plugins = self.plugins(cycle)
        if pod.signature.host_ports or not plugins.depend_on_one_node:
            return {}  # ports: of two pods with the same one, it matters in a trial who comes and goes first
        rows = np.fromiter(orders, np.intp, len(orders))
        table = ReprieveTable(self.state, pod.priority, rows)
        never = self._rejecting_rows(plugins.node_only_filters, cycle, pod, table)
        if never is None:
            return {}
        stay: list[list[bool]] = [[] for _ in orders]
        for step in range(max(map(len, orders.values()), default=0)):
            back = {place: order[step] for place, order in enumerate(orders.values()) if step < len(order)}
            table.put(back)
            refused = self._rejecting_rows(plugins.pod_dependent_filters, cycle, pod, table)
            if refused is None:
                return {}
            gone = {place: one for place, one in back.items() if refused[place]}
            table.take(gone)
            for place in back:
                stay[place].append(place not in gone)
        doubtful = never | table.overflowed | self._nominated_rows()[rows]
        return {row: stay[place] for place, row in enumerate(orders) if not doubtful[place]}

    def dry_run_cache_key(self, cycle: Cycle, pod: Pod, node: NodeInfo) -> Hashable | None:
        """What trials on a node rest on (`Handle.dry_run_cache_key`)."""
        known, plugins = self.state.info(node.name), self.plugins(cycle)
        if known is None or not plugins.are_cacheable:
            return None
        rivals = self.nominator.rivals_version(pod, node.name)
        own = None if plugins.hold_for_template else pod.signature.id
        return self.state.nodes_version, cycle.profile, cycle.skipped, known.version, rivals, own

    def _nominated_rows(self) -> Mask:
        """The rows where others are nominated: what a trial is told there depends on them."""
        return self.state.table().named(frozenset(self.nominator.nodes()))

    def _filter_all(self, plugin: FilterPlugin, cycle: Cycle, pod: Pod, table: NodeTable) -> NodeToStatus | None:
        """What it says of all nodes; None if the objects that it reads make no sense for one: trials find which."""
        self.profiles[cycle.profile].evaluations.filter[plugin.name].n += len(table)
        try:
            return run_filter_on_table(plugin, cycle, pod, table)
        except PluginFailed as failed:
            if isinstance(failed.error, StatusError) and plugin.reads_in_dry_run is not None:
                return None
            raise

    def _rejecting_rows(self, plugins: Sequence[FilterPlugin], cycle: Cycle, pod: Pod, table: NodeTable) -> Mask | None:
        """Which nodes any of them refuses; None if one of them cannot tell."""
        refused = np.zeros(len(table), np.bool_)
        for plugin in plugins:
            said = self._filter_all(plugin, cycle, pod, table)
            if said is None:
                return None
            refused |= said.codes != 0
        return refused


def _reads(plugin: FilterPlugin) -> Reads:
    """What answers depend on in a trial."""
    return plugin.reads if plugin.reads_in_dry_run is None else plugin.reads_in_dry_run


def _depends_on_own_row(plugin: FilterPlugin) -> bool:
    """Whether the answer in a trial follows from the node and the pods on it, by whatever way they came there."""
    return _reads(plugin) <= Reads.OWN_NODE_AND_PODS and not has_pre_filter_extensions(plugin)


class NodeDryRun:
    """The `DryRun` of the public interface."""

    __slots__ = ("_again", "_asked", "_cycle", "_node", "_pod", "_profile", "_rivals", "_told")

    def __init__(self, trials: DryRunner, cycle: Cycle, pod: Pod, node: NodeRow) -> None:
        self._profile = trials.profiles[cycle.profile]
        self._rivals = trials.nominator.rivals(pod, node.name)
        self._cycle = cycle
        self._pod = pod
        self._node = node
        plugins = trials.plugins(cycle)
        self._told, self._asked, self._again = (
            plugins.pre_filter_extensions,
            plugins.filters,
            plugins.pod_dependent_filters,
        )

    def remove(self, victim: Pod) -> None:
        self._node.take(victim.uid)
        run_remove_pod(self._told, self._cycle, self._pod, victim, self._node)

    def add(self, pod: Pod) -> None:
        self._node.put(pod)
        run_add_pod(self._told, self._cycle, self._pod, pod, self._node)

    def run_filters(self) -> Status | None:
        try:
            return self._refusal()
        except PluginFailed as failed:
            if isinstance(failed.error, StatusError):
                return Status(Code.ERROR, failed.plugin, (str(failed),))
            raise

    def _refusal(self) -> Status | None:
        refusal = None
        if self._rivals:
            refusal = filter_with_nominated_pods(self._profile, self._cycle, self._pod, self._node, self._rivals)
        if refusal is None:
            refusal = first_rejection(self._profile, self._asked, self._cycle, self._pod, self._node)
        if refusal is None:
            self._asked = self._again
        return refusal
