"""Rejections of a task's pod by the API server: the outcome of each, and whether the server may accept the pod later.

Status, reason, details and causes decide where the API has them. Two admission plugins name themselves in the message
only; their fixed words count directly after `pods "NAME" is forbidden: `, so that no name of a task or object is read
as one.
"""

from __future__ import annotations

from typing import Final, NamedTuple

from pyscheduler.api import ApiError
from pyscheduler.backend.errors import is_in_terminating_namespace, is_retriable
from pyscheduler.backend.outcomes import Outcome
from pyscheduler.kube.errors import RequestError, StatusDetails

_FORBIDDEN: Final = 403
_QUOTA: Final = ("exceeded quota: ", "status unknown for quota: ")
_POD_SECURITY: Final = 'violates PodSecurity "'


class CreateRejection(NamedTuple):
    """Rejection of a pod by the API server; `retriable` if it may accept the pod later (quota or RBAC changes)."""

    outcome: Outcome
    message: str
    since: float
    retriable: bool


def rejection_of(problem: ApiError, pod: str, since: float) -> CreateRejection | None:
    """Return the rejection of the create of a pod of this name; None if the call failed for another reason."""
    if not 400 <= problem.status < 500:
        return None
    outcome = _outcome(problem, pod)
    if outcome is Outcome.REFUSED and problem.status != _FORBIDDEN and is_retriable(problem):
        return None
    retriable = problem.status == _FORBIDDEN and outcome in (Outcome.QUOTA, Outcome.FORBIDDEN, Outcome.REFUSED)
    return CreateRejection(outcome, str(problem), since, retriable)


def _outcome(problem: ApiError, pod: str) -> Outcome:
    details = problem.details if isinstance(problem, RequestError) and problem.details else StatusDetails()
    if is_in_terminating_namespace(problem) or (problem.reason == "NotFound" and details.kind == "namespaces"):
        return Outcome.NAMESPACE_DELETED
    if problem.status != _FORBIDDEN:
        return Outcome.REFUSED
    if details.kind == "pods" and not details.name:
        return Outcome.FORBIDDEN  # the authorizer has no name for a create, admission plugins have
    _, prefix, text = str(problem).partition(f'pods "{pod}" is forbidden: ')
    if prefix and text.startswith(_QUOTA):
        return Outcome.QUOTA
    return Outcome.POD_SECURITY if prefix and text.startswith(_POD_SECURITY) else Outcome.REFUSED
