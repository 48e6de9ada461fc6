"""`pyscheduler tasks`: the task backend on the command line. One process runs a state file, others send requests."""

from __future__ import annotations

import sys
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, Final

import click
import yaml

from pyscheduler.api.objects import Toleration
from pyscheduler.backend.state.request_queue import Forget, Kill, RequestQueue, Submit
from pyscheduler.backend.task import RetryPolicy, TaskGang, TaskSpec
from pyscheduler.cli import options, task_view
from pyscheduler.cli.problems import CommandProblem
from pyscheduler.cli.sections import FullHelpGroup, SectionedCommand, option
from pyscheduler.cli.task_file import read_tasks, validated
from pyscheduler.cli.task_orphans import orphans
from pyscheduler.cli.task_view import TaskFilter, TaskRow

_HELP = """Run a platform's jobs as pods, one pod each: submit, list, kill, watch.

`tasks run` is the process that creates the pods of a state file, watches them and cleans up after them. All other
commands read that file or add requests to it, so they work on the same machine, also while `tasks run` is stopped.

\b
Run a first task, in two terminals (for a test cluster: pyscheduler up --kubeconfig-out kubeconfig):
  pyscheduler tasks run --kubeconfig kubeconfig
  pyscheduler tasks submit hello --image busybox:1.37 --annotation pyscheduler.io/run-seconds=1 -- echo hello
  pyscheduler tasks watch

Hollow nodes run no containers: the annotation is the run time there, and has no effect on other nodes.

`run` may be killed at any time and resumes at its next start: no task is lost or run twice. See docs/tasks.md.
"""
_SUBMIT_HELP = """Submit tasks: one from flags, or many from a file.

\b
  pyscheduler tasks submit nightly-7 --image etl:3 --cpu 500m --memory 1Gi --retry application=2 -- load --day 7
  pyscheduler tasks submit --file tasks.yaml

A file has YAML documents, each a task or a list of tasks, or JSON with one task per line. Keys are those of TaskSpec:

\b
  id: nightly-7                 # submitting an id twice creates one task
  image: etl:3                  # or `pod:`, a pod template with metadata and spec
  command: [load, --day, "7"]
  cpu: 500m
  memory: 1Gi
  queue: nightly
  retry: {infrastructure: 5, application: 2}
  deadline_seconds: 3600
"""
_POD, _SCHEDULING, _ATTEMPTS, _LIMITS = "Pod", "Scheduling", "Attempts", "Limits"
_POLL_SECONDS = 0.3
"""Interval between two reads of the state file in seconds."""


@click.group(cls=FullHelpGroup, context_settings={"show_default": True}, help=_HELP)
def tasks() -> None:
    pass


def _pairs(_: click.Context, __: click.Parameter, texts: tuple[str, ...]) -> dict[str, str]:
    """Parse NAME=VALUE texts. BadParameter."""
    for text in texts:
        if "=" not in text.strip("="):
            raise click.BadParameter(f"{text!r} is not NAME=VALUE")
    return dict(text.split("=", 1) for text in texts)


def _tolerations(_: click.Context, __: click.Parameter, texts: tuple[str, ...]) -> tuple[Toleration, ...]:
    """Parse KEY[=VALUE][:EFFECT] texts. BadParameter."""
    return tuple(map(_toleration, texts))


def _toleration(text: str) -> Toleration:
    taint, _, effect = text.partition(":")
    key, has_value, value = taint.partition("=")
    if not key or effect not in ("", "NoSchedule", "PreferNoSchedule", "NoExecute"):
        raise click.BadParameter(f"{text!r} is not KEY[=VALUE][:EFFECT]")
    return Toleration(key=key, operator="Equal" if has_value else "Exists", value=value, effect=effect)


def _many(flag: str, section: str, help: str, *names: str) -> Callable[..., Any]:
    text = f"{help} May be repeated."
    return option(flag, *names, section=section, multiple=True, callback=_pairs, metavar="NAME=VALUE", help=text)


@tasks.command(cls=SectionedCommand, help=_SUBMIT_HELP)
@click.argument("id", required=False)
@click.argument("command", nargs=-1, type=click.UNPROCESSED)
@options.task_state
@option("--file", "-f", section=options.TASKS, metavar="FILE", help="Read tasks from FILE; - is standard input.")
@option("--image", section=_POD, default="", metavar="I", help="Image of the container.")
@option("--cpu", section=_POD, default="", metavar="Q", help="CPU request: 500m, 2.")
@option("--memory", section=_POD, default="", metavar="Q", help="Memory request: 512Mi, 4Gi.")
@_many("--resource", _POD, "Other resource requests: nvidia.com/gpu=1.", "resources")
@_many("--limit", _POD, "Resource limits: memory=2Gi.", "limits")
@_many("--env", _POD, "Environment variables.")
@option(
    "--arg",
    "args",
    section=_POD,
    multiple=True,
    metavar="A",
    help="Argument of the image's entrypoint. May be repeated.",
)
@option(
    "--pull-secret",
    "pull_secrets",
    section=_POD,
    multiple=True,
    metavar="S",
    help="Image pull secret. May be repeated.",
)
@option("--service-account", section=_POD, default="", metavar="SA", help="Service account of the pod.")
@_many("--label", _POD, "Labels of the pod.", "labels")
@_many("--annotation", _POD, "Annotations of the pod.", "annotations")
@option(
    "--toleration",
    "tolerations",
    section=_SCHEDULING,
    multiple=True,
    callback=_tolerations,
    metavar="KEY[=VALUE][:EFFECT]",
    help="Tolerations of the pod. May be repeated.",
)
@option(
    "--priority",
    section=_SCHEDULING,
    type=int,
    default=0,
    metavar="N",
    help="Order in the queue of `run`: higher first.",
)
@_many("--node-selector", _SCHEDULING, "Node labels that the pod requires.")
@option("--priority-class", section=_SCHEDULING, default="", metavar="P", help="PriorityClass of the pod.")
@option(
    "--queue",
    section=_SCHEDULING,
    default="",
    metavar="Q",
    help="Queue label, for plugins and tools that share resources.",
)
@option(
    "--gang",
    section=_SCHEDULING,
    default="",
    metavar="NAME:SIZE",
    help="Start SIZE tasks of gang NAME together or not at all.",
)
@option(
    "--scheduler",
    section=_SCHEDULING,
    default="",
    metavar="S",
    help="schedulerName of the pod (default: that of `run`).",
)
@_many("--retry", _ATTEMPTS, "Retries per failure kind: application=2, infrastructure=5, configuration=0.")
@option(
    "--pending-seconds",
    section=_ATTEMPTS,
    type=options.FiniteNumber(),
    metavar="S",
    help="Time limit for waiting for room (default: none).",
)
@option(
    "--start-seconds",
    section=_ATTEMPTS,
    type=options.FiniteNumber(),
    metavar="S",
    help="Time limit of a pod with a node to start (default: 600).",
)
@option(
    "--deadline-seconds",
    section=_ATTEMPTS,
    type=options.FiniteNumber(),
    metavar="S",
    help="Time limit of the task, including all attempts.",
)
@option(
    "--watch",
    section=options.TASKS,
    is_flag=True,
    help="Watch the tasks until they have ended; exit 1 if one did not succeed.",
)
def submit(id: str | None, command: tuple[str, ...], state: Path, file: str | None, watch: bool, **flags: Any) -> None:
    specs = read_tasks(file) if file is not None else [_from_flags(id, command, flags)]
    if file is not None and (id or any(value for name, value in flags.items())):
        raise click.UsageError("--file cannot be combined with an ID or other flags: use one or the other")
    with RequestQueue(state, create=True) as queue:
        rows = task_view.rows(queue, [spec.id for spec in specs])
        for spec in specs:
            _reject_other_spec(rows.get(spec.id), spec)
        new = [spec for spec in specs if spec.id not in rows or rows[spec.id].phase == task_view.REFUSED]
        queue.withdraw([spec.id for spec in new])
        queue.put(Submit(spec) for spec in new)
        repeated = f", {len(specs) - len(new)} submitted before" if len(new) < len(specs) else ""
        print(f"{len(new)} submitted{repeated}{_idle_hint(queue)}")
        if watch:
            sys.exit(_watch(queue, [spec.id for spec in specs]))


tasks.add_command(orphans)


@tasks.command(name="list")
@options.task_state
@click.option(
    "--phase",
    "phases",
    multiple=True,
    type=click.Choice(task_view.PHASES, case_sensitive=False),
    metavar="P",
    help=f"Only tasks in this phase: {', '.join(task_view.PHASES)}. May be repeated.",
)
@option("--queue", default="", metavar="Q", help="Only tasks of this queue.")
@option("--id", "pattern", default="", metavar="PATTERN", help="Only tasks with a matching id: nightly-*.")
@click.option("--limit", type=options.IntegerRange(min=1), default=100, metavar="N", help="Only the last N tasks.")
@click.option("--output", "-o", type=click.Choice(["table", "json"]), default="table", help="json: one line per task.")
def list_(state: Path, phases: tuple[str, ...], queue: str, pattern: str, limit: int, output: str) -> None:
    """List tasks, and count them by phase."""
    filter = TaskFilter(phases, queue, pattern)
    with RequestQueue(state) as requests:
        rows = [row for row in task_view.rows(requests, phases=phases).values() if filter.matches(row)]
        if output == "json":
            for row in rows:
                print(task_view.as_json(row))
            return
        if rows:
            _console().print(task_view.table(rows[-limit:], time.time()))
        omitted = f" (the last {limit} shown; --limit shows more)" if len(rows) > limit else ""
        print(f"{task_view.counts(rows)}{omitted}{_idle_hint(requests)}")


@tasks.command
@options.task_state
@click.argument("id")
def show(state: Path, id: str) -> None:
    """Show all fields of a task as YAML."""
    with RequestQueue(state) as queue:
        row = _select(task_view.rows(queue, [id]), [id])[0]
    print(yaml.safe_dump(dict(task_view.details(row)), sort_keys=False, allow_unicode=True), end="")


@tasks.command
@options.task_state
@click.argument("ids", nargs=-1)
@click.option("--all", "everything", is_flag=True, help="Kill all tasks that have not ended.")
@option("--queue", default="", metavar="Q", help="Kill all tasks of this queue that have not ended.")
@click.option("--watch", is_flag=True, help="Watch the tasks until they have ended.")
def kill(state: Path, ids: tuple[str, ...], everything: bool, queue: str, watch: bool) -> None:
    """Kill tasks. A task that succeeds before it is stopped counts as succeeded."""
    if not ids and not everything and not queue:
        raise click.UsageError("name the tasks: ID..., --queue Q or --all")
    with RequestQueue(state) as requests:
        rows = task_view.rows(requests, ids or None, task_view.CURRENT)
        selected = _select(rows, ids) if ids else [row for row in rows.values() if TaskFilter(queue=queue).matches(row)]
        running = [row.id for row in selected if not row.ended]
        requests.put(Kill(id) for id in running)
        ended = f", {len(selected) - len(running)} already ended" if ids and len(running) < len(selected) else ""
        print(f"{len(running)} to be killed{ended}{_idle_hint(requests)}")
        if watch and running:
            _watch(requests, running)


@tasks.command
@options.task_state
@click.argument("ids", nargs=-1)
def watch(state: Path, ids: tuple[str, ...]) -> None:
    """Watch tasks, all without IDS, until they have ended. Exits with 1 if one did not succeed."""
    with RequestQueue(state) as queue:
        _select(task_view.rows(queue, ids), ids)
        sys.exit(_watch(queue, ids or None))


@tasks.command
@options.task_state
@click.argument("ids", nargs=-1)
@click.option("--ended", is_flag=True, help="Forget all tasks that have ended.")
def forget(state: Path, ids: tuple[str, ...], ended: bool) -> None:
    """Delete the records of ended tasks. Their ids can be reused."""
    if not ids and not ended:
        raise click.UsageError("name the tasks: ID..., or --ended for all that have ended")
    with RequestQueue(state) as queue:
        rows = task_view.rows(queue, ids or None, task_view.ENDED)
        selected = _select(rows, ids) if ids else [row for row in rows.values() if row.ended]
        running = [row.id for row in selected if not row.ended]
        if running:
            raise CommandProblem(f"task {running[0]!r} has not ended: kill it first with `pyscheduler tasks kill`")
        queue.withdraw([row.id for row in selected if row.record is None])
        queue.put(Forget(row.id) for row in selected if row.record is not None)
        print(f"{len(selected)} to be forgotten{_idle_hint(queue)}")


@tasks.command(name="logs")
@options.task_state
@click.argument("id")
@click.option("--follow", "-f", is_flag=True, help="Print the log until the container has ended.")
@click.option("--tail", type=options.IntegerRange(min=0), metavar="N", help="Only the last N lines.")
@click.option(
    "--container", "-c", default="", show_default=False, metavar="C", help="Container; not needed for pods with one."
)
@click.option("--attempt", type=options.IntegerRange(min=1), metavar="N", help="Attempt (default: the last one).")
def logs_(state: Path, id: str, **flags: Any) -> None:
    """Print the log of a task's pod, of the cluster that `tasks run` uses.

    A pod is deleted with its log once its end is recorded, unless `run` keeps failed pods (--keep-failed-seconds) or
    stores logs (--logs).
    """
    from pyscheduler.cli.task_logs import LogOptions, print_log

    with RequestQueue(state) as queue:
        row = _select(task_view.rows(queue, [id]), [id])[0]
        source = queue.get_meta("source")
    sys.exit(options.run_async(print_log(row, source, LogOptions(**flags))))


@tasks.command
@options.task_state
def offers(state: Path) -> None:
    """Show the resources that tasks use, and those that are free."""
    with RequestQueue(state) as queue:
        offer = queue.get_meta("offer")
        holder = queue.holder()
    if not offer:
        raise CommandProblem(f"{state}: has no offer yet; start `pyscheduler tasks run`")
    print(offer if holder else f"{offer}\nas of the last `pyscheduler tasks run`, which is not running")


@tasks.command(cls=SectionedCommand)
@options.task_state
@option(
    "--kubeconfig",
    section=options.API_SERVER,
    type=options.FILE,
    metavar="FILE",
    help="Kubeconfig (default: $KUBECONFIG, in-cluster credentials).",
)
@option("--context", section=options.API_SERVER, default="", metavar="C", help="Context of the kubeconfig.")
@option("--namespace", "-n", section=options.API_SERVER, default="default", metavar="NS", help="Namespace of the pods.")
@option(
    "--name",
    section=options.TASKS,
    default="tasks",
    metavar="NAME",
    help="Name of this backend, unique in the namespace.",
)
@option(
    "--scheduler", section=options.TASKS, default="pyscheduler", metavar="S", help="Default schedulerName of tasks."
)
@_many(
    "--budget",
    _LIMITS,
    "Limit of all tasks together: cpu=64, memory=256Gi, pods=500 (default: the quotas).",
)
@option(
    "--quota",
    section=_LIMITS,
    is_flag=True,
    help="Fail if the ResourceQuotas, which limit the tasks without --budget, cannot be read.",
)
@option(
    "--keep-failed-seconds",
    section=options.TASKS,
    type=options.SECONDS,
    default=0.0,
    metavar="S",
    help="Keep failed pods for a time, for `tasks logs` and `kubectl describe`.",
)
@option(
    "--logs",
    section=options.TASKS,
    default="",
    metavar="DEST",
    help="Store the log of each pod before it is deleted: a folder, s3://BUCKET/PREFIX, or - for standard output.",
)
@option(
    "--qps",
    section=options.API_SERVER,
    type=options.SECONDS,
    default=200.0,
    metavar="N",
    help="API calls per second; 0 for no limit.",
)
@option(
    "--finalizer/--no-finalizer",
    section=options.TASKS,
    default=True,
    help="Keep pods until their end is recorded. Without it, namespaces can be deleted while no backend runs.",
)
@option(
    "--ttl-seconds",
    section=options.TASKS,
    type=options.SECONDS,
    metavar="S",
    help="Time after which the records of ended tasks are forgotten (default: never).",
)
@option(
    "--metrics-port",
    section=options.TASKS,
    type=options.IntegerRange(0, 65535),
    metavar="P",
    help="Serve Prometheus metrics at this port of all addresses.",
)
@option(
    "--once", section=options.TASKS, is_flag=True, help="Exit when all tasks have ended, with 1 if one did not succeed."
)
@option(
    "--output",
    "-o",
    section=options.TASKS,
    type=click.Choice(["text", "json"]),
    default="text",
    help="json: one line per change.",
)
@options.logged
def run(**flags: Any) -> None:
    """Run the tasks of a state file as pods.

    It creates their pods, watches them and cleans up after them. Stop it with Ctrl-C, or kill it: the pods keep
    running, and the next `tasks run` manages them.

    \b
      pyscheduler tasks run --kubeconfig kubeconfig --budget cpu=64
    """
    from pyscheduler.cli.task_run import RunOptions, work

    sys.exit(options.run_async(work(RunOptions(**flags))))


_EMPTY: Final[tuple[object, ...]] = ("", {}, ())


def _from_flags(id: str | None, command: Sequence[str], flags: dict[str, Any]) -> TaskSpec:
    if not id:
        raise click.UsageError("name a task (ID --image I), or a file of tasks (--file FILE)")
    if not flags["image"]:
        raise click.UsageError("--image is required; for a pod template use --file")
    fields = {
        name: value for name, value in flags.items() if value is not None and value is not False and value not in _EMPTY
    }
    if "gang" in fields:
        fields["gang"] = _gang(fields["gang"])
    if "retry" in fields:
        fields["retry"] = _retry(fields["retry"])
    return validated(TaskSpec(id=id, command=tuple(command), **fields))


def _gang(text: str) -> TaskGang:
    name, _, size = text.rpartition(":")
    if not name or not size.isdecimal():
        raise click.BadParameter(f"{text!r} is not NAME:SIZE", param_hint="--gang")
    return TaskGang(name=name, size=int(size))


def _retry(numbers: dict[str, str]) -> RetryPolicy:
    for kind, number in numbers.items():
        if kind not in ("infrastructure", "application", "configuration") or not number.isdecimal():
            message = f"{kind}={number} is not infrastructure=N, application=N or configuration=N"
            raise click.BadParameter(message, param_hint="--retry")
    return RetryPolicy(**{kind: int(number) for kind, number in numbers.items()})


def _reject_other_spec(row: TaskRow | None, spec: TaskSpec) -> None:
    if row is not None and row.phase != task_view.REFUSED and row.spec != spec:
        raise CommandProblem(f"task {spec.id!r} already exists with another spec: use another id")


def _select(rows: dict[str, TaskRow], ids: Sequence[str]) -> list[TaskRow]:
    missing = [id for id in ids if id not in rows]
    if missing:
        raise CommandProblem(f"there is no task {', '.join(map(repr, missing))}; `pyscheduler tasks list` shows all")
    return [rows[id] for id in ids]


def _idle_hint(queue: RequestQueue) -> str:
    """Return a hint to start `tasks run` if no process runs the state file, "" otherwise."""
    return "" if queue.holder() else f"; not running, start it with `pyscheduler tasks run --state {queue.path}`"


def _watch(queue: RequestQueue, ids: Sequence[str] | None) -> int:
    from pyscheduler.cli.task_watch import watch_tasks

    return watch_tasks(queue, ids, _console(), _POLL_SECONDS)


def _console() -> Any:
    from rich.console import Console

    return Console(highlight=False)
