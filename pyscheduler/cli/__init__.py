"""The `pyscheduler` command: one file per subcommand; here they are put together and problems become one line.

Exit codes: 0 done, 1 the request failed with its reason on stderr, 2 wrong usage.
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
    """Run the command line; never a traceback for what a person can mend."""
    try:
        app()
    except Exception as problem:
        # The module knows every library that has a way to fail: nothing that a good start should wait for.
        from pyscheduler.cli.problems import PROBLEMS, describe

        if not isinstance(problem, PROBLEMS):
            raise
        print(describe(problem), file=sys.stderr)
        sys.exit(1)
