"""Who may ask the endpoints what: authentication and authorization as kube-scheduler delegates them to the API server.

Whoever shows a certificate of the clients' authorities is whom it names; a bearer token belongs to whom the API server
says; all others are `system:anonymous`. What they may ask is the API server's to say (RBAC's nonResourceURLs), but for
the health endpoints, which are everybody's. An API server that does not answer opens nothing.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final

import msgspec

from pyscheduler.api import ApiError
from pyscheduler.shell import logs
from pyscheduler.shell.serving.allowed_paths import AllowedPaths
from pyscheduler.shell.serving.reviews import ANONYMOUS as ANONYMOUS_NAME
from pyscheduler.shell.serving.reviews import Reviewer, TooBusy, User, Verdict
from pyscheduler.shell.serving.webserver import Request, Response, Subject

ANONYMOUS: Final = User(ANONYMOUS_NAME, groups=("system:unauthenticated",))
PRIVILEGED: Final = "system:masters"
_JSON = "application/json"
_log = logs.get("gate")


class AuthorizationFilter:
    """Asked before each answer."""

    def __init__(
        self, reviewer: Reviewer, allowed: AllowedPaths, certified: Callable[[Request], User | None] | None = None
    ) -> None:
        """`certified` says who somebody is by the certificate they show; whom it names, without it."""
        self._reviewer = reviewer
        self._allowed = allowed
        self._certified = certified or (lambda request: named(request.subject or ()))

    async def refusal(self, request: Request, served: bool) -> Response | None:
        """What the one who asks is told instead of an answer; None if they may have it.

        Of what is not `served` to anybody, nobody's permission is asked for those who do not say who they are.
        """
        try:
            user = await self._user(request)
        except TooBusy:
            return _too_busy()
        except ApiError as problem:
            _log.warning("A token could not be reviewed", problem)
            return _unauthorized()
        if user is None:
            return _unauthorized()
        if PRIVILEGED in user.groups or request.path in self._allowed:
            return None
        if user is ANONYMOUS and not served:
            return _forbidden(user, request, "")
        return await self._verdict(user, request)

    async def _user(self, request: Request) -> User | None:
        """Who asks, None for a token that is nobody's. ApiError, TooBusy."""
        certified = self._certified(request)
        if certified is not None:
            return certified
        kind, _, rest = request.headers.get("authorization", "").partition(" ")
        token = rest.partition(" ")[0]
        if kind.lower() != "bearer" or not token:
            return ANONYMOUS
        return await self._reviewer.user_of(token)

    async def _verdict(self, user: User, request: Request) -> Response | None:
        try:
            verdict = await self._reviewer.may(user, request.method.lower(), request.path)
        except TooBusy:
            return _too_busy()
        except ApiError as problem:
            _log.warning("A permission could not be reviewed", problem, user=user.name, path=request.path)
            return Response(_sanitized(f"Internal Server Error: {_quoted(request.target)}: {problem}\n").encode(), 500)
        return None if _allows(verdict) else _forbidden(user, request, verdict.reason)


def named(subject: Subject) -> User | None:
    """Whom a certificate names: the user is its common name, the groups are its organizations."""
    pairs = [pair for part in subject for pair in part]
    names = [value for key, value in pairs if key == "commonName"]
    groups = tuple(value for key, value in pairs if key == "organizationName")
    return User(names[-1], groups=groups).authenticated() if names and names[-1] else None


def _allows(verdict: Verdict) -> bool:
    return verdict.allowed and not verdict.denied


def _unauthorized() -> Response:
    return _status(401, "Unauthorized", "Unauthorized")


def _forbidden(user: User, request: Request, reason: str) -> Response:
    cannot = _sanitized(f"User {_quoted(user.name)} cannot {request.method.lower()} path {_quoted(request.path)}")
    return _status(403, "Forbidden", f"forbidden: {cannot}{f': {reason}' if reason else ''}", details={})


def _too_busy() -> Response:
    return _status(429, "TooManyRequests", "too many requests, please try again later")


def _status(code: int, reason: str, message: str, **more: Any) -> Response:
    """A refusal in the words and the form of Kubernetes components."""
    status = {"kind": "Status", "apiVersion": "v1", "metadata": {}, "status": "Failure", "message": message}
    return Response(msgspec.json.encode({**status, "reason": reason, **more, "code": code}), code, _JSON)


def _quoted(text: str) -> str:
    return msgspec.json.encode(text).decode()


def _sanitized(text: str) -> str:
    """Without anything that a browser takes for HTML."""
    return text.replace("&", "&amp;").replace("<", "&lt;").replace(">", "&gt;")
