"""Filter answers for one pod shape, kept per plugin and node and recomputed only where something changed.

Each plugin has a column of codes: 0 fits, a positive code is a status from a table, STALE is not known (any more). A
node is asked plugin by plugin until one says no, as kube-scheduler does, so a plugin's answer for a node that an
earlier plugin rejects stays STALE until it is needed. Few rows are answered by the plain form, many by the NumPy form.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Sized

import numpy as np
from numpy.typing import NDArray

from pyscheduler.api.cycle import Cycle
from pyscheduler.api.nodes import NodeInfo
from pyscheduler.api.outcome import Code, Rejection, Status
from pyscheduler.api.plugin import FilterPlugin
from pyscheduler.api.pod import Pod
from pyscheduler.core.decide.staleness import Change, Scope, overwrite, scopes
from pyscheduler.core.framework.failure import PluginFailed
from pyscheduler.core.state.cluster import ClusterState

Codes = NDArray[np.int32]
Rows = NDArray[np.intp]
_SPARE_STATUSES = 1024
STALE = -1
FITS = 0
FEW = 6
"""Up to so many rows the plain form is quicker than the NumPy form's fixed cost; read it through `are_few`."""


class FilterColumn:
    """One Filter plugin and what it said of every node."""

    __slots__ = ("all_fit", "codes", "plugin", "reach")

    def __init__(self, plugin: FilterPlugin, n: int) -> None:
        self.plugin = plugin
        self.codes: Codes = np.full(n, STALE, np.int32)
        self.reach = scopes(plugin)
        self.all_fit = False
        """Whether it is known that every row's code is FITS: true of most plugins for most pods, and nothing to do."""


class FilterColumns:
    """What every Filter plugin of a profile says of every node, for one pod shape."""

    __slots__ = ("_active", "_columns", "_known", "_plugins", "_skipped", "_state", "first", "statuses")

    def __init__(self, state: ClusterState, plugins: tuple[FilterPlugin, ...]) -> None:
        self._state = state
        self._plugins = plugins
        self._columns: dict[str, FilterColumn] = {}
        self._active: list[FilterColumn] = []
        self._skipped: set[str] | None = None
        self.first: Codes = np.full(len(state), STALE, np.int32)
        """Per row: 0 if the pod fits, else the code of the first status in the way."""
        self.statuses: list[Status] = [Status(Code.SUCCESS)]
        self._known: dict[tuple[str, Rejection], int] = {}

    @property
    def bytes(self) -> int:
        """Memory of the columns."""
        return self.first.nbytes * (1 + len(self._columns))

    def activate(self, skipped: set[str]) -> bool:
        """Leave the plugins out that PreFilter skipped; whether that is another set than last time."""
        if skipped == self._skipped:
            return False
        self._skipped = set(skipped)
        self._active = [self._column(p) for p in self._plugins if p.name not in skipped]
        return True

    def fit(self, n: int) -> None:
        """Make room for `n` rows; what is new is STALE."""
        if n > len(self.first):
            self.first = _grown(self.first, n)
        for column in self._columns.values():
            column.all_fit = False
            if n > len(column.codes):
                column.codes = _grown(column.codes, n)

    def forget(self, change: Change, rows: Collection[int]) -> bool:
        """Drop the answers that the change makes stale; whether that goes beyond `rows`."""
        everywhere = False
        for column in self._columns.values():
            reach = column.reach[change]
            if reach is Scope.EVERYWHERE or (rows and reach is Scope.ROWS):
                column.all_fit = False
                everywhere |= overwrite(column.codes, reach, rows, STALE)
        return everywhere

    @property
    def crowded(self) -> bool:
        """Whether so many statuses have been given that most must be out of use."""
        return len(self.statuses) > 2 * len(self._state) + _SPARE_STATUSES

    def forget_all(self) -> None:
        """Drop every answer."""
        for column in self._columns.values():
            column.codes.fill(STALE)
            column.all_fit = False
        del self.statuses[1:]
        self._known.clear()

    def settle_row(self, cycle: Cycle, pod: Pod, row: int) -> bool:
        """Bring one row up to date by the plain form; whether the pod fits there."""
        for column in self._active:
            code = int(column.codes[row])
            if code == STALE:
                code = self._ask_row(cycle, pod, column, row)
            if code:
                self.first[row] = code
                return False
        self.first[row] = FITS
        return True

    def settle(self, cycle: Cycle, pod: Pod, rows: Rows | slice) -> None:
        """Bring many rows up to date, each plugin only where the ones before it let the pod through."""
        self.first[rows] = FITS
        for column in self._active:
            if not column.all_fit:
                rows = self._pass(cycle, pod, column, rows)

    def _pass(self, cycle: Cycle, pod: Pod, column: FilterColumn, rows: Rows | slice) -> Rows | slice:
        """Bring one column up to date; the rows that it lets the pod through to."""
        codes = column.codes[rows]
        stale = codes == STALE
        if stale.any():
            self._ask(cycle, pod, column, picked(rows, stale))
            codes = column.codes[rows]
        refused = codes != FITS
        if not refused.any():
            column.all_fit = isinstance(rows, slice)
            return rows
        self.first[picked(rows, refused)] = codes[refused]
        return picked(rows, ~refused)

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
            column = self._columns[plugin.name] = FilterColumn(plugin, len(self.first))
        return column

    def _ask_row(self, cycle: Cycle, pod: Pod, column: FilterColumn, row: int) -> int:
        rejection = ask(column.plugin, cycle, pod, self._state.rows[row])
        code = FITS if rejection is None else self._code(column.plugin, rejection)
        column.codes[row] = code
        return code

    def _ask(self, cycle: Cycle, pod: Pod, column: FilterColumn, rows: Rows | slice) -> None:
        if not isinstance(rows, slice) and are_few(rows):
            for row in rows.tolist():
                self._ask_row(cycle, pod, column, row)
            return
        plugin = column.plugin
        try:
            verdicts = plugin.filter_all(cycle, pod, self._state.table(None if isinstance(rows, slice) else rows))
        except Exception as error:
            raise PluginFailed(plugin.name, "Filter", error) from error
        known = [FITS, *(self._code(plugin, rejection) for rejection in verdicts.because)]
        column.codes[rows] = np.array(known, np.int32)[verdicts.codes]

    def _code(self, plugin: FilterPlugin, rejection: Rejection) -> int:
        key = (plugin.name, rejection)
        code = self._known.get(key)
        if code is None:
            code = self._known[key] = len(self.statuses)
            self.statuses.append(Status.of(plugin.name, rejection))
        return code


def are_few(rows: Sized) -> bool:
    """Whether the plain form is to answer for so many rows."""
    return len(rows) <= FEW


def picked(rows: Rows | slice, mask: NDArray[np.bool_]) -> Rows | slice:
    """The rows that the mask (one place a row) picks out of some, or out of all (a slice from the first on).

    All stay a slice where everything is picked: reading a slice of a column copies nothing.
    """
    if not isinstance(rows, slice):
        return rows[mask]
    return rows if len(mask) > FEW and mask.all() else np.flatnonzero(mask)


def ask(plugin: FilterPlugin, cycle: Cycle, pod: Pod, node: NodeInfo) -> Rejection | None:
    """One plugin's answer for one node. PluginFailed if it raises."""
    try:
        return plugin.filter(cycle, pod, node)
    except Exception as error:
        raise PluginFailed(plugin.name, "Filter", error) from error


def _grown(codes: Codes, n: int) -> Codes:
    bigger = np.full(max(n, 2 * len(codes)), STALE, np.int32)
    bigger[: len(codes)] = codes
    return bigger
