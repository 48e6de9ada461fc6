"""`pyscheduler tasks`: the task backend from the command line. One process works a state file, others talk to it."""

from __future__ import annotations

import sys
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import click
import yaml

from pyscheduler.backend.state.request_queue import Forget, Kill, RequestQueue, Submit
from pyscheduler.backend.task import Gang, RetryPolicy, TaskSpec
from pyscheduler.cli import options, task_view
from pyscheduler.cli.problems import CommandProblem
from pyscheduler.cli.task_file import read_tasks, validated
from pyscheduler.cli.task_view import TaskFilter, TaskRow

_HELP = """Run a platform's jobs as pods, one pod each: submit, list, kill, watch.

One process works a state file: it creates the pods, sees them through and cleans up after them. All other commands
leave requests in that file or look at it, so they work from anywhere on the machine, also while nobody works it.

\b
A first task, in two terminals (a cluster to try it on: pyscheduler up --kubeconfig-out kubeconfig):
  pyscheduler tasks run --kubeconfig kubeconfig
  pyscheduler tasks submit hello --image busybox:1.37 --cpu 100m -- echo hello
  pyscheduler tasks watch

Killed at any moment, `run` goes on where it was: no task is lost, none is run twice. docs/tasks.md tells the rest.
"""
_SUBMIT_HELP = """Have tasks run: one from flags, or many from a file.

\b
  pyscheduler tasks submit nightly-7 --image etl:3 --cpu 500m --memory 1Gi --retry application=2 -- load --day 7
  pyscheduler tasks submit --file tasks.yaml

A file has YAML documents, each a task or a list of tasks, or one task a line as JSON. Keys are those of TaskSpec:

\b
  id: nightly-7                 # the same id again is the same task
  image: etl:3                  # or `pod:`, a whole pod template with metadata and spec
  command: [load, --day, "7"]
  cpu: 500m
  memory: 1Gi
  queue: nightly
  retry: {infrastructure: 5, application: 2}
  deadline_seconds: 3600
"""
_DEFAULT_STATE = "tasks.db"
_POLL_SECONDS = 0.3
"""Seconds between two looks at a file that somebody else works."""


@click.group(context_settings={"show_default": True}, help=_HELP)
def tasks() -> None:
    pass


def _state(command: Callable[..., None]) -> Callable[..., None]:
    return click.option(
        "--state",
        type=options.FILE,
        default=_DEFAULT_STATE,
        envvar="PYSCHEDULER_TASKS_STATE",
        show_envvar=True,
        metavar="FILE",
        help="The state file, on a local disk.",
    )(command)


def _pairs(_: click.Context, __: click.Parameter, given: tuple[str, ...]) -> dict[str, str]:
    """NAME=VALUE options as a dict."""
    for text in given:
        if "=" not in text.strip("="):
            raise click.BadParameter(f"{text!r} is not NAME=VALUE")
    return dict(text.split("=", 1) for text in given)


def _many(flag: str, help: str, *names: str) -> Callable[..., Any]:
    told = f"{help} May be repeated."
    return click.option(flag, *names, multiple=True, callback=_pairs, metavar="NAME=VALUE", help=told)


@tasks.command(help=_SUBMIT_HELP)
@click.argument("id", required=False)
@click.argument("command", nargs=-1, type=click.UNPROCESSED)
@_state
@click.option("--file", "-f", metavar="FILE", help="Tasks from a file; - is standard input.")
@click.option("--image", default="", metavar="I", help="The container's image.")
@click.option("--cpu", default="", metavar="Q", help="What it asks for: 500m, 2.")
@click.option("--memory", default="", metavar="Q", help="The same: 512Mi, 4Gi.")
@_many("--resource", "Further resources it asks for: nvidia.com/gpu=1.", "resources")
@_many("--limit", "The most it may use: memory=2Gi.", "limits")
@_many("--env", "Environment variables.")
@_many("--label", "Labels of its pod.", "labels")
@_many("--node-selector", "Labels that its node must have.")
@click.option("--priority-class", default="", metavar="P", help="Its PriorityClass.")
@click.option("--queue", default="", metavar="Q", help="A word for whoever divides resources between owners.")
@click.option("--gang", default="", metavar="NAME:SIZE", help="Start with the others of that name, or not at all.")
@click.option("--scheduler", default="", metavar="S", help="Its scheduler; else that of `run`.")
@_many("--retry", "More attempts after ends of a kind: application=2, infrastructure=5, configuration=0.")
@click.option("--pending-seconds", type=float, metavar="S", help="How long an attempt may take to start.")
@click.option("--deadline-seconds", type=float, metavar="S", help="How long the task may take, all attempts together.")
@click.option("--watch", is_flag=True, help="Then watch until they have ended; exit 1 if one has not succeeded.")
def submit(id: str | None, command: tuple[str, ...], state: Path, file: str | None, watch: bool, **given: Any) -> None:
    wanted = read_tasks(file) if file is not None else [_from_flags(id, command, given)]
    if file is not None and (id or any(value for name, value in given.items())):
        raise click.UsageError("--file has everything in it: give either a file, or an ID with flags")
    with RequestQueue(state, create=True) as box:
        known = task_view.rows(box)
        for spec in wanted:
            _reject_other_spec(known.get(spec.id), spec)
        new = [spec for spec in wanted if spec.id not in known or known[spec.id].phase == task_view.REFUSED]
        box.withdraw([spec.id for spec in new])
        box.put(Submit(spec) for spec in new)
        again = f", {len(wanted) - len(new)} submitted before" if len(new) < len(wanted) else ""
        print(f"{len(new)} submitted{again}{_idle_hint(box)}")
        if watch:
            sys.exit(_watch(box, [spec.id for spec in wanted]))


@tasks.command(name="list")
@_state
@click.option(
    "--phase",
    "phases",
    multiple=True,
    type=click.Choice(task_view.PHASES, case_sensitive=False),
    metavar="P",
    help=f"Only these: {', '.join(task_view.PHASES)}. May be repeated.",
)
@click.option("--queue", default="", metavar="Q", help="Only those of this queue.")
@click.option("--id", "pattern", default="", metavar="PATTERN", help="Only ids like this: nightly-*.")
@click.option("--limit", type=click.IntRange(min=1), default=100, metavar="N", help="The last N only.")
@click.option("--output", "-o", type=click.Choice(["table", "json"]), default="table", help="json: one line a task.")
def list_(state: Path, phases: tuple[str, ...], queue: str, pattern: str, limit: int, output: str) -> None:
    """Show tasks, and how many there are of each phase."""
    wanted = TaskFilter(phases, queue, pattern)
    with RequestQueue(state) as box:
        found = [row for row in task_view.rows(box).values() if wanted.matches(row)]
        if output == "json":
            for row in found:
                print(task_view.as_json(row))
            return
        if found:
            _console().print(task_view.table(found[-limit:], time.time()))
        left_out = f" (the last {limit} shown; --limit shows more)" if len(found) > limit else ""
        print(f"{task_view.counts(found)}{left_out}{_idle_hint(box)}")


@tasks.command
@_state
@click.argument("id")
def show(state: Path, id: str) -> None:
    """Show all that is known of one task, as YAML."""
    with RequestQueue(state) as box:
        row = _known(task_view.rows(box), [id])[0]
    print(yaml.safe_dump(dict(task_view.details(row)), sort_keys=False, allow_unicode=True), end="")


@tasks.command
@_state
@click.argument("ids", nargs=-1)
@click.option("--all", "everything", is_flag=True, help="All tasks that have not ended.")
@click.option("--queue", default="", metavar="Q", help="All of this queue that have not ended.")
@click.option("--watch", is_flag=True, help="Then watch until they have ended.")
def kill(state: Path, ids: tuple[str, ...], everything: bool, queue: str, watch: bool) -> None:
    """Have tasks ended. One that succeeds before that has succeeded."""
    if not ids and not everything and not queue:
        raise click.UsageError("name the tasks: ID..., --queue Q or --all")
    with RequestQueue(state) as box:
        known = task_view.rows(box)
        wanted = _known(known, ids) if ids else [row for row in known.values() if TaskFilter(queue=queue).matches(row)]
        going = [row.id for row in wanted if not row.ended]
        box.put(Kill(id) for id in going)
        ended = f", {len(wanted) - len(going)} had ended" if ids and len(going) < len(wanted) else ""
        print(f"{len(going)} to be killed{ended}{_idle_hint(box)}")
        if watch:
            _watch(box, going)


@tasks.command
@_state
@click.argument("ids", nargs=-1)
def watch(state: Path, ids: tuple[str, ...]) -> None:
    """Watch tasks until all have ended: these, or all there are. Exit 1 if one has not succeeded."""
    with RequestQueue(state) as box:
        _known(task_view.rows(box), ids)
        sys.exit(_watch(box, ids))


@tasks.command
@_state
@click.argument("ids", nargs=-1)
@click.option("--ended", is_flag=True, help="All tasks that have ended.")
def forget(state: Path, ids: tuple[str, ...], ended: bool) -> None:
    """Drop tasks that have ended; their ids are free again."""
    if not ids and not ended:
        raise click.UsageError("name the tasks: ID..., or --ended for all that have ended")
    with RequestQueue(state) as box:
        known = task_view.rows(box)
        wanted = _known(known, ids) if ids else [row for row in known.values() if row.ended]
        going = [row.id for row in wanted if not row.ended]
        if going:
            raise CommandProblem(f"task {going[0]!r} has not ended: `pyscheduler tasks kill` ends it")
        box.withdraw([row.id for row in wanted if row.record is None])
        box.put(Forget(row.id) for row in wanted if row.record is not None)
        print(f"{len(wanted)} to be forgotten{_idle_hint(box)}")


@tasks.command
@_state
def offers(state: Path) -> None:
    """Say what tasks hold, and what more may be used now."""
    with RequestQueue(state) as box:
        told = box.get_meta("offer")
        holder = box.holder()
    if not told:
        raise CommandProblem(f"{state}: nobody has worked it yet; `pyscheduler tasks run` does")
    print(told if holder else f"{told}\nas of when it was last worked; nobody works it now")


@tasks.command
@_state
@click.option("--kubeconfig", type=options.FILE, metavar="FILE", help="The way to the API server; in-cluster without.")
@click.option("--namespace", "-n", default="default", metavar="NS", help="Where the pods are.")
@click.option("--name", default="tasks", metavar="NAME", help="Which of several backends in the namespace this is.")
@click.option("--scheduler", default="pyscheduler", metavar="S", help="The scheduler of tasks that name none.")
@_many("--budget", "The most that all tasks together may hold: cpu=64, memory=256Gi, pods=500. Unlimited without.")
@click.option("--quota", is_flag=True, help="The budget is what the ResourceQuotas of the namespace leave.")
@click.option("--qps", type=click.FloatRange(min=0), default=200.0, help="API calls a second; 0 for no limit.")
@click.option("--once", is_flag=True, help="End when all tasks have; exit 1 if one has not succeeded.")
@click.option("--output", "-o", type=click.Choice(["text", "json"]), default="text", help="json: each change, a line.")
@options.logged
def run(**given: Any) -> None:
    """Work a state file: create pods for its tasks, see them through, clean up after them.

    Stop it with Ctrl-C, or kill it: pods go on, and the next run takes them up where they are.
    """
    from pyscheduler.cli.task_run import RunOptions, work

    sys.exit(options.run_async(work(RunOptions(**given))))


def _from_flags(id: str | None, command: Sequence[str], given: dict[str, Any]) -> TaskSpec:
    if not id:
        raise click.UsageError("name a task (ID --image I), or a file of tasks (--file FILE)")
    if not given["image"]:
        raise click.UsageError("--image says what to run; for a whole pod template use --file")
    fields = {name: value for name, value in given.items() if value not in ("", None, {}, False)}
    if "gang" in fields:
        fields["gang"] = _gang(fields["gang"])
    if "retry" in fields:
        fields["retry"] = _retry(fields["retry"])
    return validated(TaskSpec(id=id, command=tuple(command), **fields))


def _gang(text: str) -> Gang:
    name, _, size = text.rpartition(":")
    if not name or not size.isdecimal():
        raise click.BadParameter(f"{text!r} is not NAME:SIZE", param_hint="--gang")
    return Gang(name=name, size=int(size))


def _retry(numbers: dict[str, str]) -> RetryPolicy:
    for kind, number in numbers.items():
        if kind not in ("infrastructure", "application", "configuration") or not number.isdecimal():
            said = f"{kind}={number} is not infrastructure=N, application=N or configuration=N"
            raise click.BadParameter(said, param_hint="--retry")
    return RetryPolicy(**{kind: int(number) for kind, number in numbers.items()})


def _reject_other_spec(known: TaskRow | None, spec: TaskSpec) -> None:
    if known is not None and known.phase != task_view.REFUSED and known.spec != spec:
        raise CommandProblem(f"task {spec.id!r} is there already, and is another one: give this one another id")


def _known(rows: dict[str, TaskRow], ids: Sequence[str]) -> list[TaskRow]:
    missing = [id for id in ids if id not in rows]
    if missing:
        raise CommandProblem(f"there is no task {', '.join(map(repr, missing))}; `pyscheduler tasks list` shows all")
    return [rows[id] for id in ids]


def _idle_hint(box: RequestQueue) -> str:
    """A hint where nobody would do anything about it."""
    return "" if box.holder() else f"; nobody works {box.path}: `pyscheduler tasks run --state {box.path}` does"


def _watch(box: RequestQueue, ids: Sequence[str]) -> int:
    from pyscheduler.cli.task_watch import watch_tasks

    return watch_tasks(box, ids, _console(), _POLL_SECONDS)


def _console() -> Any:
    from rich.console import Console

    return Console(highlight=False)
