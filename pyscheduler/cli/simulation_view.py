"""Tables and JSON of simulation results, one column for each configuration."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator, Sequence
from pathlib import Path
from typing import Final, NamedTuple

import msgspec
from rich.padding import Padding
from rich.table import Table

from pyscheduler.api.counts import counted
from pyscheduler.cli.console import escape, print_part, stdout_console
from pyscheduler.cli.task_view import duration
from pyscheduler.simulator.report import JobResult, JobSummary, SimulationResult

_SHOWN_REASONS: Final = 10
LEGEND: Final = (
    "A job is a group, or a pod without one; it has started once its minimum has nodes, and waits from its arrival on."
)
_PIPED_WIDTH: Final = 160
"""Columns of a table that is not printed to a terminal."""


class ReportTable(NamedTuple):
    """Table of a report: a heading, and rows of a name and a text for each configuration."""

    heading: str
    rows: list[tuple[str, list[str]]]


class Pending(NamedTuple):
    """Jobs that wait at the end for one reason."""

    jobs: int
    first: str
    message: str


def print_json(results: Sequence[SimulationResult]) -> None:
    """Print all results as one JSON document."""
    print(msgspec.json.encode({"results": results}).decode())


def print_tables(results: Sequence[SimulationResult]) -> None:
    """Print the comparison of the results, and the jobs that wait at the end."""
    console = stdout_console(_PIPED_WIDTH)
    table = Table(box=None, pad_edge=False)
    table.add_column("", overflow="fold")
    for name in short_names(results):
        table.add_column(escape(name), justify="right", overflow="fold")
    for section in sections(results):
        if section.heading:
            table.add_row(end_section=True)
            table.add_row(f"[bold]{escape(section.heading)}[/]")
        for name, cells in section.rows:
            table.add_row(escape(name), *map(escape, cells))
    print_part(console, table)
    print_part(console, f"\n{LEGEND}\n")
    for name, result in zip(short_names(results), results, strict=True):
        in_config = f" with {name}" if len(results) > 1 else ""
        reasons = pending_jobs(result)
        if reasons:
            print_part(console, f"[bold]Waiting at the end{escape(in_config)}[/]")
        for each in reasons[:_SHOWN_REASONS]:
            print_part(console, Padding(escape(pending_text(each)), (0, 0, 0, 2)))
        if len(reasons) > _SHOWN_REASONS:
            print_part(console, f"  and {counted(len(reasons) - _SHOWN_REASONS, 'other reason')}; -o json has all")
        for note in result.notes:
            print_part(console, f"[bold]Note{escape(in_config)}:[/] {escape(note)}")


def short_names(results: Sequence[SimulationResult]) -> list[str]:
    """Return the names of the configurations, without folders if they differ."""
    names = [Path(result.config).name for result in results]
    return names if len(set(names)) == len(names) else [result.config for result in results]


def sections(results: Sequence[SimulationResult]) -> Iterator[ReportTable]:
    """Yield the tables of the comparison."""
    yield ReportTable("", [(name, [text(result) for result in results]) for name, text in _FIGURES])
    resources = dict.fromkeys(resource for result in results for resource in result.utilization)
    rows = [(name, [f"{result.utilization.get(name, 0.0):.1%}" for result in results]) for name in resources]
    if rows:
        yield ReportTable("Requested share of the nodes", rows)
    for kind, summaries in (("Queue", _queues), ("Arrival", _arrivals)):
        by_name = [{each.name: each for each in summaries(result)} for result in results]
        for name in sorted({name for found in by_name for name in found}):
            found = [each.get(name) for each in by_name]
            rows = [(label, ["-" if each is None else text(each) for each in found]) for label, text in _SUMMARY]
            yield ReportTable(f"{kind} {name}" if name else "Created at time 0", rows)


def pending_jobs(result: SimulationResult) -> list[Pending]:
    """Return the jobs that lack nodes at the end, by their reasons, the most frequent first."""
    by_message: dict[str, list[JobResult]] = {}
    for job in result.jobs:
        if job.pending or job.state == "Waiting":
            message = _without_names(job.messages[-1], job) if job.messages else "not attempted"
            by_message.setdefault(message, []).append(job)
    found = [Pending(len(jobs), jobs[0].name, message) for message, jobs in by_message.items()]
    return sorted(found, key=lambda each: -each.jobs)


def _without_names(message: str, job: JobResult) -> str:
    """Return a message without the names of a job and its pods, so that those of equal jobs are equal."""
    short = re.escape(job.name.rpartition("/")[2])
    return re.sub(rf"(?<![\w.-]){short}[\w.-]*\w", "a pod", message.replace(job.name, "the job"))


def pending_text(each: Pending) -> str:
    """Return a reason as a line."""
    others = f" and {counted(each.jobs - 1, 'other')}" if each.jobs > 1 else ""
    return f"{each.first}{others}: {each.message}"


def core_hours(seconds: float) -> str:
    """Return core-seconds as core-hours."""
    return f"{seconds / 3600:.3g} core-hours" if seconds else "0"


def _jobs(result: SimulationResult) -> str:
    return f"{result.jobs_started} of {len(result.jobs)}"


_FIGURES: Final[Sequence[tuple[str, Callable[[SimulationResult], str]]]] = (
    ("Jobs started", _jobs),
    ("Wait, mean", lambda result: duration(result.waiting.mean)),
    ("Wait, p50", lambda result: duration(result.waiting.p50)),
    ("Wait, p95", lambda result: duration(result.waiting.p95)),
    ("Wait, longest", lambda result: duration(result.waiting.longest)),
    ("Last job ended after", lambda result: duration(result.makespan) if result.pods.ended else "-"),
    ("Simulated", lambda result: duration(result.seconds)),
    ("Pods created", lambda result: f"{result.pods.created}"),
    ("Pods ended", lambda result: f"{result.pods.ended}"),
    ("Pods evicted", lambda result: f"{result.pods.evicted}"),
    ("Pods lost with nodes", lambda result: f"{result.pods.lost}"),
    ("Pods pending at the end", lambda result: f"{result.pods.pending}"),
    ("Idle in incomplete groups", lambda result: core_hours(result.idle_cpu_seconds)),
    ("Lost in runs cut short", lambda result: core_hours(result.lost_cpu_seconds)),
)
_SUMMARY: Final[Sequence[tuple[str, Callable[[JobSummary], str]]]] = (
    ("  Jobs started", lambda each: f"{each.started} of {each.jobs}"),
    ("  Wait, mean", lambda each: duration(each.mean_wait)),
    ("  Wait, longest", lambda each: duration(each.longest_wait)),
    ("  Share of all cpu time", lambda each: f"{each.cpu_share:.0%}"),
)


def _queues(result: SimulationResult) -> Iterable[JobSummary]:
    return result.queues


def _arrivals(result: SimulationResult) -> Iterable[JobSummary]:
    return result.arrivals
