"""The `pyscheduler` command: one file per subcommand; here they are put together and problems become one line.

Exit codes: 0 done, 1 the request failed with its reason on stderr, 2 wrong usage.
"""

from __future__ import annotations

import sys
from collections.abc import Callable
from typing import Any

import typer

from pyscheduler.cli import config, evaluate, plugins, run, up
from pyscheduler.cli.problems import PROBLEMS, describe

app = typer.Typer(
    name="pyscheduler",
    help="A Kubernetes scheduler in Python: kube-scheduler's decisions, and plugins you can write in an afternoon.",
    epilog="New here? `pyscheduler up` starts a whole cluster in one process; nothing else is needed.",
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,
    rich_markup_mode=None,
)


def _add(name: str, command: Callable[..., Any]) -> None:
    app.command(name)(command)


_add("up", up.up)
_add("run", run.run)
_add("evaluate", evaluate.evaluate)
app.add_typer(config.app, name="config")
app.add_typer(plugins.app, name="plugins")


def main() -> None:
    """Run the command line; never a traceback for what a person can mend."""
    try:
        app()
    except PROBLEMS as problem:
        print(describe(problem), file=sys.stderr)
        sys.exit(1)
