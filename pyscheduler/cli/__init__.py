"""The `pyscheduler` command. Each subcommand has its own module; expected errors are printed as one line.

Exit codes: 0 success, 1 failure with the reason on stderr, 2 wrong usage.
"""

from __future__ import annotations

import sys

import click

from pyscheduler.cli.commands import Commands


@click.group(
    cls=Commands,
    epilog="New here? `pyscheduler up` starts a whole cluster in one process; nothing else is needed.",
    context_settings={"show_default": True},
)
def app() -> None:
    """A Kubernetes scheduler in Python: kube-scheduler's decisions, and plugins you can write in an afternoon."""


def main() -> None:
    """Run the command line; print expected errors without a traceback."""
    try:
        app()
    except Exception as problem:
        # Imported here because it imports many libraries, which a successful start should not wait for.
        from pyscheduler.cli.problems import PROBLEMS, describe

        if not isinstance(problem, PROBLEMS):
            raise
        print(describe(problem), file=sys.stderr)
        sys.exit(1)
