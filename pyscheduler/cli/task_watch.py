"""`tasks watch`: a table that follows the state file on a terminal, a line for each change elsewhere."""

from __future__ import annotations

import time
from collections.abc import Sequence

from rich.console import Console, Group
from rich.live import Live
from rich.text import Text

from pyscheduler.backend.state.request_queue import RequestQueue
from pyscheduler.backend.task import TaskPhase
from pyscheduler.cli import task_view
from pyscheduler.cli.task_view import TaskRow


def watch_tasks(box: RequestQueue, ids: Sequence[str], console: Console, every: float) -> int:
    """Show these tasks, or all where `ids` is empty, until each has ended. 0 if all have succeeded, else 1."""
    if console.is_terminal:
        with Live(console=console, auto_refresh=False) as live:
            found = _look(box, ids)
            while not _over(found):
                live.update(_picture(found, console.height), refresh=True)
                _wait(box, every)
                found = _look(box, ids)
            live.update(_picture(found, console.height), refresh=True)
    else:
        found, told = _look(box, ids), dict[str, str]()
        _print_changes(found, told)
        while not _over(found):
            _wait(box, every)
            found = _look(box, ids)
            _print_changes(found, told)
    console.print(task_view.counts(found), soft_wrap=True)
    return 0 if all(row.phase == TaskPhase.SUCCEEDED for row in found) else 1


def _look(box: RequestQueue, ids: Sequence[str]) -> list[TaskRow]:
    rows = task_view.rows(box)
    return [rows[id] for id in ids if id in rows] if ids else list(rows.values())


def _over(found: Sequence[TaskRow]) -> bool:
    return all(row.ended for row in found)


def _wait(box: RequestQueue, every: float) -> None:
    """Until the file has changed."""
    time.sleep(every)
    while not box.changed():
        time.sleep(every)


def _print_changes(found: Sequence[TaskRow], told: dict[str, str]) -> None:
    for row in found:
        text = task_view.line(row)
        if told.get(row.id) != text:
            told[row.id] = text
            print(text, flush=True)


def _picture(found: Sequence[TaskRow], height: int) -> Group:
    """Those that have not ended, as many as there is room for, with those that ended badly; and a line of counts."""
    shown = [row for row in found if row.phase != TaskPhase.SUCCEEDED][: max(1, height - 4)]
    return Group(task_view.table(shown, time.time()), Text(f"{len(found)} tasks: {task_view.counts(found)}"))
