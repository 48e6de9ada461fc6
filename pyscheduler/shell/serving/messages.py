"""Requests to the endpoints and their responses."""

from __future__ import annotations

from collections.abc import AsyncIterator, Mapping
from typing import Final

import msgspec

TEXT: Final = "text/plain; charset=utf-8"
Subject = tuple[tuple[tuple[str, str], ...], ...]
"""Subject of a certificate, as in the ssl module."""


class ServerRequest(msgspec.Struct, frozen=True):
    """A request: path, query parameters with all values, and headers by lower-case name."""

    path: str
    query: Mapping[str, list[str]]
    headers: Mapping[str, str]
    method: str = "GET"
    target: str = ""
    """Path and query as sent."""
    subject: Subject | None = None
    """Subject of the verified client certificate; None without one."""
    signer: bytes = b""
    """CA certificate (DER) at the root of the client certificate's chain."""
    pairs: tuple[tuple[str, str], ...] = ()
    """All headers as sent, repeated ones included, with lower-case names."""


class ServerResponse(msgspec.Struct, frozen=True):
    """A response; a body in pieces keeps a long response from blocking the loop."""

    body: bytes | AsyncIterator[bytes]
    status: int = 200
    content_type: str = TEXT
