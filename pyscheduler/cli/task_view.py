"""Display of tasks as rows, tables and counts, including tasks that are still in the request queue."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from datetime import UTC, datetime
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
_TIMES: Final = ("submitted_at", "attempt_at", "started_at", "finished_at")
"""Fields of a record in seconds since the epoch."""
_ATTRIBUTES: Final = {field.encode_name: field.name for field in msgspec.structs.fields(TaskRecord)}
_NUMBERS: Final = ("TRY", "AGE", "DURATION")
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
    by_id = {record.id: row_of(record) for record in records}
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
    for heading in ("TASK", "PHASE", "TRY", "NODE", "AGE", "DURATION", "WHY"):
        tasks.add_column(heading, no_wrap=heading != "WHY", justify="right" if heading in _NUMBERS else "left")
    for row in rows:
        phase = f"[{style}]{row.phase}[/]" if (style := _STYLES.get(row.phase)) else row.phase
        if row.record is None:
            tasks.add_row(_escape(row.id), phase, "", "", "", "", _escape(row.why))
        else:
            record = row.record
            age, took = duration(now - record.submitted_at), _run_time(record, now)
            tasks.add_row(_escape(row.id), phase, str(record.attempt), record.node, age, took, _escape(row.why))
    return tasks


def line(row: TaskRow) -> str:
    """Return a task as a line of text."""
    return " ".join(word for word in (row.id, row.phase, f"({row.why})" if row.why else "") if word)


def as_json(row: TaskRow) -> str:
    """Return a task as a line of JSON: its record, or phase and spec of a queued task."""
    if row.record is not None:
        return msgspec.json.encode(_fields(row.record)).decode()
    return msgspec.json.encode({"spec": row.spec, "phase": row.phase, "message": row.why}).decode()


def details(row: TaskRow) -> Mapping[str, Any]:
    """Return all fields of a task that are not empty, by name."""
    if row.record is None:
        return {"phase": row.phase, "message": row.why, "spec": msgspec.to_builtins(row.spec)}
    fields = _fields(row.record)
    spec = fields.pop("spec")
    times = {name: timestamp(fields[name]) for name in _TIMES if fields.get(name)}
    return {"phase": str(row.phase), **fields, **times, "spec": spec}


def row_of(record: TaskRecord) -> TaskRow:
    """Return the row of a durable record."""
    return TaskRow(record.id, record.phase, record.spec, record, _why(record))


def timestamp(seconds: float) -> str:
    """Return a time in seconds since the epoch as RFC 3339 in UTC."""
    return datetime.fromtimestamp(seconds, UTC).isoformat(timespec="milliseconds").replace("+00:00", "Z")


def _fields(record: TaskRecord) -> dict[str, Any]:
    """Return the fields of a record by the names of its attributes; the state file has an older name for one."""
    fields: dict[str, Any] = msgspec.to_builtins(record)
    return {_ATTRIBUTES.get(name, name): value for name, value in fields.items()}


def _run_time(record: TaskRecord, now: float) -> str:
    """Return how long the current attempt has run, "" before its start."""
    if record.started_at is None:
        return ""
    return duration((now if record.finished_at is None else record.finished_at) - record.started_at)


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
    from pyscheduler.cli.console import escape

    return escape(text)
