"""Exceptions that the backend raises, and the retry rules for failed API calls.

Each message is one line that names the task.
"""

from __future__ import annotations

from pyscheduler.api import ApiError
from pyscheduler.kube.errors import RequestError


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


class NoOrphan(BackendProblem):
    """No pod of this name can be adopted."""


class InsufficientResources(BackendProblem):
    """Offer is smaller than the task's requests; the message lists what is missing."""


def is_retriable(problem: ApiError) -> bool:
    """Return True if a retry of the call may succeed: RBAC and quotas change, servers come back."""
    return problem.status in (0, 401, 403, 408, 409, 429) or problem.status >= 500


def is_in_terminating_namespace(problem: ApiError) -> bool:
    """Return True if a create was rejected because its namespace is being deleted."""
    details = problem.details if isinstance(problem, RequestError) else None
    return details is not None and any(cause.reason == "NamespaceTerminating" for cause in details.causes or ())


def retry_after(problem: ApiError) -> float:
    """Return the seconds after which the server wants the call retried, 0 if it named none."""
    return (problem.retry_after or 0.0) if isinstance(problem, RequestError) else 0.0
