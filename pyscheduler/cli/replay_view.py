"""Output of `pyscheduler replay`: tables and JSON."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any, Final

import msgspec
from rich.console import Group, RenderableType
from rich.table import Table

from pyscheduler import __version__
from pyscheduler.api.counts import counted
from pyscheduler.cli.batch_command import CommandOutput, print_output
from pyscheduler.cli.console import escape
from pyscheduler.cli.explain_view import view
from pyscheduler.cli.explanation import Explanation
from pyscheduler.clock import rfc3339_micro
from pyscheduler.shell.recording.attempts import SCHEDULED, RecordedAttempt
from pyscheduler.shell.recording.pods import AttemptedPod

Json = dict[str, Any]
EXCEPTION: Final = "exception"
"""Name in place of a command's when the call raised."""
_MILLISECONDS: Final = len("2026-05-04T10:30:00.000")
_TORN: Final = "the process was killed, the disk was full, or the file is damaged and not read to its end"


class DifferingCommand(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    """First command that was replayed differently."""

    pod: str
    """`namespace/name`; "" if it is of no pod."""
    time: float
    recorded: Json | None
    """Name and fields of the command as it was recorded; None if there was none."""
    replayed: Json | None


class RecordingSummary(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    """Result of the replay of one recording. The fields are the keys of the JSON output; times are Unix times."""

    file: str
    version: str
    start: float
    end: float
    events: int
    attempts: int
    commands: int
    is_torn: bool
    """True if the last batch is incomplete: the process was killed, or the disk was full."""
    difference: DifferingCommand | None
    """None if all decisions are equal."""
    unreplayed_plugins: Sequence[str] = ()
    """PreBind plugins that await calls outside their API client."""


class PodAttempts(msgspec.Struct, frozen=True, rename="camel"):
    """Attempts of a pod, and the explanation of one of them."""

    pod: str
    attempts: Sequence[RecordedAttempt]
    explained: int
    """Number of the attempt that is explained."""
    explanation: Explanation
    is_torn: bool = False


def print_summaries(summaries: Sequence[RecordingSummary], output: str) -> None:
    """Print the results of whole recordings."""
    lines = {each.file: msgspec.json.encode(each).decode() for each in summaries}
    parts = [part for i, each in enumerate(summaries) for part in (*([""] if i else []), *_summary(each))]
    print_output(CommandOutput(Group(*parts), lines), output)


def _summary(each: RecordingSummary) -> Iterator[RenderableType]:
    decided = f"{counted(each.events, 'event')}, {counted(each.attempts, 'attempt')}, "
    yield f"[bold]{escape(each.file)}[/]"
    fields = Table.grid(padding=(0, 2))
    is_other = f", this is {__version__}" if each.version != __version__ else ""
    fields.add_row("  Version", escape(f"{each.version}{is_other}"))
    if each.events:
        fields.add_row("  Time", f"{time_text(each.start)} to {time_text(each.end)}")
    fields.add_row("  Replayed", f"{decided}{counted(each.commands, 'command')}")
    difference = each.difference
    if difference is None:
        fields.add_row("  Result", "all decisions are equal" if each.events else "there is nothing to compare")
    else:
        of_pod = f" of {difference.pod}" if difference.pod else ""
        fields.add_row("  Result", f"a decision{of_pod} differs at {time_text(difference.time)}")
        fields.add_row("  Recorded", escape(_command(difference.recorded)))
        fields.add_row("  Replayed", escape(_command(difference.replayed)))
    if each.is_torn:
        fields.add_row("  Note", f"the last batch is incomplete: {_TORN}")
    if each.unreplayed_plugins:
        names = ", ".join(each.unreplayed_plugins)
        fields.add_row("  Note", f"PreBind plugins not replayed (they await calls outside `api`): {escape(names)}")
    yield fields


def _command(command: Json | None) -> str:
    """Return a recorded command as text."""
    if command is None:
        return "no command"
    fields = {
        name: value for name, value in command.items() if name not in ("command", "uid") and value not in (None, "")
    }
    return " ".join((command["command"], *(f"{name}={value}" for name, value in fields.items())))


def print_pods(pods: Sequence[AttemptedPod], is_torn: bool, output: str) -> None:
    """Print the pods of recordings with their last attempts."""
    table = Table(box=None, pad_edge=False, header_style="bold", padding=(0, 2, 0, 0))
    for column in ("POD", "ATTEMPTS", "LAST", "RESULT"):
        table.add_column(column, overflow="fold")
    table.add_column("NODE OR REASON", no_wrap=True, overflow="ellipsis")
    for each in pods:
        table.add_row(
            escape(each.pod), str(each.attempts), time_text(each.time), each.result, escape(each.node or each.reason)
        )
    lines = {each.pod: msgspec.json.encode(each).decode() for each in pods}
    attempts = counted(sum(each.attempts for each in pods), "attempt")
    summary = f"{counted(len(pods), 'pod')}, {attempts}"
    if is_torn:
        summary += f"\nThe last batch of a recording is incomplete: {_TORN}."
    print_output(CommandOutput(table, lines, summary), output)


def print_attempts(found: PodAttempts, output: str) -> None:
    """Print the attempts of a pod, and the explanation of one."""
    parts = [*_attempts(found), "", *view(found.explanation, _headline(found, found.explanation))]
    if found.is_torn:
        parts += ["", f"The last batch of a recording is incomplete: {_TORN}."]
    line = msgspec.json.encode(found).decode()
    print_output(CommandOutput(Group(*parts), {found.pod: line}), output)


def _attempts(found: PodAttempts) -> Iterator[RenderableType]:
    table = Table(box=None, pad_edge=False, header_style="bold", padding=(0, 2, 0, 0))
    for column in ("ATTEMPT", "TIME", "RESULT", "NODE OR REASON"):
        table.add_column(column, overflow="fold")
    for each in found.attempts:
        nominated = f" Nominated: {each.nominated}." if each.nominated else ""
        table.add_row(
            str(each.number or ""), time_text(each.time), each.result, escape(each.node or f"{each.reason}{nominated}")
        )
    yield table


def _headline(found: PodAttempts, explanation: Explanation) -> str:
    """Return the result of the explained attempt."""
    attempt = next(each for each in found.attempts if each.number == found.explained)
    when = f"in attempt {attempt.number}"
    if explanation.error:
        return f"could not be evaluated {when}: {explanation.error}"
    if attempt.result == SCHEDULED:
        return f"was placed on {attempt.node} {when}: {_rank_text(explanation, attempt.node)}"
    feasible = f"{len(explanation.feasible)} of" if explanation.feasible else "none of"
    return f"was unschedulable {when}: {feasible} {counted(explanation.nodes, 'node')} feasible"


def _rank_text(explanation: Explanation, node: str) -> str:
    """Return how the chosen node compared with the others."""
    feasible = explanation.feasible
    own = next((each for each in feasible if each.node == node), None)
    if own is None:
        return "which is not feasible for the pod on its own"
    if len(feasible) == 1:
        return f"the only feasible one of {counted(explanation.nodes, 'node')}"
    equal = sum(each.rank == own.rank for each in feasible)
    rank = f"ranked {own.rank} of {len(feasible)} feasible nodes"
    return rank if equal == 1 else f"{rank}, tied with {counted(equal - 1, 'other')}"


def time_text(time: float) -> str:
    """Return a Unix time with milliseconds, UTC."""
    return f"{rfc3339_micro(time)[:_MILLISECONDS]}Z"
