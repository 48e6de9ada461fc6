"""TokenReview and SubjectAccessReview calls with a cache.

Any client that reaches the port can cause a review, so their rate is bounded: results are cached for 10 s (as in
kube-scheduler), concurrent requests for the same review share one call, and with too many calls in flight the next is
rejected at once.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Hashable, Mapping
from hashlib import sha256
from typing import Any, Final, Generic, NamedTuple, TypeVar

import msgspec

from pyscheduler.api import ApiError
from pyscheduler.clock import Clock
from pyscheduler.kube.connection import TIMEOUT, Connection

DEADLINE: Final = 10.0
"""Seconds that a review may take, including retries and waiting for the rate limiter."""
MAX_CONCURRENT_REVIEWS: Final = 40
MAX_CACHED: Final = 1024
ANONYMOUS: Final = "system:anonymous"
ALL_AUTHENTICATED: Final = "system:authenticated"
TOKEN_REVIEWS: Final = "/apis/authentication.k8s.io/v1/tokenreviews"
ACCESS_REVIEWS: Final = "/apis/authorization.k8s.io/v1/subjectaccessreviews"
T = TypeVar("T")


class TooBusy(Exception):
    """Too many reviews are in flight."""


class User(msgspec.Struct, frozen=True):
    """User as in TokenReview and SubjectAccessReview."""

    name: str = msgspec.field(name="username", default="")
    uid: str = ""
    groups: tuple[str, ...] = ()
    extra: Mapping[str, tuple[str, ...]] = msgspec.field(default_factory=dict)

    def authenticated(self) -> User:
        """Return the user with the group of all authenticated users added."""
        if ALL_AUTHENTICATED in self.groups or self.name == ANONYMOUS:
            return self
        return User(self.name, self.uid, (*self.groups, ALL_AUTHENTICATED), self.extra)


class Verdict(msgspec.Struct, frozen=True):
    """Result of a SubjectAccessReview with the API server's reason."""

    allowed: bool = False
    denied: bool = False
    reason: str = ""


class _TokenStatus(msgspec.Struct, frozen=True):
    authenticated: bool = False
    user: User = User()


class _TokenReview(msgspec.Struct, frozen=True):
    status: _TokenStatus = _TokenStatus()


class _AccessReview(msgspec.Struct, frozen=True):
    status: Verdict = Verdict()


class Seconds(NamedTuple):
    """Seconds for which results are cached."""

    token: float = 10.0
    allowed: float = 10.0
    refused: float = 10.0


TEN: Final = Seconds()
"""Defaults of kube-scheduler."""


class Reviewer:
    """Makes reviews, with one connection for each kind; they may be the same."""

    def __init__(self, tokens: Connection, access: Connection, clock: Clock, seconds: Seconds = TEN) -> None:
        self._tokens = tokens
        self._access = access
        self._users: TTLCache[User | None] = TTLCache(lambda _: seconds.token, clock)
        self._verdicts: TTLCache[Verdict] = TTLCache(
            lambda verdict: seconds.allowed if verdict.allowed else seconds.refused, clock
        )

    async def user_of(self, token: str) -> User | None:
        """Return the user of a token, None for an invalid token. ApiError, TooBusy."""
        key = sha256(token.encode()).digest()  # do not store tokens
        return await self._users.get(key, lambda: self._review_token(token))

    async def may(self, user: User, verb: str, path: str) -> Verdict:
        """Return the verdict on a request of the user. ApiError, TooBusy."""
        key = (user.name, user.uid, user.groups, tuple((k, tuple(v)) for k, v in user.extra.items()), verb, path)
        return await self._verdicts.get(key, lambda: self._review_access(user, verb, path))

    async def _review_token(self, token: str) -> User | None:
        body = {"kind": "TokenReview", "apiVersion": "authentication.k8s.io/v1", "spec": {"token": token}}
        status = (await _post_review(self._tokens, TOKEN_REVIEWS, body, _TokenReview)).status
        return status.user.authenticated() if status.authenticated and status.user.name else None

    async def _review_access(self, user: User, verb: str, path: str) -> Verdict:
        spec = {"user": user.name, "uid": user.uid, "groups": user.groups, "extra": user.extra}
        spec["nonResourceAttributes"] = {"path": path, "verb": verb}
        body = {"kind": "SubjectAccessReview", "apiVersion": "authorization.k8s.io/v1", "spec": spec}
        return (await _post_review(self._access, ACCESS_REVIEWS, body, _AccessReview)).status


class TTLCache(Generic[T]):
    """Cache of results by key; `seconds` returns the time to live of a result."""

    def __init__(self, seconds: Callable[[T], float], clock: Clock) -> None:
        self._seconds = seconds
        self._clock = clock
        self._results: dict[Hashable, tuple[float, T]] = {}
        """Results with their time of expiry, oldest first."""
        self._calls: dict[Hashable, asyncio.Task[T]] = {}

    async def get(self, key: Hashable, fetch: Callable[[], Awaitable[T]]) -> T:
        """Return the cached result, or that of `fetch`, which concurrent calls with the same key share.

        An exception of `fetch` is raised in all of them and not cached. TooBusy with too many calls in flight.
        """
        cached = self._results.get(key)
        if cached is not None and self._clock.now() < cached[0]:
            return cached[1]
        call = self._calls.get(key)
        if call is None:
            if len(self._calls) >= MAX_CONCURRENT_REVIEWS:
                raise TooBusy
            call = self._calls[key] = asyncio.create_task(self._fetch(key, fetch))
            call.add_done_callback(lambda task: task.cancelled() or task.exception())  # mark as retrieved
        return await asyncio.shield(call)

    async def _fetch(self, key: Hashable, fetch: Callable[[], Awaitable[T]]) -> T:
        try:
            result = await fetch()
        finally:
            del self._calls[key]
        now = self._clock.now()
        self._results.pop(key, None)
        self._results[key] = (now + self._seconds(result), result)
        while self._results:
            oldest = next(iter(self._results))
            if self._results[oldest][0] > now and len(self._results) <= MAX_CACHED:
                break
            del self._results[oldest]
        return result


async def _post_review(connection: Connection, path: str, body: Mapping[str, Any], kind: type[T]) -> T:
    try:
        async with asyncio.timeout(DEADLINE):
            response = await connection.request("POST", path, msgspec.json.encode(body))
        return msgspec.json.decode(response, type=kind)
    except TimeoutError:
        raise ApiError(0, TIMEOUT, "no answer in time") from None
    except msgspec.MsgspecError as problem:
        raise ApiError(0, "UnreadableResponse", f"cannot decode the response to {path}: {problem}") from None
