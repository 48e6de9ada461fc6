"""Exceptions that the backend raises. Each message is one line that names the task."""

from __future__ import annotations


class BackendProblem(Exception):
    """Base class of the backend's exceptions."""


class BackendStopped(BackendProblem):
    """Backend is not running; the message gives the reason."""


class UnknownTask(BackendProblem, KeyError):
    """No task has this id."""

    def __str__(self) -> str:  # KeyError would quote it
        return str(self.args[0])


class TaskExists(BackendProblem):
    """Another task with this id has a different spec."""


class TaskFinal(BackendProblem):
    """Task is final and cannot change any more."""


class TaskUnsettled(BackendProblem):
    """Task is not final, or some of its pods still exist."""


class InsufficientResources(BackendProblem):
    """Offer is smaller than the task's requests; the message lists what is missing."""
