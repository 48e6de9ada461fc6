"""The subcommands by name, each imported when it is asked for.

What one of them needs (an operator framework, an API server, a terminal library) takes the others half a second to
import, and a scheduler that starts has no use for it.
"""

from __future__ import annotations

import os
from importlib import import_module
from typing import Any, Final

import click

from pyscheduler.shell.gc_tuning import defer_first_collection

HELP: Final = {
    "up": "Start a cluster in this process: API server, hollow nodes, controllers and the scheduler.",
    "run": "Schedule the pods whose spec.schedulerName is a profile of FILE; leave all others alone.",
    "tasks": "Run a platform's jobs as pods, one pod each: submit, list, kill, watch.",
    "evaluate": "Say what each plugin says of each node: JSON lines in, JSON lines out.",
    "config": "Check and show configuration files.",
    "plugins": "The plugins that configurations can name.",
    "bench": "Measure a plugin or, in a checkout of the source after `make test`, the scheduler.",
}
"""What `pyscheduler --help` says of each. The module of that name has a command of that name."""


class Commands(click.Group):
    """The group of all subcommands."""

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        names: Any = dict.fromkeys(HELP)  # which is all that a mistyped one is compared with
        self.commands = names

    def list_commands(self, _: click.Context) -> list[str]:
        return list(HELP)

    def get_command(self, _: click.Context, cmd_name: str) -> click.Command | None:
        if cmd_name not in HELP:
            return None
        defer_first_collection()
        # Nothing here has use for the threads that NumPy's linear algebra starts when it is imported.
        os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")
        command: click.Command = getattr(import_module(f"pyscheduler.cli.{cmd_name}"), cmd_name)
        return command

    def format_commands(self, _: click.Context, formatter: click.HelpFormatter) -> None:
        with formatter.section("Commands"):
            formatter.write_dl(list(HELP.items()))
