"""`pyscheduler replay`: repeat the decisions of a recording, and explain one of them."""

from __future__ import annotations

import sys
from collections.abc import Iterator, Sequence
from datetime import UTC, datetime
from itertools import zip_longest
from pathlib import Path
from typing import Final

import click
from msgspec import to_builtins
from msgspec.structs import asdict

from pyscheduler.cli import options, replay_view
from pyscheduler.cli.batch_command import OUTPUT
from pyscheduler.cli.command_problem import CommandProblem
from pyscheduler.cli.explain_view import pods_of_workload
from pyscheduler.cli.explanation import Explanation, explain_in_context
from pyscheduler.cli.progress_bar import ProgressBar
from pyscheduler.cli.replay_view import EXCEPTION, DifferingCommand, Json, PodAttempts, RecordingSummary
from pyscheduler.cli.sections import SectionedCommand, option
from pyscheduler.config.problems import ConfigError
from pyscheduler.shell.recording.attempts import AttemptReader, RecordedAttempt
from pyscheduler.shell.recording.commands import RecordedCommand, RecordedPodCommand, command_name
from pyscheduler.shell.recording.file import RecordingProblem, RecordingReader, find_recordings
from pyscheduler.shell.recording.pods import AttemptedPod, PodListReader
from pyscheduler.shell.recording.records import RecordedInput, RecordKind, Result
from pyscheduler.shell.recording.replay import Difference, Replay

_DECISION: Final = "Decision"
_KIB: Final = 1024
_REPORT_EVERY: Final = 1000
"""Records between two reports of progress."""
_HELP: Final = """Replay the decisions of a recording, and explain any of them.

RECORDING is a directory that `pyscheduler run --record` writes to, or one of its files. The scheduler's own code gets
the recorded inputs again, at full speed and without a cluster, and must decide the same: docs/replay.md.

\b
Record, and check later that the decisions are reproduced:
  pyscheduler run --config scheduler.yaml --record recordings
  pyscheduler replay recordings

\b
Why did this pod get that node, or none? The cluster is as it was at that moment:
  pyscheduler replay recordings --pods
  pyscheduler replay recordings --pod shop/web-0
  pyscheduler replay recordings --pod shop/web-0 --attempt 2
  pyscheduler replay recordings --pod shop/web-0 --at 2026-05-04T10:30:00Z -o json

\b
Columns:
  NODES            nodes that the same plugins rejected for the same reasons; few reasons first
  WHY NOT          reason, and the plugin that rejected
  WHAT WOULD HELP  change after which the plugin would have accepted one of these nodes
  TOTAL            weighted sum of the scores of a node that fitted, then the plugins with different scores
"""


def _time(_: click.Context, __: click.Parameter, text: str | None) -> float | None:
    if text is None:
        return None
    try:
        time = datetime.fromisoformat(text)
    except ValueError:
        raise click.BadParameter(f"{text!r} is not a time such as 2026-05-04T10:30:00Z") from None
    return (time if time.tzinfo else time.replace(tzinfo=UTC)).timestamp()


def _pod(_: click.Context, __: click.Parameter, text: str) -> tuple[str, str] | None:
    if not text:
        return None
    namespace, slash, name = text.removeprefix("pod/").rpartition("/")
    if not name or (slash and not namespace) or "/" in namespace:
        raise click.BadParameter(f"{text!r} is not NAMESPACE/NAME")
    return namespace or "default", name


@click.command(cls=SectionedCommand, help=_HELP)
@click.argument("recording", metavar="RECORDING", type=click.Path(exists=True, path_type=Path))
@option("--pods", section=_DECISION, is_flag=True, help="List the pods with attempts, and the last result of each.")
@option("--pod", section=_DECISION, default="", callback=_pod, metavar="NS/NAME", help="List the attempts of a pod.")
@option(
    "--attempt",
    section=_DECISION,
    type=options.IntegerRange(min=1),
    metavar="N",
    help="Explain this attempt of the list (default: the last).",
)
@option(
    "--at", section=_DECISION, callback=_time, metavar="TIME", help="Explain the last attempt until TIME (RFC 3339)."
)
@option(
    "--output",
    "-o",
    section=OUTPUT,
    type=click.Choice(["table", "json"]),
    default="table",
    show_default=True,
    help="Format.",
)
def replay(
    recording: Path, pods: bool, pod: tuple[str, str] | None, attempt: int | None, at: float | None, output: str
) -> None:
    options.logging("text", 0, quiet=True)
    if pods and pod is not None:
        raise CommandProblem("--pods and --pod exclude each other")
    if pod is None and (attempt is not None or at is not None):
        raise CommandProblem("--attempt and --at choose an attempt of a pod: add --pod NAMESPACE/NAME")
    if attempt is not None and at is not None:
        raise CommandProblem("--attempt and --at exclude each other")
    try:
        files = find_recordings(recording)
        if pods:
            replay_view.print_pods(*_list_pods(files), output)
            return
        if pod is not None:
            replay_view.print_attempts(_find_attempts(files, pod, attempt, at), output)
            return
        summaries = [_replay_file(file) for file in files]
    except RecordingProblem as problem:
        raise CommandProblem(str(problem)) from None
    replay_view.print_summaries(summaries, output)
    if any(each.difference is not None for each in summaries):
        sys.exit(1)


# -- whole recordings --------------------------------------------------------------------------------------------------


def _replay_file(file: Path) -> RecordingSummary:
    """Replay a recording, up to the first decision that differs."""
    reader = RecordingReader(file)
    counter = _Counter(reader.records())
    replay, difference = _load_replay(reader, counter.records()), None
    with ProgressBar("replay", lines=False) as bar:
        while difference is None and replay.peek() is not None:
            difference = replay.step()
            if replay.index % _REPORT_EVERY == 0:
                bar.show(f"{file.name}, KiB", reader.position // _KIB, reader.size // _KIB)
    epoch = reader.header.epoch
    return RecordingSummary(
        file=str(file),
        version=reader.header.version,
        start=counter.start + epoch if counter.events else 0.0,
        end=replay.now + epoch if counter.events else 0.0,
        events=counter.events,
        attempts=replay.machine.context.attempts,
        commands=counter.commands,
        is_torn=reader.is_torn,
        difference=None if difference is None else _find_differing_command(difference, replay, epoch),
        unreplayed_plugins=tuple(replay.unreplayed_plugins),
    )


class _Counter:
    """Counts the records that are read."""

    def __init__(self, records: Iterator[RecordedInput]) -> None:
        self.events = self.commands = 0
        self.start = 0.0
        self._records = records

    def records(self) -> Iterator[RecordedInput]:
        for record in self._records:
            if record.kind == RecordKind.EVENT:
                self.start = self.start if self.events else record.time or 0.0
                self.events += 1
            self.commands += len(record.commands)
            yield record


def _find_differing_command(difference: Difference, replay: Replay, epoch: float) -> DifferingCommand:
    """Return the first commands that differ, and their pod."""
    recorded, replayed = _as_list(difference.recorded), _as_list(difference.replayed)
    first = next((pair for pair in zip_longest(recorded, replayed) if pair[0] != pair[1]), (None, None))
    uids = [each.uid for each in first if isinstance(each, RecordedPodCommand)]
    pod = next((replay.machine.context.pods[uid] for uid in uids if uid in replay.machine.context.pods), None)
    return DifferingCommand(
        pod=pod.key if pod is not None else "",
        time=difference.at + epoch,
        recorded=_to_json(first[0]),
        replayed=_to_json(first[1]),
    )


def _as_list(result: Result) -> Sequence[RecordedCommand | str]:
    """Return the commands of a result; the text of an exception is the only item."""
    return [result] if isinstance(result, str) else result or ()


def _to_json(command: RecordedCommand | str | None) -> Json | None:
    """Return a command with the names of its fields."""
    if isinstance(command, str):
        return {"command": EXCEPTION, "message": command}
    return None if command is None else {"command": command_name(command), **to_builtins(asdict(command))}


def _load_replay(reader: RecordingReader, records: Iterator[RecordedInput]) -> Replay:
    try:
        return Replay(reader.header, records)
    except ConfigError as error:
        problems = "; ".join(str(error).splitlines())
        raise RecordingProblem(f"{reader.path}: the configuration cannot be loaded here: {problems}") from None


# -- list of pods ------------------------------------------------------------------------------------------------------


def _list_pods(files: list[Path]) -> tuple[list[AttemptedPod], bool]:
    """Return the pods of all recordings, and True if the last batch of one is incomplete."""
    pods, is_torn = PodListReader(), False
    for file in files:
        reader = RecordingReader(file)
        pods.read(reader, _read_with_progress(reader))
        is_torn = is_torn or reader.is_torn
    return pods.pods(), is_torn


# -- one pod -----------------------------------------------------------------------------------------------------------


def _find_attempts(files: list[Path], pod: tuple[str, str], number: int | None, at: float | None) -> PodAttempts:
    """Return the attempts of a pod in all recordings, and the explanation of the chosen one."""
    key, is_torn = "/".join(pod), False
    found: list[RecordedAttempt] = []
    attempts = AttemptReader(pod)
    for file in files:
        reader = RecordingReader(file)
        found += attempts.read(reader, _read_with_progress(reader))
        is_torn = is_torn or reader.is_torn
    if not any(each.number for each in found):
        if attempts.pods:
            raise CommandProblem(f"pod {key} has no attempt in the recording")
        raise CommandProblem(f"no pod {key} was recorded{pods_of_workload(pod[1], attempts.names)}; --pods lists all")
    chosen = _choose_attempt([each for each in found if each.number], number, at)
    return PodAttempts(key, found, chosen.number or 0, _explain_attempt(chosen), is_torn)


def _choose_attempt(attempts: Sequence[RecordedAttempt], number: int | None, at: float | None) -> RecordedAttempt:
    """Return the attempt to explain. CommandProblem if there is none."""
    if number is not None:
        if number > len(attempts):
            raise CommandProblem(f"--attempt {number}: the pod has {len(attempts)} in the recording")
        return attempts[number - 1]
    until = [each for each in attempts if at is None or each.time <= at]
    if not until:
        raise CommandProblem(f"--at: the first attempt of the pod was at {replay_view.time_text(attempts[0].time)}")
    return until[-1]


def _explain_attempt(chosen: RecordedAttempt) -> Explanation:
    """Replay a recording up to an attempt, and explain the pod in that state."""
    file = Path(chosen.file)
    reader = RecordingReader(file)
    replay = _load_replay(reader, reader.records())
    with ProgressBar("replay", lines=False) as bar:
        while replay.index < chosen.index:
            if replay.step() is not None:
                raise CommandProblem(
                    f"{file}: an earlier decision is replayed differently; `pyscheduler replay {file}` shows which"
                )
            if replay.index % _REPORT_EVERY == 0:
                bar.show("records", replay.index, chosen.index)
    context = replay.machine.context
    pod = context.pods.get(chosen.uid)
    if pod is None:
        raise CommandProblem(f"{file}: the pod is not in the recorded state")
    return explain_in_context(context, pod, chosen.node)


def _read_with_progress(reader: RecordingReader) -> Iterator[RecordedInput]:
    with ProgressBar("read", lines=False) as bar:
        for i, record in enumerate(reader.records()):
            if i % _REPORT_EVERY == 0:
                bar.show(f"{reader.path.name}, KiB", reader.position // _KIB, reader.size // _KIB)
            yield record
