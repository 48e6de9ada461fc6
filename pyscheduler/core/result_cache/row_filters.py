"""Filter results by row of the plugins that are not evaluated by class, kept between attempts.

A row has one code: 0 if the pod fits, else the index of the first rejection's status. It says what is known of every
plugin, since they run one after the other until one rejects the node: those before the one that rejected it accept the
pod, those after it have not run there. So after a change the plugins that read what changed run again, and those after
the one that rejected the pod if it does not any more.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Hashable, Sequence
from copy import copy
from typing import NamedTuple

import numpy as np
from msgspec import Struct
from numpy.typing import NDArray

from pyscheduler.api.cycle import Cycle
from pyscheduler.api.nodes import Mask, NodeInfo, NodeTable
from pyscheduler.api.outcome import Code, NodeToStatus, Rejection, Status
from pyscheduler.api.plugin import FilterPlugin
from pyscheduler.api.pod import Pod
from pyscheduler.api.reads import Reads
from pyscheduler.api.return_values import FILTER_RETURNS, InvalidReturnValue
from pyscheduler.core.framework.evaluation_counts import CountersByPlugin, EvaluationCounter
from pyscheduler.core.framework.plugin_calls import call_guarded
from pyscheduler.core.framework.plugin_failure import raise_plugin_failed
from pyscheduler.core.framework.profile import is_keyed, reads_of
from pyscheduler.core.framework.result_checks import check_statuses
from pyscheduler.core.framework.score_plugins import FEW, are_few
from pyscheduler.core.result_cache.invalidation import NODE, USAGE, Scope, invalidation_scopes
from pyscheduler.core.state.cluster import ClusterState
from pyscheduler.core.state.columns import copy_if_shared, grown, share
from pyscheduler.kernels import Rows

Codes = NDArray[np.int32]
SPARE_STATUSES = 1024
"""Statuses that a cache may have besides two for each node before it is dropped: most are out of use then."""
FITS = 0


def select_rows(rows: Rows | slice, mask: NDArray[np.bool_]) -> Rows | slice:
    """Return the rows that the mask selects, with one element per row of `rows`; a slice stands for all rows.

    A slice stays a slice if everything is selected: reading a slice of a column copies nothing.
    """
    everything = np.count_nonzero(mask) == len(mask)
    if not isinstance(rows, slice):
        return rows if everything else rows[mask]
    return rows if everything and len(mask) > FEW else np.flatnonzero(mask)


class RowFilter(NamedTuple):
    """A Filter plugin, with its place in their order and what makes its results stale."""

    place: int
    plugin: FilterPlugin
    evaluations: EvaluationCounter
    reads_usage: bool
    """True if pods that are added to a node make its result stale."""
    reads_all_nodes: bool
    """True if a change of any node makes all results stale."""
    has_key: bool
    """True if all results are stale once the cache key of the plugin has changed."""
    is_unlimited: bool
    """True if the results hold for no other attempt."""


def row_filters(plugins: Sequence[FilterPlugin], evaluations: CountersByPlugin) -> Sequence[RowFilter]:
    """Return the plugins in order, with what their declarations say."""
    return [_row_filter(i, plugin, evaluations[plugin.name]) for i, plugin in enumerate(plugins)]


def _row_filter(place: int, plugin: FilterPlugin, evaluations: EvaluationCounter) -> RowFilter:
    scopes = invalidation_scopes(plugin)
    has_key = scopes[USAGE] is Scope.EVERYWHERE or is_keyed(plugin)
    is_unlimited = plugin.reads_identity or reads_of(plugin) is Reads.EVERYTHING
    reads_usage, reads_all_nodes = scopes[USAGE] is Scope.ROWS, scopes[NODE] is Scope.EVERYWHERE
    return RowFilter(place, plugin, evaluations, reads_usage, reads_all_nodes, has_key, is_unlimited)


class RowFilters(Struct, eq=False):
    """First rejection of each row, for the pods that the plugins sign alike."""

    _state: ClusterState
    _plugins: Sequence[RowFilter]
    skipped: frozenset[str] | None = None
    """Names of the plugins that PreFilter skipped; None before the first attempt."""
    _active: Sequence[RowFilter] = ()
    """The other plugins."""
    _keyed: Sequence[RowFilter] = ()
    """Those of them with results that may become stale in all rows."""
    _usage_readers: Sequence[RowFilter] = ()
    """Active plugins that run again in rows where pods were added or removed."""
    _bases: dict[str, Hashable] = {}
    """What the results of plugins depend on besides their rows: the version of the nodes and their cache key."""
    _codes: Codes | None = None
    """First rejection of each row; None if the pod fits every row."""
    statuses: list[Status] = []
    """Statuses by code."""
    _places: list[int] = []
    """Place of the rejecting plugin by code."""
    _code_of: dict[tuple[int, Rejection], int] = {}
    _stale: set[str] = set()
    """Plugins without a valid result in any row."""
    _tally: Counter[Status] | None = None
    """Number of nodes by status; None if a code has changed since it was counted."""

    def __post_init__(self) -> None:
        self.invalidate_all()

    def invalidate_all(self) -> None:
        """Drop every result."""
        self._codes = self._tally = None
        self.statuses, self._places = [Status(Code.SUCCESS)], [len(self._plugins)]
        self._code_of = {}
        self._stale = {each.plugin.name for each in self._plugins}

    def copy(self) -> RowFilters:
        """Return the same results, which change independently; what a code stands for is shared."""
        twin = copy(self)
        twin._codes = None if self._codes is None else share(self._codes)
        twin._bases, twin._stale = {**self._bases}, {*self._stale}
        return twin

    @property
    def bytes(self) -> int:
        """Memory of the codes in bytes."""
        return 0 if self._codes is None else self._codes.nbytes

    @property
    def is_stable(self) -> bool:
        """True if results change only in rows where something happened."""
        return not self._keyed

    @property
    def all_fit(self) -> bool:
        """True if it is known without reading codes that the pod fits every row."""
        return self._codes is None

    @property
    def codes(self) -> Codes:
        """Code of each row."""
        return np.zeros(len(self._state), np.int32) if self._codes is None else self._codes

    def fits(self, row: int) -> bool:
        """Return True if no plugin rejects the row."""
        return self._codes is None or self._codes.item(row) == FITS

    def fitting(self, rows: Rows | slice) -> Mask:
        """Return the mask of these rows that no plugin rejects."""
        if self._codes is None:
            return np.ones(rows.stop if isinstance(rows, slice) else len(rows), np.bool_)
        return np.equal(self._codes[rows], FITS)

    def status(self, row: int) -> Status | None:
        """Return the status of a row; None if the pod fits."""
        return None if self.fits(row) else self.statuses[self.codes.item(row)]

    def tally(self) -> Counter[Status]:
        """Return the number of nodes per status."""
        if self._codes is None:
            return Counter()
        if self._tally is None:
            counts = enumerate(np.bincount(self._codes).tolist())
            self._tally = Counter({self.statuses[code]: count for code, count in counts if code and count})
        return self._tally.copy()

    # -- what is stale -----------------------------------------------------------------------------------------------

    def resize(self, n: int) -> None:
        """Adapt to `n` rows; new rows must be refreshed."""
        self._tally = None
        if self._codes is not None:
            self._codes = grown(self._codes, n) if n > len(self._codes) else self._codes[:n]

    def begin(self, cycle: Cycle, skipped: frozenset[str]) -> bool:
        """Start an attempt. Return True if the results of a plugin are stale in all rows."""
        if skipped is not self.skipped:
            self._activate(skipped)
        for each in self._keyed:
            name = each.plugin.name
            if not call_guarded(name, "Filter", self._is_same_basis, each, cycle):
                self._stale.add(name)
        return bool(self._stale)

    def _activate(self, skipped: frozenset[str]) -> None:
        before, self.skipped = self.skipped, skipped
        if skipped == before:
            return
        names = {each.plugin.name for each in self._plugins}
        changed = names if before is None else names & (skipped ^ before)
        if changed:
            self._stale |= changed
            self._active = [each for each in self._plugins if each.plugin.name not in skipped]
            self._keyed = [each for each in self._active if each.has_key or each.reads_all_nodes]
            self._usage_readers = [each for each in self._active if each.reads_usage]

    def _is_same_basis(self, each: RowFilter, cycle: Cycle) -> bool:
        before, basis = self._bases.get(each.plugin.name), self._basis(each, cycle)
        self._bases[each.plugin.name] = basis
        return basis is not None and bool(basis == before)

    def _basis(self, each: RowFilter, cycle: Cycle) -> Hashable | None:
        """Return what all results of the plugin depend on; None if it has to run on all rows."""
        if each.is_unlimited:
            return None
        key = each.plugin.filter_cache_key(cycle) if each.has_key else ()
        return None if key is None else (self._state.nodes_version if each.reads_all_nodes else 0, key)

    def invalidate_plugins(self, plugins: frozenset[str]) -> None:
        """Invalidate all results of some plugins; those of skipped ones are not in use."""
        self._stale |= {each.plugin.name for each in self._active} & plugins

    # -- refresh -----------------------------------------------------------------------------------------------------

    @property
    def usage_readers(self) -> Sequence[RowFilter]:
        """The active plugins that read the pods on nodes, without those that are stale in all rows."""
        if not self._stale:
            return self._usage_readers
        return [each for each in self._usage_readers if each.plugin.name not in self._stale]

    def node_readers(self, plugins: frozenset[str]) -> Sequence[RowFilter]:
        """Return the active ones of these plugins, without those that are stale in all rows."""
        valid = plugins - self._stale
        return [each for each in self._active if each.plugin.name in valid]

    def refresh_row(self, cycle: Cycle, pod: Pod, row: int, readers: Sequence[RowFilter]) -> bool:
        """Update a row after a change there that these plugins read. Return True if the pod fits."""
        before = FITS if self._codes is None else self._codes.item(row)
        code, known, node = FITS, self._places[before], self._state.rows[row]
        for each in readers if before == FITS else self._active:
            if each.place <= known and each not in readers:
                if each.place == known:
                    code = before
                    break
                continue
            each.evaluations.n += 1
            rejection = run_filter(each.plugin, cycle, pod, node)
            if rejection is not None:
                code = self._code(each, rejection)
                break
        if code != before:
            self._set_code(row, code)
        return code == FITS

    def _set_code(self, row: int, code: int) -> None:
        self._writable_codes()[row] = code
        self._tally = None

    def refresh_all(self, cycle: Cycle, pod: Pod) -> None:
        """Update the results of stale plugins in all rows."""
        self.refresh_rows(
            cycle, pod, slice(0, len(self._state)), [each for each in self._active if each.plugin.name in self._stale]
        )
        self._stale = set()

    def refresh_rows(self, cycle: Cycle, pod: Pod, rows: Rows | slice, stale: Sequence[RowFilter]) -> None:
        """Run the stale plugins on rows where the ones before accept the pod, the others where they have not run."""
        before = None if self._codes is None else self._codes[rows]
        known = None if before is None else np.array(self._places).take(before)
        first = len(self._plugins) if known is None or not known.size else int(known[known.argmin()])
        now: Codes | None = None  # rejections so far; None if there is none
        left: Mask | None = None  # rows without one; None for all
        for each in stale if known is None else self._active:
            due = left
            if known is not None and before is not None and each not in stale:
                if each.place < first:
                    continue
                rejected = _both(left, known == each.place)
                if np.count_nonzero(rejected):
                    now = np.where(rejected, before, np.int32(FITS) if now is None else now)
                    left = now == FITS
                due = _both(left, known < each.place)
            codes = self._run(cycle, pod, each, rows if due is None else select_rows(rows, due))
            if codes is not None:
                now = codes if due is None else _replaced(now, due, codes)
                left = now == FITS
        self._store(rows, now)

    def _store(self, rows: Rows | slice, now: Codes | None) -> None:
        """Store the codes of some rows; None if the pod fits all of them."""
        self._tally = None
        if now is not None:
            self._writable_codes()[rows] = now
        elif self._codes is not None:
            self._writable_codes()[rows] = FITS
            if not np.count_nonzero(self._codes):
                self._codes = None

    def _run(self, cycle: Cycle, pod: Pod, each: RowFilter, rows: Rows | slice) -> Codes | None:
        """Return the codes of a plugin for some rows; None if it accepts the pod on all of them."""
        all_nodes, plugin = self._state.rows, each.plugin
        nodes = all_nodes if isinstance(rows, slice) else rows
        each.evaluations.n += len(nodes)
        if are_few(nodes):
            few = all_nodes if isinstance(rows, slice) else [all_nodes[row] for row in rows.tolist()]
            results = [run_filter(plugin, cycle, pod, node) for node in few]
            if not any(results):
                return None
            return np.array([FITS if result is None else self._code(each, result) for result in results], np.int32)
        verdicts = run_filter_on_table(plugin, cycle, pod, self._state.table(None if isinstance(rows, slice) else rows))
        if not verdicts.rejections:
            return None
        return np.array([FITS, *(self._code(each, rejection) for rejection in verdicts.rejections)], np.int32).take(
            verdicts.codes
        )

    def _writable_codes(self) -> Codes:
        self._codes = np.zeros(len(self._state), np.int32) if self._codes is None else copy_if_shared(self._codes)
        return self._codes

    def _code(self, each: RowFilter, rejection: Rejection) -> int:
        key = (each.place, rejection)
        code = self._code_of.get(key)
        if code is None:
            code = self._code_of[key] = len(self.statuses)
            self.statuses.append(Status.of(each.plugin.name, rejection))
            self._places.append(each.place)
        return code


def _both(some: Mask | None, others: Mask) -> Mask:
    return others if some is None else some & others


def _replaced(codes: Codes | None, due: Mask, replacement: Codes) -> Codes:
    """Return the codes with those of the due rows replaced; without codes the pod fits the other rows."""
    replaced = np.zeros(len(due), np.int32) if codes is None else codes.copy()
    replaced[due] = replacement
    return replaced


def run_filter(plugin: FilterPlugin, cycle: Cycle, pod: Pod, node: NodeInfo) -> Rejection | None:
    """Return the plugin's result for one node. PluginFailed if it fails."""
    try:
        observer = cycle.call_observer
        if observer is None:
            answer = plugin.filter(cycle, pod, node)
        else:
            answer = observer(plugin.name, "Filter", plugin.filter, cycle, pod, node)
        if answer is not None and not isinstance(answer, Rejection):
            raise InvalidReturnValue(plugin.filter, answer, FILTER_RETURNS)
        return answer
    except BaseException as error:
        raise_plugin_failed(plugin.name, "Filter", error)


def run_filter_on_table(plugin: FilterPlugin, cycle: Cycle, pod: Pod, table: NodeTable) -> NodeToStatus:
    """Return the plugin's results for many nodes. PluginFailed if it fails."""
    try:
        observer = cycle.call_observer
        if observer is None:
            verdicts = plugin.filter_all(cycle, pod, table)
        else:
            verdicts = observer(plugin.name, "Filter", plugin.filter_all, cycle, pod, table)
        if cycle.timer is not None:
            cycle.check_time(plugin.name, "Filter")
        check_statuses(plugin.filter_all, verdicts, len(table))
    except BaseException as error:
        raise_plugin_failed(plugin.name, "Filter", error)
    return verdicts
