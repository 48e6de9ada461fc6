"""Common parts of `groups`, `queues` and `queue`: their options, and how they read and print, once or repeatedly."""

from __future__ import annotations

import asyncio
import os
import sys
import time
from collections.abc import Callable, Mapping
from functools import wraps
from pathlib import Path
from typing import Any, NamedTuple

import click
from rich.console import RenderableType
from rich.live import Live

from pyscheduler.cli import options
from pyscheduler.cli.batch_cluster import BatchCluster, ReadScope, batch_config
from pyscheduler.cli.batch_reader import ObjectReader
from pyscheduler.cli.console import print_part, stdout_console
from pyscheduler.cli.sections import option
from pyscheduler.config.load import load
from pyscheduler.core.context import Context
from pyscheduler.kube.connection import ConnectionOptions, connect

OUTPUT, _SCHEDULER = "Output", "Scheduler"
_PIPED_WIDTH = 240
"""Columns of a table that is not printed to a terminal, so that grep finds whole lines."""
_MAX_SHARE = 0.25
"""Share of the time that --watch may spend on reading: large clusters are read less often."""


class CommandOutput(NamedTuple):
    """Output of a command in both formats."""

    table: RenderableType
    lines: Mapping[str, str]
    """JSON of each row by its key."""
    summary: str = ""


Render = Callable[[Context, ReadScope], CommandOutput]


class Flags(NamedTuple):
    """Values of the common options."""

    kubeconfig: Path | None
    scheduler: str
    config: Path | None
    output: str
    watch: bool
    interval: float

    def cluster(self) -> BatchCluster:
        """Return an empty cluster with the plugins of the configuration. ConfigError, CommandProblem."""
        return BatchCluster(load(self.config) if self.config else batch_config(self.scheduler))


def kubeconfig_option(command: Callable[..., Any]) -> Callable[..., Any]:
    """Add --kubeconfig, with kubectl's defaults."""
    return option(
        "--kubeconfig",
        section=options.API_SERVER,
        type=options.FILE,
        callback=lambda _, __, file: file or _kubeconfig_of_user(),
        metavar="FILE",
        help="Kubeconfig (default: $KUBECONFIG, ~/.kube/config, in-cluster credentials).",
    )(command)


def _kubeconfig_of_user() -> Path | None:
    """Return ~/.kube/config if it exists and $KUBECONFIG, which takes precedence, is not set."""
    file = Path.home() / ".kube" / "config"
    return None if os.environ.get("KUBECONFIG") or not file.exists() else file


_OPTIONS = (
    kubeconfig_option,
    option(
        "--scheduler",
        section=_SCHEDULER,
        default="pyscheduler",
        metavar="NAME",
        help="schedulerName of the pods.",
    ),
    option(
        "--config",
        section=_SCHEDULER,
        type=options.FILE,
        metavar="FILE",
        help="Configuration of the scheduler, if its plugins have arguments or it has several profiles.",
    ),
    option(
        "--output",
        "-o",
        section=OUTPUT,
        type=click.Choice(["table", "json"]),
        default="table",
        help="json: one line per row.",
    ),
    option("--watch", "-w", section=OUTPUT, is_flag=True, help="Print changes until Ctrl-C."),
    option(
        "--interval",
        section=OUTPUT,
        type=options.FiniteRange(min=0.1),
        default=2.0,
        metavar="S",
        help="Seconds between two reads of --watch; more if a read takes long.",
    ),
)


def batch_options(command: Callable[..., None]) -> Callable[..., None]:
    """Add the common options to a command, which receives them as `flags`."""

    @wraps(command)
    def with_flags(**values: Any) -> None:
        own = {name: values.pop(name) for name in Flags._fields}
        command(flags=Flags(**own), **values)

    decorated: Callable[..., None] = with_flags
    for add in reversed(_OPTIONS):
        decorated = add(decorated)
    return decorated


def show(flags: Flags, namespace: str, cluster: BatchCluster, render: Render) -> None:
    """Print the output once, or with --watch whenever it changes."""
    options.logging("text", 0, quiet=True)
    try:
        options.run_async(_show(flags, namespace, cluster, render))
    except KeyboardInterrupt:
        if not flags.watch:
            raise


async def _show(flags: Flags, namespace: str, cluster: BatchCluster, render: Render) -> int:
    connection = await connect(flags.kubeconfig, ConnectionOptions(qps=-1))
    try:
        reader = ObjectReader(connection, cluster.kinds, namespace)

        async def read() -> CommandOutput:
            objects = await reader.read()
            jobs = await reader.succeeded_jobs(objects.pods)
            return render(cluster.load(objects), objects.scope._replace(succeeded_jobs=jobs))

        if not flags.watch:
            print_output(await read(), flags.output)
        elif flags.output == "table" and stdout_console(_PIPED_WIDTH).is_terminal:
            await _watch_live(read, flags.interval)
        else:
            await _watch_lines(read, flags)
    finally:
        await connection.close()
    return 0


async def _watch_live(read: Callable[[], Any], interval: float) -> None:
    screen = stdout_console(_PIPED_WIDTH)
    with Live(console=screen, auto_refresh=False, vertical_overflow="crop") as live:
        while True:
            began = time.monotonic()
            live.update((await read()).table, refresh=True)
            await _pause(time.monotonic() - began, interval)


async def _watch_lines(read: Callable[[], Any], flags: Flags) -> None:
    """Print the rows that have changed as JSON, or a table with a change."""
    printed: dict[str, str] = {}
    while True:
        began = time.monotonic()
        shown: CommandOutput = await read()
        changed = {key: line for key, line in shown.lines.items() if printed.get(key) != line}
        if flags.output == "json":
            for line in changed.values():
                print(line, flush=True)
        elif changed or shown.lines.keys() != printed.keys():
            print_output(shown, flags.output)
        printed = dict(shown.lines)
        await _pause(time.monotonic() - began, flags.interval)


async def _pause(read_seconds: float, interval: float) -> None:
    await asyncio.sleep(max(interval, read_seconds / _MAX_SHARE))


def print_output(shown: CommandOutput, output: str) -> None:
    if output == "json":
        for line in shown.lines.values():
            print(line)
        sys.stdout.flush()
        return
    print_part(stdout_console(_PIPED_WIDTH), shown.table)
    if shown.summary:
        print(shown.summary, flush=True)
