"""Change log: rows since a mark, and None for a mark that is too old."""

from __future__ import annotations

from pyscheduler.core.state.node_columns import ChangeLog


def since(log: ChangeLog, mark: int) -> list[int] | None:
    rows = log.since(mark)
    return None if rows is None else rows.tolist()


def test_since_returns_only_rows_after_the_mark() -> None:
    log = ChangeLog()
    log.append(1)
    mark = log.mark
    log.append(2)
    log.append(2)
    log.append(3)
    assert since(log, mark) == [2, 2, 3]
    assert since(log, log.mark) == []


def test_since_returns_none_for_a_mark_that_is_too_old() -> None:
    log = ChangeLog()
    mark = log.mark
    for row in range(200_000):
        log.append(row % 7)
    assert since(log, mark) is None
    assert since(log, log.mark - 3) == [row % 7 for row in range(199_997, 200_000)]
