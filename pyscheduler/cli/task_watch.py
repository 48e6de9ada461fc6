"""`tasks watch`: a live table on a terminal, elsewhere a line for each change."""

from __future__ import annotations

import time
from collections.abc import Sequence

from rich.console import Console, Group
from rich.live import Live
from rich.text import Text

from pyscheduler.api.counts import counted
from pyscheduler.backend.state.request_queue import RequestQueue
from pyscheduler.backend.task import TaskPhase
from pyscheduler.cli import task_view
from pyscheduler.cli.task_view import TaskRow


def watch_tasks(queue: RequestQueue, ids: Sequence[str] | None, console: Console, poll_seconds: float) -> int:
    """Show the tasks, all if `ids` is None, until each has ended; return 0 if all succeeded, else 1."""
    if console.is_terminal:
        with Live(console=console, auto_refresh=False) as live:
            rows = _read(queue, ids)
            while not _all_ended(rows):
                live.update(_render(rows, console.height), refresh=True)
                _wait_for_change(queue, poll_seconds)
                rows = _read(queue, ids)
            live.update(_render(rows, console.height), refresh=True)
    else:
        rows, printed = _read(queue, ids), dict[str, str]()
        _print_changes(rows, printed)
        while not _all_ended(rows):
            _wait_for_change(queue, poll_seconds)
            rows = _read(queue, ids)
            _print_changes(rows, printed)
    console.print(task_view.counts(rows), soft_wrap=True)
    return 0 if all(row.phase == TaskPhase.SUCCEEDED for row in rows) else 1


def _read(queue: RequestQueue, ids: Sequence[str] | None) -> list[TaskRow]:
    by_id = task_view.rows(queue, ids)
    return list(by_id.values()) if ids is None else [by_id[id] for id in ids if id in by_id]


def _all_ended(rows: Sequence[TaskRow]) -> bool:
    return all(row.ended for row in rows)


def _wait_for_change(queue: RequestQueue, poll_seconds: float) -> None:
    time.sleep(poll_seconds)
    while not queue.changed():
        time.sleep(poll_seconds)


def _print_changes(rows: Sequence[TaskRow], printed: dict[str, str]) -> None:
    for row in rows:
        text = task_view.line(row)
        if printed.get(row.id) != text:
            printed[row.id] = text
            print(text, flush=True)


def _render(rows: Sequence[TaskRow], height: int) -> Group:
    """Return a table of the tasks that have not succeeded, cut to the terminal's height, and a line of counts."""
    shown = [row for row in rows if row.phase != TaskPhase.SUCCEEDED][: max(1, height - 4)]
    return Group(task_view.table(shown, time.time()), Text(f"{counted(len(rows), 'task')}: {task_view.counts(rows)}"))
