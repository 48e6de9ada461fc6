"""The exceptions that a person can do something about: shown as lines, without a traceback."""

from __future__ import annotations

from pyscheduler.backend.client import ClusterProblem
from pyscheduler.backend.errors import BackendProblem
from pyscheduler.backend.state import StateProblem
from pyscheduler.backend.task import TaskProblem
from pyscheduler.config.problems import ConfigError
from pyscheduler.controllers.connection import ControllerProblem
from pyscheduler.embedded import ApiServerError
from pyscheduler.shell.kube.connection import ConnectionProblem
from pyscheduler.shell.serving.http import ServerProblem


class CommandProblem(Exception):
    """A command cannot do what it was asked; the text says why and what to do."""


PROBLEMS: tuple[type[Exception], ...] = (
    CommandProblem,
    ConfigError,
    ConnectionProblem,
    ServerProblem,
    ApiServerError,
    ControllerProblem,
    BackendProblem,
    ClusterProblem,
    StateProblem,
    TaskProblem,
)


def describe(problem: BaseException) -> str:
    """The problem as a person should read it, each line under the program's name."""
    return "\n".join(f"pyscheduler: {line}" for line in str(problem).splitlines())
