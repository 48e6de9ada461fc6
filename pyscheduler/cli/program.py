"""Command line of `pyscheduler`. Each subcommand has its own module; expected errors are printed as one line."""

from __future__ import annotations

import signal
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from typing import NoReturn

import click

import pyscheduler
from pyscheduler import interrupt
from pyscheduler.cli.commands import Commands

_EPILOG = """\b
New here? Start a whole cluster in one process, nothing else is needed:
  pyscheduler up

\b
Explain why a pod is pending, write a configuration, run it on a real cluster, or in it:
  pyscheduler explain NAMESPACE/POD
  pyscheduler run --write-config-to scheduler.yaml
  pyscheduler run --config scheduler.yaml --kubeconfig ~/.kube/config
  pyscheduler manifests second-scheduler --image IMAGE | kubectl apply -f -
"""


@click.group(cls=Commands, epilog=_EPILOG, context_settings={"show_default": True, "max_content_width": 100})
@click.version_option(pyscheduler.__version__, prog_name="pyscheduler", message="%(prog)s %(version)s")
def app() -> None:
    """A Kubernetes scheduler in Python: kube-scheduler's decisions, and plugins you can write in an afternoon."""


def run() -> NoReturn:
    """Run the command line and exit; print expected errors without a traceback."""
    try:
        with _interruptible():
            code = app.main(prog_name="pyscheduler", standalone_mode=False)
    except (click.Abort, KeyboardInterrupt):
        sys.exit(interrupt.EXIT_CODE)
    except click.ClickException as problem:
        problem.show()
        sys.exit(problem.exit_code)
    except Exception as problem:
        if _is_interrupt(problem):
            sys.exit(interrupt.EXIT_CODE)
        # Imported here because it imports many libraries, which a successful start should not wait for.
        from pyscheduler.cli.problems import PROBLEMS, describe

        if not isinstance(problem, PROBLEMS):
            raise
        print(describe(problem), file=sys.stderr)
        sys.exit(1)
    sys.exit(code or 0)


def _is_interrupt(problem: BaseException | None) -> bool:
    """Return True if Ctrl-C caused the exception.

    Before Python 3.12, an exception in `__set_name__`, such as KeyboardInterrupt during an import, was wrapped in a
    RuntimeError.
    """
    while problem is not None and not isinstance(problem, KeyboardInterrupt):
        problem = problem.__cause__
    return problem is not None


@contextmanager
def _interruptible() -> Iterator[None]:
    """Let Ctrl-C raise KeyboardInterrupt, so that a command cleans up, if it would end the process."""
    if signal.getsignal(signal.SIGINT) is not interrupt.exit_process:
        yield
        return
    try:
        signal.signal(signal.SIGINT, signal.default_int_handler)
        yield
    finally:
        signal.signal(signal.SIGINT, interrupt.exit_process)
