"""Expected errors of the command line, printed without a traceback."""

from __future__ import annotations

from pathlib import Path

from pyscheduler.api import ApiError
from pyscheduler.backend.errors import BackendProblem
from pyscheduler.backend.state import StateProblem
from pyscheduler.backend.task import TaskProblem
from pyscheduler.cli.command_problem import CommandProblem
from pyscheduler.config.problems import ConfigError
from pyscheduler.embedded import ApiServerError
from pyscheduler.kube.connection import ConnectionProblem
from pyscheduler.shell.serving.http import ServerProblem

__all__ = ["PROBLEMS", "CommandProblem", "describe", "unreadable"]


def unreadable(file: str | Path, error: Exception) -> CommandProblem:
    """Return the error for a file that cannot be read."""
    if isinstance(error, FileNotFoundError):
        return CommandProblem(f"{file}: cannot be read: No such file or directory; paths start at {Path.cwd()}")
    if isinstance(error, UnicodeError):
        return CommandProblem(f"{file}: cannot be read: {error}; save it as UTF-8")
    return CommandProblem(f"{file}: cannot be read: {getattr(error, 'strerror', None) or error}")


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
