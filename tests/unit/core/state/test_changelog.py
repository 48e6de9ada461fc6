"""A log that forgets, but never lies."""

from __future__ import annotations

from pyscheduler.core.state.changelog import ChangeLog


def since(log: ChangeLog, mark: int) -> list[int] | None:
    rows = log.since(mark)
    return None if rows is None else rows.tolist()


def test_only_what_came_after_the_mark_is_told() -> None:
    log = ChangeLog()
    log.append(1)
    mark = log.mark
    log.append(2)
    log.append(2)
    log.append(3)
    assert since(log, mark) == [2, 2, 3]
    assert since(log, log.mark) == []


def test_a_mark_that_is_too_old_gets_no_answer() -> None:
    log = ChangeLog()
    mark = log.mark
    for row in range(200_000):
        log.append(row % 7)
    assert since(log, mark) is None
    assert since(log, log.mark - 3) == [row % 7 for row in range(199_997, 200_000)]
