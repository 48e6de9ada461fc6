"""Authentication and authorization of the HTTPS endpoints, delegated to the API server as in kube-scheduler.

A client certificate signed by a client CA names the user itself; a bearer token is resolved by a TokenReview; all other
clients are `system:anonymous`. A SubjectAccessReview (RBAC's nonResourceURLs) decides about each path, except the
always allowed ones. If the API server does not respond, access is denied.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final

import msgspec

from pyscheduler import logs
from pyscheduler.api import ApiError
from pyscheduler.shell.serving.allowed_paths import AllowedPaths
from pyscheduler.shell.serving.messages import ServerRequest, ServerResponse, Subject
from pyscheduler.shell.serving.reviews import ANONYMOUS as ANONYMOUS_NAME
from pyscheduler.shell.serving.reviews import Reviewer, TooBusy, User, Verdict

ANONYMOUS: Final = User(ANONYMOUS_NAME, groups=("system:unauthenticated",))
PRIVILEGED: Final = "system:masters"
_JSON = "application/json"


class AuthorizationFilter:
    """Checks each request before it is served."""

    def __init__(
        self, reviewer: Reviewer, allowed: AllowedPaths, certified: Callable[[ServerRequest], User | None] | None = None
    ) -> None:
        """`certified` returns the user of the client certificate of a request; default: the certificate's subject."""
        self._reviewer = reviewer
        self._log = logs.LimitedLog("authorization")
        self._allowed = allowed
        self._certified = certified or (lambda request: named(request.subject or ()))

    async def refusal(self, request: ServerRequest, served: bool) -> ServerResponse | None:
        """Return the error response for a request, None if it is allowed.

        An anonymous request for a path that is not `served` is rejected without a review.
        """
        try:
            user = await self._user(request)
        except TooBusy:
            return _too_busy()
        except ApiError as problem:
            self._log.warning("Failed to review a token", problem)
            return _unauthorized()
        if user is None:
            return _unauthorized()
        if PRIVILEGED in user.groups or request.path in self._allowed:
            return None
        if user is ANONYMOUS and not served:
            return _forbidden(user, request, "")
        return await self._verdict(user, request)

    async def _user(self, request: ServerRequest) -> User | None:
        """Return the user of a request, None for an invalid token. ApiError, TooBusy."""
        certified = self._certified(request)
        if certified is not None:
            return certified
        kind, _, rest = request.headers.get("authorization", "").partition(" ")
        token = rest.partition(" ")[0]
        if kind.lower() != "bearer" or not token:
            return ANONYMOUS
        return await self._reviewer.user_of(token)

    async def _verdict(self, user: User, request: ServerRequest) -> ServerResponse | None:
        try:
            verdict = await self._reviewer.may(user, request.method.lower(), request.path)
        except TooBusy:
            return _too_busy()
        except ApiError as problem:
            self._log.warning("Failed to review access", problem, user=user.name, path=request.path)
            return ServerResponse(
                _sanitized(f"Internal Server Error: {_quoted(request.target)}: {problem}\n").encode(), 500
            )
        return None if _allows(verdict) else _forbidden(user, request, verdict.reason)


def named(subject: Subject) -> User | None:
    """Return the user in a certificate: the common name is the user name, the organizations are the groups."""
    pairs = [pair for part in subject for pair in part]
    names = [value for key, value in pairs if key == "commonName"]
    groups = tuple(value for key, value in pairs if key == "organizationName")
    return User(names[-1], groups=groups).authenticated() if names and names[-1] else None


def _allows(verdict: Verdict) -> bool:
    return verdict.allowed and not verdict.denied


def _unauthorized() -> ServerResponse:
    return _status(401, "Unauthorized", "Unauthorized")


def _forbidden(user: User, request: ServerRequest, reason: str) -> ServerResponse:
    cannot = _sanitized(f"User {_quoted(user.name)} cannot {request.method.lower()} path {_quoted(request.path)}")
    return _status(403, "Forbidden", f"forbidden: {cannot}{f': {reason}' if reason else ''}", details={})


def _too_busy() -> ServerResponse:
    return _status(429, "TooManyRequests", "too many requests, please try again later")


def _status(code: int, reason: str, message: str, **more: Any) -> ServerResponse:
    """Return an error response in the form and words of Kubernetes components."""
    status = {"kind": "Status", "apiVersion": "v1", "metadata": {}, "status": "Failure", "message": message}
    return ServerResponse(msgspec.json.encode({**status, "reason": reason, **more, "code": code}), code, _JSON)


def _quoted(text: str) -> str:
    return msgspec.json.encode(text).decode()


def _sanitized(text: str) -> str:
    """Escape HTML."""
    return text.replace("&", "&amp;").replace("<", "&lt;").replace(">", "&gt;")
