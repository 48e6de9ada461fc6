"""Tokens of service accounts: JSON Web Tokens with the claims of Kubernetes, signed with a key of this server."""

from __future__ import annotations

import base64
import hashlib
import hmac
import secrets
from collections.abc import Callable
from typing import Any, Final

import msgspec

from pyscheduler.embedded.objects import Json, dig, timestamp
from pyscheduler.embedded.status import ApiStatusError, bad_request, invalid, invalid_value

AUDIENCE: Final = "https://kubernetes.default.svc.cluster.local"
_HEADER: Final[Json] = {"alg": "HS256", "typ": "JWT"}
_DEFAULT_SECONDS, _MIN_SECONDS, _MAX_SECONDS = 3600, 600, 1 << 32


class ServiceAccountTokens:
    """Issuer and verifier of tokens; `now` returns seconds since 1970."""

    def __init__(self, now: Callable[[], float]) -> None:
        self._now, self._key = now, secrets.token_bytes(32)

    def request(self, account: Json, body: Json) -> Json:
        """Return the TokenRequest `body` with the token in its status. ApiStatusError 422 if it is invalid."""
        spec = dict(body.get("spec") or {})
        seconds = spec.setdefault("expirationSeconds", _DEFAULT_SECONDS)
        if not spec.get("audiences"):
            spec["audiences"] = [AUDIENCE]
        if not isinstance(seconds, int) or not isinstance(spec["audiences"], list):
            raise bad_request("spec.expirationSeconds must be a number, spec.audiences a list")
        meta = account["metadata"]
        if problem := _lifetime_problem(seconds, meta["name"]):
            raise problem
        now = int(self._now())
        claims = {
            "aud": spec["audiences"],
            "exp": now + seconds,
            "iat": now,
            "iss": AUDIENCE,
            "kubernetes.io": {
                "namespace": meta["namespace"],
                "serviceaccount": {"name": meta["name"], "uid": meta["uid"]},
            },
            "nbf": now,
            "sub": f"system:serviceaccount:{meta['namespace']}:{meta['name']}",
        }
        named = {"name": meta["name"], "namespace": meta["namespace"], "creationTimestamp": timestamp(now)}
        status = {"token": self._signed(claims), "expirationTimestamp": timestamp(now + seconds)}
        head = {"kind": "TokenRequest", "apiVersion": "authentication.k8s.io/v1"}
        return {**head, "metadata": named, "spec": {"boundObjectRef": None, **spec}, "status": status}

    def user_of(self, token: str) -> Json | None:
        """Return the user of a valid token of a service account, None for any other text."""
        signed, _, signature = token.rpartition(".")
        if not hmac.compare_digest(self._signature(signed).encode(), signature.encode()):
            return None
        claims = msgspec.json.decode(_decoded(signed.partition(".")[2]))
        if claims["exp"] <= self._now():
            return None
        namespace = dig(claims, "kubernetes.io", "namespace")
        groups = ["system:serviceaccounts", f"system:serviceaccounts:{namespace}", "system:authenticated"]
        uid = dig(claims, "kubernetes.io", "serviceaccount", "uid")
        return {"username": claims["sub"], "uid": uid, "groups": groups}

    def _signed(self, claims: Any) -> str:
        signed = ".".join(_encoded(msgspec.json.encode(part)) for part in (_HEADER, claims))
        return f"{signed}.{self._signature(signed)}"

    def _signature(self, signed: str) -> str:
        return _encoded(hmac.digest(self._key, signed.encode(), hashlib.sha256))


def _lifetime_problem(seconds: int, name: str) -> ApiStatusError | None:
    if _MIN_SECONDS <= seconds <= _MAX_SECONDS:
        return None
    why = "may not specify a duration less than 10 minutes"
    if seconds > _MAX_SECONDS:
        why = "may not specify a duration larger than 2^32 seconds"
    cause = invalid_value("spec.expirationSeconds", seconds, why)
    return invalid("TokenRequest", "authentication.k8s.io", name, [cause])


def _encoded(raw: bytes) -> str:
    return base64.urlsafe_b64encode(raw).rstrip(b"=").decode()


def _decoded(text: str) -> bytes:
    return base64.urlsafe_b64decode(text + "=" * (-len(text) % 4))
