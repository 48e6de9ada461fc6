"""Expected errors of the command line, printed without a traceback."""

from __future__ import annotations

from pyscheduler.api import ApiError
from pyscheduler.backend.errors import BackendProblem
from pyscheduler.backend.state import StateProblem
from pyscheduler.backend.task import TaskProblem
from pyscheduler.cli.command_problem import CommandProblem, unreadable
from pyscheduler.config.problems import ConfigError
from pyscheduler.embedded import ApiServerError
from pyscheduler.kube.connection import ConnectionProblem
from pyscheduler.shell.serving.http import ServerProblem

__all__ = ["PROBLEMS", "CommandProblem", "describe", "unreadable"]


PROBLEMS: tuple[type[Exception], ...] = (
    CommandProblem,
    ConfigError,
    ConnectionProblem,
    ServerProblem,
    ApiServerError,
    BackendProblem,
    ApiError,
    StateProblem,
    TaskProblem,
)


def describe(problem: BaseException) -> str:
    """Return the error message, each line prefixed with the program's name."""
    return "\n".join(f"pyscheduler: {line}" for line in str(problem).splitlines())
