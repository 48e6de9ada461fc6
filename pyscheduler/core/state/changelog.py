"""Which rows changed since somebody last looked: the bookkeeping behind incremental evaluation.

Readers keep a mark; `since(mark)` names the rows touched after it. The log forgets old entries, and then tells the
reader to start over rather than answer wrongly.
"""

from __future__ import annotations

_KEEP = 1 << 16


class ChangeLog:
    """An append-only list of row numbers with a movable start."""

    __slots__ = ("_base", "_rows")

    def __init__(self) -> None:
        self._rows: list[int] = []
        self._base = 0

    @property
    def mark(self) -> int:
        """The place after the newest entry."""
        return self._base + len(self._rows)

    def append(self, row: int) -> None:
        """Note that the row has changed."""
        self._rows.append(row)
        if len(self._rows) > 2 * _KEEP:
            del self._rows[:_KEEP]
            self._base += _KEEP

    def since(self, mark: int) -> set[int] | None:
        """The rows changed after `mark`, or None if the log no longer reaches back that far."""
        start = mark - self._base
        return None if start < 0 else set(self._rows[start:])
