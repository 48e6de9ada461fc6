"""A log that forgets, but never lies."""

from __future__ import annotations

from pyscheduler.core.state.changelog import ChangeLog


def test_only_what_came_after_the_mark_is_told() -> None:
    log = ChangeLog()
    log.append(1)
    mark = log.mark
    log.append(2)
    log.append(2)
    log.append(3)
    assert log.since(mark) == {2, 3}
    assert log.since(log.mark) == set()


def test_a_mark_that_is_too_old_gets_no_answer() -> None:
    log = ChangeLog()
    mark = log.mark
    for row in range(200_000):
        log.append(row % 7)
    assert log.since(mark) is None
    assert log.since(log.mark - 3) is not None
