"""Paths that need no authorization."""

from __future__ import annotations

import pytest

from pyscheduler.shell.serving.allowed_paths import AllowedPaths
from pyscheduler.shell.serving.messages import ServerRequest


@pytest.mark.parametrize(
    ("allowed", "path", "open_"),
    [
        ("/healthz", "/healthz", True),
        ("healthz", "/healthz", True),
        ("/healthz", "/healthz/ping", False),
        ("/healthz/*", "/healthz/ping", True),
        ("/healthz/*", "/healthz", False),
        ("*", "/metrics", True),
        ("/", "/", True),
        ("/", "/metrics", False),
    ],
)
def test_allowed_paths(allowed: str, path: str, open_: bool) -> None:
    assert (path in AllowedPaths([allowed])) == open_


def test_star_is_allowed_only_at_the_end() -> None:
    with pytest.raises(ValueError, match=r"'/\*/a' has a \* that is not at its end"):
        AllowedPaths(["/*/a"])


def test_request_with_a_token_is_not_exempt_from_authorization() -> None:
    allowed = AllowedPaths()
    assert allowed.is_exempt(ServerRequest("/healthz", {}, {}))
    assert not allowed.is_exempt(ServerRequest("/metrics", {}, {}))
    assert not allowed.is_exempt(ServerRequest("/healthz", {}, {"authorization": "Bearer t"}))
