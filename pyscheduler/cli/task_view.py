"""How tasks are shown: rows, tables and counts. What waits in the inbox is shown among them."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping
from fnmatch import fnmatchcase
from typing import Any, Final, NamedTuple

import msgspec

from pyscheduler.backend.state.request_queue import RequestQueue, Submit
from pyscheduler.backend.task import TaskPhase, TaskRecord, TaskSpec

WAITING: Final = "Waiting"
"""Left for whoever works the state, and not taken up yet."""
REFUSED: Final = "Refused"
PHASES: Final = (WAITING, *TaskPhase, REFUSED)
ENDED: Final = (TaskPhase.SUCCEEDED, TaskPhase.FAILED, TaskPhase.KILLED, REFUSED)
_STYLES: Final = {"Running": "cyan", "Succeeded": "green", "Failed": "red", "Refused": "red", "Killed": "yellow"}


class TaskRow(NamedTuple):
    """One task as it is shown. Times are seconds since 1970, None as long as there is none."""

    id: str
    phase: str
    spec: TaskSpec
    record: TaskRecord | None = None
    """None for what is in the inbox."""
    why: str = ""

    @property
    def ended(self) -> bool:
        return self.phase in ENDED


class TaskFilter(NamedTuple):
    """Which tasks are asked for; what is empty asks for all."""

    phases: tuple[str, ...] = ()
    queue: str = ""
    pattern: str = ""
    """Of the id, with * and ?."""

    def matches(self, row: TaskRow) -> bool:
        return (
            (not self.phases or row.phase in self.phases)
            and (not self.queue or row.spec.queue == self.queue)
            and (not self.pattern or fnmatchcase(row.id, self.pattern))
        )


def rows(box: RequestQueue) -> dict[str, TaskRow]:
    """All tasks by id as they are now, in the order in which they came."""
    requests = [(waiting.rejection, waiting.request) for waiting in (*box.rejected(), *box.pending())]
    # Records are read last: what was taken out of the inbox meanwhile is among them.
    found = {
        id: TaskRow(id, record.phase, record.spec, record, _why(record))
        for id, record in box.read_state().records.items()
    }
    for refused, request in requests:
        if isinstance(request, Submit) and request.spec.id not in found:
            phase = REFUSED if refused else WAITING
            found[request.spec.id] = TaskRow(request.spec.id, phase, request.spec, why=refused)
    return found


def counts(shown: Iterable[TaskRow]) -> str:
    """How many there are of each phase, as a line."""
    found = Counter(row.phase for row in shown)
    told = ", ".join(f"{found[phase]} {phase.lower()}" for phase in PHASES if found[phase])
    return told or "no tasks"


def table(shown: Iterable[TaskRow], now: float) -> Any:
    """A table of them; `now` is the time of day, in seconds since 1970."""
    from rich.table import Table

    made = Table(box=None, pad_edge=False)
    for heading in ("TASK", "PHASE", "TRY", "NODE", "AGE", "WHY"):
        made.add_column(heading, no_wrap=heading != "WHY", justify="right" if heading in ("TRY", "AGE") else "left")
    for row in shown:
        phase = f"[{style}]{row.phase}[/]" if (style := _STYLES.get(row.phase)) else row.phase
        if row.record is None:
            made.add_row(_plain(row.id), phase, "", "", "", _plain(row.why))
        else:
            record = row.record
            age = duration((record.finished_at or now) - record.submitted_at)
            made.add_row(_plain(row.id), phase, str(record.attempt), record.node, age, _plain(row.why))
    return made


def line(row: TaskRow) -> str:
    """One task as a line of text."""
    return " ".join(word for word in (row.id, row.phase, f"({row.why})" if row.why else "") if word)


def as_json(row: TaskRow) -> str:
    """One task as a line of JSON: its record, or the spec that waits."""
    if row.record is not None:
        return msgspec.json.encode(row.record).decode()
    return msgspec.json.encode({"spec": row.spec, "phase": row.phase, "message": row.why}).decode()


def details(row: TaskRow) -> Mapping[str, Any]:
    """All that is known of a task, by name; what says nothing is left out."""
    if row.record is None:
        return {"phase": row.phase, "message": row.why, "spec": msgspec.to_builtins(row.spec)}
    told: dict[str, Any] = msgspec.to_builtins(row.record)
    spec = told.pop("spec")
    return {**told, "phase": str(row.phase), "spec": spec}


def duration(seconds: float) -> str:
    """A time in the largest two units: `1h05m`, `12s`."""
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


def _plain(text: str) -> str:
    from rich.markup import escape

    return escape(text)
