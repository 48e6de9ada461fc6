"""Filter answers for one pod signature, kept per plugin and node and recomputed only where something changed.

Each plugin has a column of codes: 0 fits, a positive code is a status from a table, STALE is not known (any more). A
node is asked plugin by plugin until one says no, as kube-scheduler does, so a plugin's answer for a node that an
earlier plugin rejects stays STALE until it is needed. Few rows are answered by the plain form, many by the NumPy form.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Hashable, Iterable, Sequence, Sized
from typing import Never, TypeVar

import numpy as np
from numpy.typing import NDArray

from pyscheduler.api.cycle import Cycle
from pyscheduler.api.nodes import NodeInfo, NodeTable
from pyscheduler.api.outcome import Code, NodeToStatus, Rejection, Status
from pyscheduler.api.plugin import FilterPlugin
from pyscheduler.api.pod import Pod
from pyscheduler.api.return_values import FILTER_RETURNS, InvalidReturnValue
from pyscheduler.core.decide.invalidation import ATTEMPT, CHANGES, USAGE, CachedColumn, Change, DirtyRows, Scope
from pyscheduler.core.framework.evaluation_counts import CountersByPlugin, EvaluationCounter
from pyscheduler.core.framework.plugin_calls import call_guarded, call_plugin
from pyscheduler.core.framework.plugin_failure import raise_plugin_failed
from pyscheduler.core.framework.result_checks import check_verdicts
from pyscheduler.core.state.cluster import ClusterState
from pyscheduler.core.state.columns import grown
from pyscheduler.kernels import Rows

Codes = NDArray[np.int32]
_SPARE_STATUSES = 1024
STALE = -1
_NO_CODES: Codes = np.zeros(0, np.int32)
FITS = 0
FEW = 6
"""Up to so many rows the plain form is quicker than the NumPy form's fixed cost; read it through `are_few`."""
NO_COLUMNS_BY_CHANGE: Sequence[Sequence[Never]] = [() for _ in CHANGES]
"""The columns that each kind of change reaches, where there are none yet: most pods that name their node stay so."""


class FilterColumn(CachedColumn):
    """One Filter plugin and what it said of every node."""

    __slots__ = ("all_fit", "basis", "codes", "evaluations", "plugin", "unverified_rows")

    def __init__(self, plugin: FilterPlugin, n: int, evaluations: EvaluationCounter) -> None:
        super().__init__(plugin)
        self.plugin = plugin
        self.evaluations = evaluations
        self.codes: Codes = np.full(n, STALE, np.int32)
        self.all_fit = False
        """Whether every row's code is known to be FITS, but for `doubtful` ones: so most plugins answer most pods."""
        self.unverified_rows: list[int] = []
        self.basis: Hashable | None = None
        """What the codes of a plugin that moves rest on; None if they must be asked for again."""

    def invalidate_rows(self, rows: DirtyRows) -> None:
        self.codes[rows] = STALE
        if self.all_fit:
            self.all_fit = are_few(rows) and are_few(self.unverified_rows)
            if self.all_fit:
                self.unverified_rows.extend(rows)

    def resize(self, n: int) -> None:
        """Make room for `n` rows; what is new is STALE."""
        self.all_fit, self.basis = False, None
        if n > len(self.codes):
            self.codes = grown(self.codes, max(n, 2 * len(self.codes)), STALE)

    def fits(self, row: int) -> bool:
        """Whether the row's code is known to be FITS without a look at it."""
        return self.all_fit and not self.all_stale and row not in self.unverified_rows

    def writable_codes(self) -> Codes:
        """The codes to be written to: STALE where nothing holds."""
        if self.all_stale:
            self.codes.fill(STALE)
            self.all_stale = self.all_fit = False
            self.basis = None
        return self.codes

    def mark_fresh(self, all_fit: bool) -> None:
        """Every row has been answered."""
        self.all_stale, self.all_fit = False, all_fit
        self.unverified_rows.clear()


class FilterColumns:
    """What every Filter plugin of a profile says of every node, for one pod signature."""

    def __init__(self, state: ClusterState, plugins: tuple[FilterPlugin, ...], evaluations: CountersByPlugin) -> None:
        self._state = state
        self._plugins = plugins
        self._evaluations = evaluations
        self._columns: dict[str, FilterColumn] = {}
        self._active: list[FilterColumn] = []
        self._columns_by_change: Sequence[Sequence[FilterColumn]] = NO_COLUMNS_BY_CHANGE
        self._skipped: frozenset[str] | None = None
        self.is_stable = True
        """Whether no plugin's answers change but in rows where something happened."""
        self.first: Codes = _NO_CODES
        """Per row: 0 if the pod fits, else the code of the first status in the way."""
        self.statuses: list[Status] = [Status(Code.SUCCESS)]
        self._known: dict[tuple[str, Rejection], int] = {}

    @property
    def bytes(self) -> int:
        """Memory of the columns."""
        return self.first.nbytes * (1 + len(self._columns))

    def activate(self, skipped: frozenset[str]) -> bool:
        """Leave the plugins out that PreFilter skipped; whether that is another set than last time."""
        if self.is_skipping(skipped):
            return False
        self._skipped = skipped
        before = self._active
        self._active = [self._column(p) for p in self._plugins if p.name not in skipped]
        for column in self._active:
            column.all_stale |= column not in before  # while it was left out, nobody told it of changes
        self._columns_by_change = columns_by_change(self._active)
        self.is_stable = not any(column.is_volatile for column in self._active)
        return True

    def is_skipping(self, skipped: frozenset[str]) -> bool:
        """Whether just these plugins are left out now."""
        return skipped is self._skipped or skipped == self._skipped

    def resize(self, n: int) -> None:
        """Make room for `n` rows; what is new is STALE."""
        if n > len(self.first):
            self.first = grown(self.first, max(n, 2 * len(self.first)), STALE)
        for column in self._columns.values():
            column.resize(n)

    def invalidate(self, change: Change, rows: DirtyRows) -> bool:
        """Drop the answers that the change makes stale; whether that goes beyond `rows`."""
        everywhere = False
        for column in self._columns_by_change[change]:
            everywhere |= column.invalidate(change, rows)
        return everywhere

    @property
    def has_too_many_statuses(self) -> bool:
        """Whether so many statuses have been given that most must be out of use."""
        return len(self.statuses) > 2 * len(self._state) + _SPARE_STATUSES

    def invalidate_all(self) -> None:
        """Drop every answer."""
        for column in self._columns.values():
            column.all_stale, column.basis = True, None
        del self.statuses[1:]
        self._known.clear()

    def invalidate_plugins(self, plugins: frozenset[str]) -> bool:
        """Drop every answer of some plugins; whether one of them is asked for the pod at hand."""
        columns = [column for column in self._columns.values() if column.plugin.name in plugins]
        for column in columns:
            column.all_stale, column.basis = True, None
        return any(column in self._active for column in columns)

    def is_unchanged(self, cycle: Cycle) -> bool:
        """Whether the answers of all plugins that move are what they were: each rests on the same as before."""
        moving = (column for column in self._active if column.is_volatile)
        return all(
            call_guarded(column.plugin.name, "Filter", self._is_basis_unchanged, column, cycle) for column in moving
        )

    def _is_basis_unchanged(self, column: FilterColumn, cycle: Cycle) -> bool:
        basis = self._basis(column, cycle)
        return basis is not None and bool(basis == column.basis)

    def _basis(self, column: FilterColumn, cycle: Cycle) -> Hashable | None:
        if column.reach[ATTEMPT] is not Scope.NOWHERE:
            return None
        basis = column.plugin.filter_cache_key(cycle)
        return None if basis is None else (self._state.nodes_version, basis)

    def was_feasible(self, rows: DirtyRows) -> bool:
        """Whether the pod fitted all of some rows."""
        first = self.first
        return not (any(first[row] for row in rows) if isinstance(rows, list) else np.count_nonzero(first[rows]))

    def still_fits(self, cycle: Cycle, pod: Pod, rows: DirtyRows) -> bool:
        """Whether the pod still fits rows that it fitted, now that pods have come or gone there; False: settle them."""
        for column in self._columns_by_change[USAGE]:
            if not column.is_volatile and (column.all_stale or not self._accepts(cycle, pod, column, rows)):
                return False
        return True

    def _accepts(self, cycle: Cycle, pod: Pod, column: FilterColumn, rows: DirtyRows) -> bool:
        """Whether one plugin lets the pod in everywhere; what it said is not kept."""
        if isinstance(rows, list):
            column.evaluations.n += len(rows)
            refused = [row for row in rows if run_filter(column.plugin, cycle, pod, self._state.rows[row]) is not None]
            return not refused
        return not self._verdicts(cycle, pod, column, rows).rejections

    def refresh_row(self, cycle: Cycle, pod: Pod, row: int) -> bool:
        """Bring one row up to date by the plain form; whether the pod fits there."""
        for column in self._active:
            if column.fits(row):
                continue
            code = int(column.writable_codes()[row])
            if code == STALE:
                code = self._ask_row(cycle, pod, column, row)
            if code:
                self.first[row] = code
                return False
        self.first[row] = FITS
        return True

    def refresh(self, cycle: Cycle, pod: Pod, rows: Rows | slice) -> bool:
        """Bring many rows up to date, each plugin only where the ones before it let the pod through.

        Whether it is known without looking that the pod fits all of them.
        """
        self.first[rows] = FITS
        left = rows
        for column in self._active:
            if not self._accepts_all(cycle, pod, column, left is rows):
                left = self._refresh_column(cycle, pod, column, left)
        return left is rows

    def _accepts_all(self, cycle: Cycle, pod: Pod, column: FilterColumn, may_ask: bool) -> bool:
        """Whether the column lets the pod through everywhere, once the few rows have been asked that are in doubt.

        `may_ask`: no earlier plugin has refused any, so that this one may be asked.
        """
        if column.all_stale or not column.all_fit:
            return False
        if not may_ask:
            return not column.unverified_rows
        doubtful, column.unverified_rows = column.unverified_rows, []
        return all(self._ask_row(cycle, pod, column, row) == FITS for row in doubtful if row < len(self._state))

    def _refresh_column(self, cycle: Cycle, pod: Pod, column: FilterColumn, rows: Rows | slice) -> Rows | slice:
        """Bring one column up to date; the rows that it lets the pod through to, `rows` itself where it is all."""
        everywhere = isinstance(rows, slice)
        if everywhere and column.all_stale:
            column.basis = call_guarded(column.plugin.name, "Filter", self._basis, column, cycle)
            if not self._ask(cycle, pod, column, rows):
                column.mark_fresh(all_fit=True)
                return rows
        else:
            stale = column.writable_codes()[rows] == STALE
            if np.count_nonzero(stale):
                self._ask(cycle, pod, column, select_rows(rows, stale))
        codes = column.codes[rows]
        refused = codes != FITS
        all_fit = not np.count_nonzero(refused)
        if everywhere:
            column.mark_fresh(all_fit)
        if all_fit:
            return rows
        self.first[rows] = codes  # no earlier plugin refused any of them
        return select_rows(rows, ~refused)

    def tally(self, n: int) -> Counter[Status]:
        """How many of the first `n` nodes were refused with each status."""
        counts = np.bincount(self.first[:n], minlength=1)
        return Counter({self.statuses[code]: int(c) for code, c in enumerate(counts) if code and c})

    def status(self, row: int) -> Status | None:
        """The status of one row; None if the pod fits."""
        code = int(self.first[row])
        return self.statuses[code] if code else None

    def status_codes(self, n: int) -> NDArray[np.int64]:
        """The code of the status of each of the first `n` nodes."""
        return np.array([status.code for status in self.statuses], np.int64)[self.first[:n]]

    def _column(self, plugin: FilterPlugin) -> FilterColumn:
        column = self._columns.get(plugin.name)
        if column is None:
            column = self._columns[plugin.name] = FilterColumn(plugin, len(self.first), self._evaluations[plugin.name])
        return column

    def _ask_row(self, cycle: Cycle, pod: Pod, column: FilterColumn, row: int) -> int:
        column.evaluations.n += 1
        rejection = run_filter(column.plugin, cycle, pod, self._state.rows[row])
        code = FITS if rejection is None else self._code(column.plugin, rejection)
        column.writable_codes()[row] = code
        column.all_fit &= code == FITS
        return code

    def _ask(self, cycle: Cycle, pod: Pod, column: FilterColumn, rows: Rows | slice) -> bool:
        """Ask the plugin of some rows; whether it may have refused any."""
        if not isinstance(rows, slice) and are_few(rows):
            codes = [self._ask_row(cycle, pod, column, row) for row in rows.tolist()]
            return any(codes)
        verdicts = self._verdicts(cycle, pod, column, rows)
        if not verdicts.rejections:
            column.codes[rows] = FITS
            return False
        known = [FITS, *(self._code(column.plugin, rejection) for rejection in verdicts.rejections)]
        column.codes[rows] = np.array(known, np.int32).take(verdicts.codes)
        return True

    def _verdicts(self, cycle: Cycle, pod: Pod, column: FilterColumn, rows: Rows | slice) -> NodeToStatus:
        """What the NumPy form of a plugin says of many rows."""
        table = self._state.table(None if isinstance(rows, slice) else rows)
        column.evaluations.n += len(table)
        return run_filter_on_table(column.plugin, cycle, pod, table)

    def _code(self, plugin: FilterPlugin, rejection: Rejection) -> int:
        key = (plugin.name, rejection)
        code = self._known.get(key)
        if code is None:
            code = self._known[key] = len(self.statuses)
            self.statuses.append(Status.of(plugin.name, rejection))
        return code


C = TypeVar("C", bound=CachedColumn)


def columns_by_change(columns: Iterable[C]) -> list[list[C]]:
    """The columns that each kind of change reaches; `Change` values are the places."""
    known = list(columns)
    return [[column for column in known if column.reach[change] is not Scope.NOWHERE] for change in CHANGES]


def are_few(rows: Sized) -> bool:
    """Whether the plain form is to answer for so many rows."""
    return len(rows) <= FEW


def select_rows(rows: Rows | slice, mask: NDArray[np.bool_]) -> Rows | slice:
    """The rows that the mask (one place a row) picks out of some, or out of all (a slice from the first on).

    All stay a slice where everything is picked: reading a slice of a column copies nothing.
    """
    everything = np.count_nonzero(mask) == len(mask)
    if not isinstance(rows, slice):
        return rows if everything else rows[mask]
    return rows if everything and len(mask) > FEW else np.flatnonzero(mask)


def run_filter(plugin: FilterPlugin, cycle: Cycle, pod: Pod, node: NodeInfo) -> Rejection | None:
    """One plugin's answer for one node. PluginFailed if it fails."""
    try:
        if cycle.call_observer is None:
            answer = plugin.filter(cycle, pod, node)
        else:
            answer = cycle.call_observer(plugin.name, "Filter", plugin.filter, cycle, pod, node)
        if answer is not None and not isinstance(answer, Rejection):
            raise InvalidReturnValue(plugin.filter, answer, FILTER_RETURNS)
        return answer
    except BaseException as error:
        raise_plugin_failed(plugin.name, "Filter", error)


def run_filter_on_table(plugin: FilterPlugin, cycle: Cycle, pod: Pod, table: NodeTable) -> NodeToStatus:
    """One plugin's answers for many nodes. PluginFailed if it fails."""
    verdicts = call_plugin(plugin, "Filter", plugin.filter_all, cycle, pod, table)
    call_guarded(plugin.name, "Filter", check_verdicts, plugin.filter_all, verdicts, len(table))
    return verdicts
