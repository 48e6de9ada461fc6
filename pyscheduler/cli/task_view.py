"""Display of tasks as rows, tables and counts, including tasks that are still in the request queue."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from fnmatch import fnmatchcase
from typing import Any, Final, NamedTuple

import msgspec

from pyscheduler.backend.state.request_queue import RequestQueue, Submit
from pyscheduler.backend.task import TaskPhase, TaskRecord, TaskSpec

WAITING: Final = "Waiting"
"""Phase of tasks in the request queue that the backend has not read yet."""
REFUSED: Final = "Refused"
PHASES: Final = (WAITING, *TaskPhase, REFUSED)
ENDED: Final = (TaskPhase.SUCCEEDED, TaskPhase.FAILED, TaskPhase.KILLED, REFUSED)
CURRENT: Final = tuple(phase for phase in TaskPhase if not phase.final)
_STYLES: Final = {"Running": "cyan", "Succeeded": "green", "Failed": "red", "Refused": "red", "Killed": "yellow"}


class TaskRow(NamedTuple):
    """Displayed task."""

    id: str
    phase: str
    spec: TaskSpec
    record: TaskRecord | None = None
    """Durable record; None for a task in the request queue."""
    why: str = ""

    @property
    def ended(self) -> bool:
        return self.phase in ENDED


class TaskFilter(NamedTuple):
    """Filter of tasks; an empty field matches all."""

    phases: tuple[str, ...] = ()
    queue: str = ""
    pattern: str = ""
    """Pattern of the id, with * and ?."""

    def matches(self, row: TaskRow) -> bool:
        return (
            (not self.phases or row.phase in self.phases)
            and (not self.queue or row.spec.queue == self.queue)
            and (not self.pattern or fnmatchcase(row.id, self.pattern))
        )


def rows(queue: RequestQueue, ids: Sequence[str] | None = None, phases: Sequence[str] = ()) -> dict[str, TaskRow]:
    """Return the current tasks by id, in the order of their submission.

    `ids` reads only these tasks, and `phases` only records in these phases, whatever the size of the file.
    """
    found = queue.requests_of(ids) if ids is not None else (*queue.rejected(), *queue.pending())
    requests = [(queued.rejection, queued.request) for queued in found]
    # Records are read last, so that a request executed meanwhile shows up as a record.
    records = queue.records(ids, phases)
    by_id = {record.id: TaskRow(record.id, record.phase, record.spec, record, _why(record)) for record in records}
    for rejection, request in requests:
        if isinstance(request, Submit) and request.spec.id not in by_id:
            phase = REFUSED if rejection else WAITING
            by_id[request.spec.id] = TaskRow(request.spec.id, phase, request.spec, why=rejection)
    return by_id


def counts(rows: Iterable[TaskRow]) -> str:
    """Return the number of tasks in each phase as a line."""
    by_phase = Counter(row.phase for row in rows)
    return ", ".join(f"{by_phase[phase]} {phase.lower()}" for phase in PHASES if by_phase[phase]) or "no tasks"


def table(rows: Iterable[TaskRow], now: float) -> Any:
    """Return the tasks as a table; `now` in seconds since the epoch."""
    from rich.table import Table

    tasks = Table(box=None, pad_edge=False)
    for heading in ("TASK", "PHASE", "TRY", "NODE", "AGE", "WHY"):
        tasks.add_column(heading, no_wrap=heading != "WHY", justify="right" if heading in ("TRY", "AGE") else "left")
    for row in rows:
        phase = f"[{style}]{row.phase}[/]" if (style := _STYLES.get(row.phase)) else row.phase
        if row.record is None:
            tasks.add_row(_escape(row.id), phase, "", "", "", _escape(row.why))
        else:
            record = row.record
            age = duration((record.finished_at or now) - record.submitted_at)
            tasks.add_row(_escape(row.id), phase, str(record.attempt), record.node, age, _escape(row.why))
    return tasks


def line(row: TaskRow) -> str:
    """Return a task as a line of text."""
    return " ".join(word for word in (row.id, row.phase, f"({row.why})" if row.why else "") if word)


def as_json(row: TaskRow) -> str:
    """Return a task as a line of JSON: its record, or phase and spec of a queued task."""
    if row.record is not None:
        return msgspec.json.encode(row.record).decode()
    return msgspec.json.encode({"spec": row.spec, "phase": row.phase, "message": row.why}).decode()


def details(row: TaskRow) -> Mapping[str, Any]:
    """Return all fields of a task that are not empty, by name."""
    if row.record is None:
        return {"phase": row.phase, "message": row.why, "spec": msgspec.to_builtins(row.spec)}
    fields: dict[str, Any] = msgspec.to_builtins(row.record)
    spec = fields.pop("spec")
    return {**fields, "phase": str(row.phase), "spec": spec}


def duration(seconds: float) -> str:
    """Return a duration in its two largest units: `1h05m`, `12s`."""
    whole = max(0, int(seconds))
    if whole < 60:
        return f"{whole}s"
    if whole < 3600:
        return f"{whole // 60}m{whole % 60:02d}s"
    return f"{whole // 3600}h{whole % 3600 // 60:02d}m"


def _why(record: TaskRecord) -> str:
    if record.phase is TaskPhase.SUCCEEDED:
        return ""
    words = [record.reason] if record.reason and record.reason != record.phase else []
    if record.exit_code:
        words.append(f"exit code {record.exit_code}")
    if record.killing and not record.final:
        words.append("being killed")
    if record.message:
        words.append(record.message)
    return ": ".join(words)


def _escape(text: str) -> str:
    from rich.markup import escape

    return escape(text)
