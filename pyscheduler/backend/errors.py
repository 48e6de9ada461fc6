"""What can go wrong between the backend and its owner. Each message is one line that names the task."""

from __future__ import annotations


class BackendProblem(Exception):
    """Base of these."""


class BackendStopped(BackendProblem):
    """The backend does not run (any more); the message says why."""


class UnknownTask(BackendProblem, KeyError):
    """There is no task with this id."""

    def __str__(self) -> str:  # KeyError would quote it
        return str(self.args[0])


class TaskExists(BackendProblem):
    """The id stands for a task with another spec."""


class TaskFinal(BackendProblem):
    """The task is final and does not change any more."""


class TaskUnsettled(BackendProblem):
    """The task is not final, or something of it is still in the cluster."""


class InsufficientResources(BackendProblem):
    """The offer is smaller than the task; the message says what is missing."""
