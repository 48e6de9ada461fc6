"""Outcomes of creates that the API server rejects: the fields of its Status decide, never a word in a name."""

from __future__ import annotations

import pytest

from pyscheduler.api import ApiError
from pyscheduler.backend import Outcome
from pyscheduler.backend.rejections import rejection_of
from pyscheduler.kube.errors import RequestError, StatusCause, StatusDetails

POD = "nightly-quota-report-1"
OF_POD = StatusDetails(name=POD, kind="pods")
TERMINATING = StatusDetails(name=POD, kind="pods", causes=(StatusCause(reason="NamespaceTerminating"),))


def forbidden(text: str, details: StatusDetails | None = OF_POD) -> ApiError:
    return RequestError(403, "Forbidden", text, details=details)


NAMED = f'pods "{POD}" is forbidden: '
CASES = [
    pytest.param(
        forbidden(NAMED + "exceeded quota: q, requested: pods=1, used: pods=3, limited: pods=3"),
        (Outcome.QUOTA, True),
        id="quota",
    ),
    pytest.param(forbidden(NAMED + "status unknown for quota: q"), (Outcome.QUOTA, True), id="quota is new"),
    pytest.param(
        forbidden(NAMED + "failed quota: q: must specify cpu for: task"), (Outcome.REFUSED, True), id="no requests"
    ),
    pytest.param(
        forbidden('pods is forbidden: User "quota" cannot create resource "pods"', StatusDetails(kind="pods")),
        (Outcome.FORBIDDEN, True),
        id="RBAC",
    ),
    pytest.param(
        forbidden(NAMED + 'violates PodSecurity "restricted:latest": runAsNonRoot != true'),
        (Outcome.POD_SECURITY, False),
        id="Pod Security",
    ),
    pytest.param(
        forbidden(NAMED + "unable to create new content in namespace jobs", TERMINATING),
        (Outcome.NAMESPACE_DELETED, False),
        id="namespace is being deleted",
    ),
    pytest.param(
        RequestError(404, "NotFound", 'namespaces "jobs" not found', details=StatusDetails(kind="namespaces")),
        (Outcome.NAMESPACE_DELETED, False),
        id="namespace does not exist",
    ),
    pytest.param(
        forbidden('admission webhook "exceeded quota: x" denied the request: no', None),
        (Outcome.REFUSED, True),
        id="webhook",
    ),
    pytest.param(
        forbidden(NAMED + 'no PriorityClass with name violates PodSecurity "x" was found'),
        (Outcome.REFUSED, True),
        id="missing priority class",
    ),
    pytest.param(ApiError(422, "Invalid", "spec.containers: Required"), (Outcome.REFUSED, False), id="invalid pod"),
    pytest.param(ApiError(429, "TooManyRequests", "slow down"), None, id="rate limit"),
    pytest.param(ApiError(500, "InternalError", "exceeded quota: q"), None, id="server failed"),
    pytest.param(ApiError(0, "ConnectionLost", "the connection broke"), None, id="no response"),
]


@pytest.mark.parametrize(("problem", "expected"), CASES)
def test_outcome_of_a_rejected_create(problem: ApiError, expected: tuple[Outcome, bool] | None) -> None:
    found = rejection_of(problem, POD, 7.0)
    assert (None if found is None else (found.outcome, found.retriable)) == expected
    assert found is None or (found.message, found.since) == (str(problem), 7.0)
