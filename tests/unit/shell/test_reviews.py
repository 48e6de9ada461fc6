"""TokenReviews and SubjectAccessReviews, and their cache."""

from __future__ import annotations

import asyncio
from functools import partial

import pytest

from pyscheduler.api import ApiError
from pyscheduler.kube.connection import Connection
from pyscheduler.shell.serving.reviews import (
    ACCESS_REVIEWS,
    MAX_CONCURRENT_REVIEWS,
    TOKEN_REVIEWS,
    Reviewer,
    TooBusy,
    TTLCache,
    User,
)
from tests.unit.kube.fake_api import FakeApi, Hangup, Held, Reply, ok, refused
from tests.unit.kube.virtual import VirtualClock

ALICE = User("alice", "1", ("a", "system:authenticated"), {"k": ("v", "w")})
KNOWN = {"username": "alice", "uid": "1", "groups": ["a"], "extra": {"k": ["v", "w"]}}


def reviewed(user: object = None, **more: object) -> Reply:
    """Return the response to a TokenReview."""
    return ok({"status": {"authenticated": user is not None, **({"user": user} if user else {}), **more}})


def decided(**status: object) -> Reply:
    """Return the response to a SubjectAccessReview."""
    return ok({"status": status})


@pytest.fixture
def reviewer(connection: Connection, clock: VirtualClock) -> Reviewer:
    return Reviewer(connection, connection, clock)


async def test_user_of_a_token(api: FakeApi, reviewer: Reviewer) -> None:
    api.script(TOKEN_REVIEWS, reviewed(KNOWN))
    assert await reviewer.user_of("secret") == ALICE
    assert api.calls[0].json == {
        "kind": "TokenReview",
        "apiVersion": "authentication.k8s.io/v1",
        "spec": {"token": "secret"},
    }


@pytest.mark.parametrize(
    "answer",
    [
        pytest.param(reviewed(None, error="invalid bearer token"), id="not authenticated"),
        pytest.param(ok({"status": {"user": KNOWN}}), id="a user without authentication"),
        pytest.param(ok({"status": {"authenticated": True}}), id="authenticated without a user"),
        pytest.param(ok({}), id="no status"),
    ],
)
async def test_invalid_token_has_no_user(api: FakeApi, reviewer: Reviewer, answer: Reply) -> None:
    api.script(TOKEN_REVIEWS, answer)
    assert await reviewer.user_of("secret") is None


async def test_access_review_contains_all_fields_of_the_user(api: FakeApi, reviewer: Reviewer) -> None:
    api.script(ACCESS_REVIEWS, decided(allowed=True, reason="RBAC: allowed"))
    verdict = await reviewer.may(ALICE, "get", "/metrics")
    assert (verdict.allowed, verdict.denied, verdict.reason) == (True, False, "RBAC: allowed")
    assert api.calls[0].json["spec"] == {
        "user": "alice",
        "uid": "1",
        "groups": ["a", "system:authenticated"],
        "extra": {"k": ["v", "w"]},
        "nonResourceAttributes": {"path": "/metrics", "verb": "get"},
    }


async def test_results_are_cached_for_ten_seconds(api: FakeApi, reviewer: Reviewer, clock: VirtualClock) -> None:
    api.script(ACCESS_REVIEWS, decided(allowed=True), decided(allowed=False), decided(allowed=True))
    assert (await reviewer.may(ALICE, "get", "/metrics")).allowed
    clock.at += 9.9
    assert (await reviewer.may(ALICE, "get", "/metrics")).allowed
    assert not (await reviewer.may(ALICE, "get", "/configz")).allowed
    clock.at += 0.2
    assert (await reviewer.may(ALICE, "get", "/metrics")).allowed
    assert len(api.calls) == 3


async def test_users_that_differ_in_any_field_are_cached_separately(api: FakeApi, reviewer: Reviewer) -> None:
    others = [
        User("bob", ALICE.uid, ALICE.groups, ALICE.extra),
        User(ALICE.name, "2", ALICE.groups, ALICE.extra),
        User(ALICE.name, ALICE.uid, ("b",), ALICE.extra),
        User(ALICE.name, ALICE.uid, ALICE.groups, {"k": ("v",)}),
    ]
    api.script(ACCESS_REVIEWS, decided(allowed=True), *(decided(allowed=False) for _ in others))
    assert (await reviewer.may(ALICE, "get", "/metrics")).allowed
    assert not any([(await reviewer.may(other, "get", "/metrics")).allowed for other in others])


async def test_concurrent_reviews_share_one_call(api: FakeApi, reviewer: Reviewer) -> None:
    held = Held(reviewed(KNOWN))
    api.script(TOKEN_REVIEWS, held)
    first, *others = (asyncio.create_task(reviewer.user_of("secret")) for _ in range(5))
    await api.called(1)
    first.cancel()  # the first caller may be cancelled
    held.release.set()
    assert await asyncio.gather(*others) == [ALICE] * 4
    assert len(api.calls) == 1


@pytest.mark.parametrize(
    "answer",
    [
        pytest.param(refused(403, "Forbidden", "no"), id="rejected"),
        pytest.param(Hangup(), id="hangup"),
        pytest.param(Reply(body=b"<html>"), id="no JSON"),
        pytest.param(ok({"status": {"allowed": "perhaps"}}), id="no verdict"),
    ],
)
async def test_failed_review_is_raised_and_not_cached(api: FakeApi, reviewer: Reviewer, answer: Reply | Hangup) -> None:
    api.script(ACCESS_REVIEWS, answer, decided(allowed=True))
    with pytest.raises(ApiError):
        await reviewer.may(ALICE, "get", "/metrics")
    assert (await reviewer.may(ALICE, "get", "/metrics")).allowed


async def test_too_many_concurrent_reviews_raise_too_busy(clock: VirtualClock) -> None:
    cache: TTLCache[int] = TTLCache(lambda _: 10.0, clock)
    release = asyncio.Event()

    async def slow() -> int:
        await release.wait()
        return 1

    waiting = [asyncio.create_task(cache.get(n, slow)) for n in range(MAX_CONCURRENT_REVIEWS)]
    await asyncio.sleep(0)
    with pytest.raises(TooBusy):
        await asyncio.wait_for(cache.get("one more", slow), 5)
    joined = asyncio.create_task(cache.get(0, slow))  # shares the call in flight
    release.set()
    assert await asyncio.gather(*waiting, joined) == [1] * (MAX_CONCURRENT_REVIEWS + 1)
    assert await cache.get("one more", slow) == 1


async def test_cache_is_bounded(clock: VirtualClock, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("pyscheduler.shell.serving.reviews.MAX_CACHED", 2)
    cache: TTLCache[int] = TTLCache(lambda _: 10.0, clock)
    fetched = []

    async def fetch(n: int) -> int:
        fetched.append(n)
        return n

    for n in (1, 2, 3, 3, 2, 1):
        assert await cache.get(n, partial(fetch, n)) == n
    assert fetched == [1, 2, 3, 1]
