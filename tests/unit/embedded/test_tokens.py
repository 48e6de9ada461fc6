"""Tokens of service accounts are issued, reviewed, and expire."""

from __future__ import annotations

import base64
import json
from typing import Any

import pytest

from pyscheduler.embedded.handlers.reviews import Reviews
from pyscheduler.embedded.handlers.tokens import AUDIENCE, ServiceAccountTokens

from .builders import api_error, fields_of

ACCOUNT = {"metadata": {"name": "robot", "namespace": "n", "uid": "u"}}


class Clock:
    at = 1_700_000_000.0

    def now(self) -> float:
        return self.at


@pytest.fixture
def clock() -> Clock:
    return Clock()


@pytest.fixture
def tokens(clock: Clock) -> ServiceAccountTokens:
    return ServiceAccountTokens(clock.now)


def token_of(tokens: ServiceAccountTokens, **spec: Any) -> str:
    return str(tokens.request(ACCOUNT, {"spec": spec})["status"]["token"])


def test_token_has_the_claims_of_the_account(tokens: ServiceAccountTokens) -> None:
    made = tokens.request(ACCOUNT, {"spec": {"expirationSeconds": 600}})
    assert made["status"]["expirationTimestamp"] == "2023-11-14T22:23:20Z"
    payload = made["status"]["token"].split(".")[1]
    claims = json.loads(base64.urlsafe_b64decode(payload + "=" * (-len(payload) % 4)))
    assert (claims["sub"], claims["aud"]) == ("system:serviceaccount:n:robot", [AUDIENCE])
    assert claims["exp"] - claims["iat"] == 600
    assert claims["kubernetes.io"]["serviceaccount"] == {"name": "robot", "uid": "u"}


def test_token_is_reviewed_as_its_account(tokens: ServiceAccountTokens) -> None:
    review = Reviews("own", tokens).status("TokenReview", {"spec": {"token": token_of(tokens)}})
    assert review["authenticated"]
    assert review["user"]["username"] == "system:serviceaccount:n:robot"
    assert "system:serviceaccounts:n" in review["user"]["groups"]


@pytest.mark.parametrize("text", ["", "a.b.c", "no token", "own2"])
def test_other_text_belongs_to_nobody(tokens: ServiceAccountTokens, text: str) -> None:
    assert tokens.user_of(text) is None


def test_altered_and_expired_tokens_belong_to_nobody(tokens: ServiceAccountTokens, clock: Clock) -> None:
    token = token_of(tokens)
    head, payload, signature = token.split(".")
    assert tokens.user_of(f"{head}.{payload}x.{signature}") is None
    assert ServiceAccountTokens(clock.now).user_of(token) is None
    clock.at += 3600
    assert tokens.user_of(token) is None


@pytest.mark.parametrize("seconds", [599, 2**33])
def test_lifetime_is_limited(tokens: ServiceAccountTokens, seconds: int) -> None:
    error = api_error(lambda: token_of(tokens, expirationSeconds=seconds))
    assert fields_of(error) == ["spec.expirationSeconds"]
