"""Asking the API server who a token belongs to, and what somebody may do: TokenReview and SubjectAccessReview.

Anybody who reaches the port makes us ask, so it is bounded how often: an answer counts for ten seconds (as long as
kube-scheduler keeps it), those who want the same one wait for one call, and with too many calls under way the next is
refused at once.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Hashable, Mapping
from hashlib import sha256
from typing import Any, Final, Generic, NamedTuple, TypeVar

import msgspec

from pyscheduler.api import ApiError
from pyscheduler.shell.clock import Clock
from pyscheduler.shell.kube.connection import TIMEOUT, Connection

DEADLINE: Final = 10.0
"""Seconds that a review may take, repetitions and waiting for its turn included."""
MAX_CONCURRENT_REVIEWS: Final = 40
MAX_CACHED: Final = 1024
ANONYMOUS: Final = "system:anonymous"
ALL_AUTHENTICATED: Final = "system:authenticated"
TOKEN_REVIEWS: Final = "/apis/authentication.k8s.io/v1/tokenreviews"
ACCESS_REVIEWS: Final = "/apis/authorization.k8s.io/v1/subjectaccessreviews"
T = TypeVar("T")


class TooBusy(Exception):
    """Too many reviews are under way."""


class User(msgspec.Struct, frozen=True):
    """Who asks, as TokenReview tells it and SubjectAccessReview wants it."""

    name: str = msgspec.field(name="username", default="")
    uid: str = ""
    groups: tuple[str, ...] = ()
    extra: Mapping[str, tuple[str, ...]] = msgspec.field(default_factory=dict)

    def authenticated(self) -> User:
        """The same in the group of all who have said who they are."""
        if ALL_AUTHENTICATED in self.groups or self.name == ANONYMOUS:
            return self
        return User(self.name, self.uid, (*self.groups, ALL_AUTHENTICATED), self.extra)


class Verdict(msgspec.Struct, frozen=True):
    """Whether somebody may do something, and what the API server says of it."""

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
    """For how long an answer counts."""

    token: float = 10.0
    allowed: float = 10.0
    refused: float = 10.0


TEN: Final = Seconds()
"""As long as kube-scheduler keeps them unless told otherwise."""


class Reviewer:
    """Asks the API server, one connection for each kind of question; they may be the same."""

    def __init__(self, tokens: Connection, access: Connection, clock: Clock, seconds: Seconds = TEN) -> None:
        self._tokens = tokens
        self._access = access
        self._users: TTLCache[User | None] = TTLCache(lambda _: seconds.token, clock)
        self._verdicts: TTLCache[Verdict] = TTLCache(
            lambda verdict: seconds.allowed if verdict.allowed else seconds.refused, clock
        )

    async def user_of(self, token: str) -> User | None:
        """Who the token belongs to, None if to nobody. ApiError, TooBusy."""
        key = sha256(token.encode()).digest()  # tokens are nothing to be kept
        return await self._users.get(key, lambda: self._review_token(token))

    async def may(self, user: User, verb: str, path: str) -> Verdict:
        """Whether the user may do that. ApiError, TooBusy."""
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
    """Answers by what was asked, each kept for as many seconds as `seconds` says of it."""

    def __init__(self, seconds: Callable[[T], float], clock: Clock) -> None:
        self._seconds = seconds
        self._clock = clock
        self._answers: dict[Hashable, tuple[float, T]] = {}
        """With the time up to which each counts, oldest first."""
        self._asking: dict[Hashable, asyncio.Task[T]] = {}

    async def get(self, key: Hashable, ask: Callable[[], Awaitable[T]]) -> T:
        """The kept answer, or that of `ask`, which whoever wants the same meanwhile waits for too.

        What `ask` raises is raised to all of them, and not kept. TooBusy with too many calls under way.
        """
        kept = self._answers.get(key)
        if kept is not None and self._clock.now() < kept[0]:
            return kept[1]
        asking = self._asking.get(key)
        if asking is None:
            if len(self._asking) >= MAX_CONCURRENT_REVIEWS:
                raise TooBusy
            asking = self._asking[key] = asyncio.create_task(self._ask(key, ask))
            asking.add_done_callback(lambda task: task.cancelled() or task.exception())  # perhaps nobody waits any more
        return await asyncio.shield(asking)

    async def _ask(self, key: Hashable, ask: Callable[[], Awaitable[T]]) -> T:
        try:
            answer = await ask()
        finally:
            del self._asking[key]
        now = self._clock.now()
        self._answers.pop(key, None)
        self._answers[key] = (now + self._seconds(answer), answer)
        while self._answers:
            oldest = next(iter(self._answers))
            if self._answers[oldest][0] > now and len(self._answers) <= MAX_CACHED:
                break
            del self._answers[oldest]
        return answer


async def _post_review(connection: Connection, path: str, body: Mapping[str, Any], kind: type[T]) -> T:
    try:
        async with asyncio.timeout(DEADLINE):
            answer = await connection.request("POST", path, msgspec.json.encode(body))
        return msgspec.json.decode(answer, type=kind)
    except TimeoutError:
        raise ApiError(0, TIMEOUT, "no answer in time") from None
    except msgspec.MsgspecError as problem:
        raise ApiError(0, "UnreadableResponse", f"the answer to {path} cannot be read: {problem}") from None
