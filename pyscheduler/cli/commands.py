"""Subcommands by name, each imported when it is used.

The libraries of some commands (operator framework, API server, terminal library) take half a second to import, which
`run` should not wait for.
"""

from __future__ import annotations

import os
from importlib import import_module
from typing import Any, Final

import click
from click.exceptions import NoArgsIsHelpError
from click.shell_completion import CompletionItem

from pyscheduler.shell.gc_tuning import defer_first_collection

HELP: Final = {
    "up": "Start a cluster in this process: API server, hollow nodes, controllers and the scheduler.",
    "nodes": "Add, remove, fail, recover and drain nodes of a running cluster.",
    "snapshot": "Write all objects of a cluster to FILE, for `up --restore` and `up --load`.",
    "run": "Run the scheduler against a Kubernetes API server.",
    "tasks": "Run a platform's jobs as pods, one pod each: submit, list, kill, watch.",
    "groups": "Show pod groups: members, state, and why a group waits. A NAME shows its pods and nodes.",
    "queues": "Show the tree of queues: shares, usage, and the group that is next in each and why it waits.",
    "queue": "Stop and resume queues.",
    "explain": "Explain why pods are pending or where they are, and what would let them fit.",
    "evaluate": "Explain decisions: what each plugin returns for each node, as JSON, without an API server.",
    "replay": "Replay the decisions of a recording, and explain any of them.",
    "simulate": "Simulate hours of a cluster in seconds: which jobs start when, and why others wait.",
    "config": "Validate configuration files and show their defaults.",
    "plugins": "List the installed plugins, and what replaces those of other schedulers.",
    "manifests": "Print the manifests that install the scheduler, and the paths of examples and configurations.",
    "completion": "Print the script that completes commands and options in SHELL.",
    "bench": "Measure a plugin or, in a source checkout after `make test`, the scheduler.",
}
"""Help line of each command in `pyscheduler --help`; module and function have the command's name."""


OTHER_NAMES: Final = {
    **dict.fromkeys(("describe", "why"), "explain"),
    **dict.fromkeys(("create", "start"), "up"),
    **dict.fromkeys(("schedule", "scheduler"), "run"),
    "validate": "config validate",
    "version": "--version",
    "help": "--help",
}
"""Names of other programs' commands, and the one of the same purpose here."""


def in_one_line(problem: click.UsageError) -> click.UsageError:
    """Return a usage error of one line, with the command whose help lists what is accepted."""
    context = problem.ctx
    if context is None or isinstance(problem, NoArgsIsHelpError):
        return problem
    reason = " ".join(problem.format_message().split()).rstrip(".")
    return click.UsageError(f"{reason}; try '{context.command_path} --help'")


class Commands(click.Group):
    """Group of all subcommands, which imports a command when it is used."""

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        names: Any = dict.fromkeys(HELP)  # click suggests one of these for a mistyped command
        self.commands = names

    def make_context(
        self, info_name: str | None, args: list[str], parent: click.Context | None = None, **extra: Any
    ) -> click.Context:
        try:
            return super().make_context(info_name, args, parent, **extra)
        except click.UsageError as problem:
            raise in_one_line(problem) from None

    def invoke(self, ctx: click.Context) -> Any:
        try:
            return super().invoke(ctx)
        except click.UsageError as problem:
            raise in_one_line(problem) from None

    def list_commands(self, _: click.Context) -> list[str]:
        return list(HELP)

    def get_command(self, _: click.Context, cmd_name: str) -> click.Command | None:
        if cmd_name not in HELP:
            return None
        defer_first_collection()
        # NumPy's linear algebra, unused here, would start threads at import.
        os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")
        command: click.Command = getattr(import_module(f"pyscheduler.cli.{cmd_name}"), cmd_name)
        return command

    def resolve_command(
        self, ctx: click.Context, args: list[str]
    ) -> tuple[str | None, click.Command | None, list[str]]:
        if args[0] in OTHER_NAMES and not ctx.resilient_parsing:
            ctx.fail(f"No such command '{args[0]}'. Did you mean '{OTHER_NAMES[args[0]]}'?")
        return super().resolve_command(ctx, args)

    def shell_complete(self, ctx: click.Context, incomplete: str) -> list[CompletionItem]:
        commands = [CompletionItem(name, help=text) for name, text in HELP.items() if name.startswith(incomplete)]
        # click's own method would import every command.
        return commands + click.Command.shell_complete(self, ctx, incomplete)

    def format_commands(self, _: click.Context, formatter: click.HelpFormatter) -> None:
        with formatter.section("Commands"):
            formatter.write_dl(list(HELP.items()))
