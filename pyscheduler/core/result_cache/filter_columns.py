"""Filter results by row, cached per plugin and node and recomputed only after a change.

Each plugin has a column of codes: 0 fits, a positive code is an index into the statuses, STALE is unknown. Plugins run
on a node one after the other until one rejects it, as in kube-scheduler, so a plugin's result for a node that an
earlier plugin rejects stays STALE until it is needed. Few rows are evaluated by `filter`, many by the vectorised
`filter_all`.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Hashable, Iterable, Sequence, Sized
from typing import Never, Self, TypeVar

import numpy as np
from numpy.typing import NDArray

from pyscheduler.api.cycle import Cycle
from pyscheduler.api.nodes import NodeInfo, NodeTable
from pyscheduler.api.outcome import Code, NodeToStatus, Rejection, Status
from pyscheduler.api.plugin import FilterPlugin
from pyscheduler.api.pod import Pod
from pyscheduler.api.return_values import FILTER_RETURNS, InvalidReturnValue
from pyscheduler.core.framework.evaluation_counts import CountersByPlugin, EvaluationCounter
from pyscheduler.core.framework.plugin_calls import call_guarded
from pyscheduler.core.framework.plugin_failure import raise_plugin_failed
from pyscheduler.core.framework.profile import is_keyed
from pyscheduler.core.framework.result_checks import check_statuses
from pyscheduler.core.result_cache.invalidation import (
    ATTEMPT,
    CHANGES,
    NODE,
    USAGE,
    CachedColumn,
    Change,
    DirtyRows,
    Scope,
)
from pyscheduler.core.state.cluster import ClusterState
from pyscheduler.core.state.columns import assign, grown
from pyscheduler.kernels import Rows

Codes = NDArray[np.int32]
_SPARE_STATUSES = 1024
STALE = -1
NO_ROWS: Rows = np.zeros(0, np.intp)
FITS = 0
FEW = 6
"""Up to this number of rows, per-node calls are faster than the fixed cost of a vectorised call; see `are_few`."""
NO_COLUMNS_BY_CHANGE: Sequence[Sequence[Never]] = [() for _ in CHANGES]
"""Empty initial value of `columns_by_change`; columns of pods that name their node mostly stay empty."""


_Basis = tuple[int, Hashable]
"""Version of the nodes, if any change of a node makes all results stale, and the plugin's cache key."""


class FilterColumn(CachedColumn):
    """One Filter plugin and its results for all nodes.

    Most plugins accept most pods everywhere, so the codes are stored only if the pod does not fit every node.
    """

    __slots__ = ("_codes", "_size", "all_fit", "basis", "evaluations", "is_keyed", "plugin", "unverified_rows")

    def __init__(self, plugin: FilterPlugin, n: int, evaluations: EvaluationCounter) -> None:
        super().__init__(plugin)
        self.plugin = plugin
        self.evaluations = evaluations
        self._size = n
        self._codes: Codes | None = None
        self.all_fit = False
        """True if every row's code is FITS except for `unverified_rows`."""
        self.unverified_rows: list[int] = []
        self.is_keyed = self.is_volatile or is_keyed(plugin)
        """True if the codes are valid only while `basis` is unchanged."""
        self.basis: _Basis | None = None
        """Cache key of the codes; None if there is none, so that they are stale at every attempt."""

    @property
    def bytes(self) -> int:
        """Memory of the column in bytes."""
        return 0 if self._codes is None else self._codes.nbytes

    def copy(self) -> Self:
        twin = super().copy()
        twin.unverified_rows = [*self.unverified_rows]
        if self._codes is not None:
            twin._codes = self._codes.copy()
        return twin

    def invalidate(self, change: Change, rows: DirtyRows) -> bool:
        if change is USAGE and self.is_volatile and self.basis is not None:
            return False  # `FilterColumns.invalidate_keyed` compares the bases
        return super().invalidate(change, rows)

    def invalidate_rows(self, rows: DirtyRows) -> None:
        if self.all_fit and len(rows) <= FEW and len(self.unverified_rows) <= FEW:
            self.unverified_rows.extend(rows)
        else:
            assign(self.codes(), rows, STALE)

    def resize(self, n: int) -> None:
        """Extend the column to `n` rows; new rows are STALE."""
        if n > self._size:
            size = max(n, 2 * self._size)
            if not self.all_stale:
                self._codes = grown(self.codes(), size, STALE)
            self._size = size

    def codes(self) -> Codes:
        """Return the codes for reading and writing, STALE where they are not valid."""
        codes = self._codes
        if codes is None or self.all_stale:
            codes = self._codes = np.full(self._size, STALE if self.all_stale else FITS, np.int32)
            if not self.all_stale:
                codes[self.unverified_rows] = STALE
        self.all_stale = self.all_fit = False
        return codes

    def mark_all_fit(self) -> None:
        """Mark every row as evaluated, with the result that the pod fits."""
        self.all_stale, self.all_fit, self._codes = False, True, None
        self.unverified_rows.clear()


class FilterColumns:
    """Results of the Filter plugins that are evaluated by row, for all nodes and the pods that they sign alike."""

    def __init__(self, state: ClusterState, plugins: tuple[FilterPlugin, ...], evaluations: CountersByPlugin) -> None:
        self._state = state
        self._plugins = plugins
        self._evaluations = evaluations
        self._columns: dict[str, FilterColumn] = {}
        self._active: list[FilterColumn] = []
        self._columns_by_change: Sequence[Sequence[FilterColumn]] = NO_COLUMNS_BY_CHANGE
        self._names = frozenset(plugin.name for plugin in plugins)
        self.skipped: frozenset[str] | None = None
        """Names of the plugins that PreFilter skipped; None before the first call of `activate`."""
        self.keyed: list[FilterColumn] = []
        """Active columns with cache keys."""
        self.reads_own_node = True
        """True if a changed node object changes results only in its row."""
        self._size = 0
        self._first: Codes | None = None
        self._tally: dict[Status, int] | None = None
        """Number of nodes per status; None if a code has changed since it was counted."""
        self.statuses: list[Status] = [Status(Code.SUCCESS)]
        self._code_by_rejection: dict[tuple[str, Rejection], int] = {}

    def copy(self) -> FilterColumns:
        """Return columns with the same results, which change independently."""
        twin = FilterColumns(self._state, self._plugins, self._evaluations)
        twin.skipped, twin._size, twin._tally = self.skipped, self._size, self._tally
        twin._first = None if self._first is None else self._first.copy()
        twin.statuses, twin._code_by_rejection = [*self.statuses], {**self._code_by_rejection}
        twin._set_active([column.copy() for column in self._active])
        twin._columns = {column.plugin.name: column for column in twin._active}
        return twin

    @property
    def is_stable(self) -> bool:
        """True if results change only in rows where something happened."""
        return not self.keyed

    @property
    def bytes(self) -> int:
        """Memory of the columns in bytes."""
        first = 0 if self._first is None else self._first.nbytes
        return first + sum(column.bytes for column in self._columns.values())

    @property
    def first(self) -> Codes:
        """Code of the first rejection per row, 0 if the pod fits; stored only once the pod has not fitted some row."""
        if self._first is None:
            self._first = np.zeros(self._size, np.int32)
        return self._first

    def fits(self, row: int) -> bool:
        """Return True if no plugin rejects the row."""
        return self._first is None or self._first.item(row) == FITS

    def fitting(self, rows: Rows | slice) -> NDArray[np.bool_]:
        """Return the mask of these rows that no plugin rejects."""
        if self._first is None:
            return np.ones(rows.stop if isinstance(rows, slice) else len(rows), np.bool_)
        return np.equal(self._first[rows], FITS)

    def activate(self, skipped: frozenset[str]) -> bool:
        """Leave out the plugins that PreFilter skipped. Return True if others are left out than before."""
        before, self.skipped = self.skipped, skipped
        if before is not None and skipped & self._names == before & self._names:
            return False
        active = [self._column(p) for p in self._plugins if p.name not in skipped]
        for column in active:
            column.all_stale |= column not in self._active  # columns of skipped plugins are not invalidated
        self._set_active(active)
        return True

    def _set_active(self, columns: list[FilterColumn]) -> None:
        self._active = columns
        self._columns_by_change = columns_by_change(columns)
        self.keyed = [column for column in columns if column.is_keyed]
        self.reads_own_node = not any(column.reach[NODE] is Scope.EVERYWHERE for column in columns)

    def resize(self, n: int) -> None:
        """Extend the columns to `n` rows; new rows are STALE."""
        self._tally = None
        if n > self._size:
            self._size = max(n, 2 * self._size)
            self._first = None if self._first is None else grown(self._first, self._size)
        for column in self._columns.values():
            column.resize(n)

    def invalidate(self, change: Change, rows: DirtyRows) -> bool:
        """Invalidate the results that the change makes stale. Return True if that extends beyond `rows`."""
        everywhere = False
        for column in self._columns_by_change[change]:
            everywhere |= column.invalidate(change, rows)
        return everywhere

    @property
    def has_too_many_statuses(self) -> bool:
        """True if there are so many statuses that most must be out of use."""
        return len(self.statuses) > 2 * len(self._state) + _SPARE_STATUSES

    def invalidate_all(self) -> None:
        """Invalidate every result."""
        for column in self._columns.values():
            column.all_stale = True
        self._tally = None
        del self.statuses[1:]
        self._code_by_rejection.clear()

    def invalidate_plugins(self, plugins: frozenset[str]) -> bool:
        """Invalidate all results of some plugins. Return True if one of them is active for the current pod."""
        columns = [column for column in self._columns.values() if column.plugin.name in plugins]
        for column in columns:
            column.all_stale = True
        return any(column in self._active for column in columns)

    def invalidate_keyed(self, cycle: Cycle) -> bool:
        """Invalidate results with changed cache keys. Return True if the results of a plugin are stale for all nodes.

        Call it once before a refresh: it updates the basis of every such column.
        """
        changed = False
        for column in self.keyed:
            same = call_guarded(column.plugin.name, "Filter", self._update_basis, column, cycle)
            if column.all_stale or not same:
                changed = True
                column.all_stale |= column.basis is not None  # without a basis, `invalidate` does it after changes
        return changed

    def _update_basis(self, column: FilterColumn, cycle: Cycle) -> bool:
        """Return True if the basis is unchanged."""
        before, column.basis = column.basis, self._basis(column, cycle)
        return before is not None and bool(before == column.basis)

    def _basis(self, column: FilterColumn, cycle: Cycle) -> _Basis | None:
        if column.reach[ATTEMPT] is not Scope.NOWHERE:
            return None
        key = column.plugin.filter_cache_key(cycle)
        version = self._state.nodes_version if column.reach[NODE] is Scope.EVERYWHERE else 0
        return None if key is None else (version, key)

    def still_fits(self, cycle: Cycle, pod: Pod, rows: DirtyRows, change: Change) -> bool:
        """Return True if the pod still fits rows that it fitted before a change there.

        False means that the rows must be refreshed.
        """
        nodes = self._state.rows
        for column in self._columns_by_change[change]:
            if column.is_volatile:
                continue
            if column.all_stale:
                return False
            if not isinstance(rows, list):
                if self._verdicts(cycle, pod, column, rows).rejections:
                    return False
                continue
            for row in rows:
                column.evaluations.n += 1
                if run_filter(column.plugin, cycle, pod, nodes[row]) is not None:
                    return False
        return True

    def refresh_row(self, cycle: Cycle, pod: Pod, row: int) -> bool:
        """Update one row with per-node calls. Return True if the pod fits there."""
        for column in self._active:
            if column.all_fit and not column.all_stale and row not in column.unverified_rows:
                continue  # the usual case, without a call
            code = self._refresh_cell(cycle, pod, column, row)
            if code:
                self._set_first(row, code)
                return False
        if self._first is not None:
            self._set_first(row, FITS)
        return True

    def _set_first(self, row: int, code: int) -> None:
        first = self.first
        if first.item(row) != code:
            first[row] = code
            self._tally = None

    def _refresh_cell(self, cycle: Cycle, pod: Pod, column: FilterColumn, row: int) -> int:
        """Return the code of one row, evaluated if it is STALE."""
        if column.all_fit and not column.all_stale:
            rejection = self._run_filter(cycle, pod, column, row)
            if rejection is None:
                column.unverified_rows = [other for other in column.unverified_rows if other != row]
                return FITS
            code = self._code(column.plugin, rejection)
            column.codes()[row] = code
            return code
        code = int(column.codes()[row])
        return self._evaluate_row(cycle, pod, column, row) if code == STALE else code

    def refresh(self, cycle: Cycle, pod: Pod, rows: Rows | slice) -> bool:
        """Update many rows, running each plugin only where the ones before it accepted the pod.

        Return True if the pod fits all of them; False if it may not.
        """
        self._tally = None
        if isinstance(rows, slice):
            self._first = None
        elif self._first is not None:
            self._first[rows] = FITS
        accepted = rows
        for column in self._active:
            if not self._accepts_all(cycle, pod, column, accepted is rows):
                accepted = self._refresh_column(cycle, pod, column, accepted)
        return accepted is rows

    def _accepts_all(self, cycle: Cycle, pod: Pod, column: FilterColumn, may_run: bool) -> bool:
        """Return True if the plugin accepts the pod on every row, after its unverified rows have been evaluated.

        `may_run`: no earlier plugin rejected a row, so this plugin may run.
        """
        if column.all_stale or not column.all_fit:
            return False
        if not may_run:
            return not column.unverified_rows
        for row in column.unverified_rows:
            if row < len(self._state) and self._run_filter(cycle, pod, column, row) is not None:
                return False
        column.unverified_rows.clear()
        return True

    def _refresh_column(self, cycle: Cycle, pod: Pod, column: FilterColumn, rows: Rows | slice) -> Rows | slice:
        """Update one column. Return the rows that the plugin accepts, `rows` itself if it accepts all."""
        all_rows = isinstance(rows, slice)
        if all_rows and column.all_stale:
            verdicts = self._verdicts(cycle, pod, column, rows)
            if not verdicts.rejections:
                column.mark_all_fit()
                return rows
            self._store(column, rows, verdicts)
        else:
            stale = column.codes()[rows] == STALE
            if np.count_nonzero(stale):
                self._evaluate(cycle, pod, column, select_rows(rows, stale))
        codes = column.codes()[rows]
        rejected = codes != FITS
        if not np.count_nonzero(rejected):
            if all_rows:
                column.mark_all_fit()
            return rows
        self.first[rows] = codes  # no earlier plugin rejected any of them
        return select_rows(rows, ~rejected)

    def tally(self, n: int) -> Counter[Status]:
        """Return the number of nodes per status among the first `n`."""
        if self._first is None:
            return Counter()
        if self._tally is None:
            counts = np.bincount(self._first[:n]).tolist()
            self._tally = {self.statuses[code]: count for code, count in enumerate(counts) if code and count}
        return Counter(self._tally)

    def status(self, row: int) -> Status | None:
        """Return the status of a row; None if the pod fits."""
        return None if self.fits(row) else self.statuses[int(self.first[row])]

    def _column(self, plugin: FilterPlugin) -> FilterColumn:
        column = self._columns.get(plugin.name)
        if column is None:
            column = self._columns[plugin.name] = FilterColumn(plugin, self._size, self._evaluations[plugin.name])
        return column

    def _evaluate_row(self, cycle: Cycle, pod: Pod, column: FilterColumn, row: int) -> int:
        rejection = self._run_filter(cycle, pod, column, row)
        code = FITS if rejection is None else self._code(column.plugin, rejection)
        column.codes()[row] = code
        return code

    def _run_filter(self, cycle: Cycle, pod: Pod, column: FilterColumn, row: int) -> Rejection | None:
        column.evaluations.n += 1
        return run_filter(column.plugin, cycle, pod, self._state.rows[row])

    def _evaluate(self, cycle: Cycle, pod: Pod, column: FilterColumn, rows: Rows | slice) -> None:
        """Run the plugin on some rows."""
        if not isinstance(rows, slice) and are_few(rows):
            for row in rows.tolist():
                self._evaluate_row(cycle, pod, column, row)
        else:
            self._store(column, rows, self._verdicts(cycle, pod, column, rows))

    def _store(self, column: FilterColumn, rows: Rows | slice, verdicts: NodeToStatus) -> None:
        codes = [FITS, *(self._code(column.plugin, rejection) for rejection in verdicts.rejections)]
        column.codes()[rows] = FITS if len(codes) == 1 else np.array(codes, np.int32).take(verdicts.codes)

    def _verdicts(self, cycle: Cycle, pod: Pod, column: FilterColumn, rows: Rows | slice) -> NodeToStatus:
        """Return the results of the plugin's vectorised method for many rows."""
        table = self._state.table(None if isinstance(rows, slice) else rows)
        column.evaluations.n += len(table)
        return run_filter_on_table(column.plugin, cycle, pod, table)

    def _code(self, plugin: FilterPlugin, rejection: Rejection) -> int:
        key = (plugin.name, rejection)
        code = self._code_by_rejection.get(key)
        if code is None:
            code = self._code_by_rejection[key] = len(self.statuses)
            self.statuses.append(Status.of(plugin.name, rejection))
        return code


C = TypeVar("C", bound=CachedColumn)


def columns_by_change(columns: Iterable[C]) -> list[list[C]]:
    """Return the columns affected by each kind of change, indexed by `Change`."""
    all_columns = list(columns)
    return [[column for column in all_columns if column.reach[change] is not Scope.NOWHERE] for change in CHANGES]


def are_few(rows: Sized) -> bool:
    """Return True if per-node calls should evaluate these rows."""
    return len(rows) <= FEW


def select_rows(rows: Rows | slice, mask: NDArray[np.bool_]) -> Rows | slice:
    """Return the rows that the mask selects, with one element per row of `rows`; a slice stands for all rows.

    A slice stays a slice if everything is selected: reading a slice of a column copies nothing.
    """
    everything = np.count_nonzero(mask) == len(mask)
    if not isinstance(rows, slice):
        return rows if everything else rows[mask]
    return rows if everything and len(mask) > FEW else np.flatnonzero(mask)


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
