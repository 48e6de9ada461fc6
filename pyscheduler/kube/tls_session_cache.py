"""TLS session cache: later connections to a server resume the session of the first.

A scheduler opens a hundred connections when it starts: a watch per resource and many bindings in flight. With a client
certificate (RSA, 2048 bits) a connection with one call takes 1.6 ms of CPU instead of 2.6; its handshake alone 0.4 ms
instead of 1.1, and 0.6 instead of 1.4 in the server. With a token a handshake takes 0.4 ms instead of 0.5, and 0.3
instead of 0.6 in the server (measurement in docs/performance.md). asyncio and uvloop have no parameter for a
session, but they create connections through the context.

Reading a connection's session leaks a copy of 5 KiB in Python before 3.12.8 and 3.13.1 (gh-116810), so it is read only
if the server did not resume the cached session, once for all connections that offered the same session, and a bounded
number of times.
"""

from __future__ import annotations

import asyncio
import ssl
from typing import Final

MOST_READ: Final = 1000
"""Maximum sessions read per context. A server issues new ones at its start and every few days."""


class _ResumableSSLObject(ssl.SSLObject):
    """TLS state of one connection."""

    offered_session: ssl.SSLSession | None = None
    """The session that the connection offered to resume."""


class SessionCachingContext(ssl.SSLContext):
    """TLS client context for one server; its connections try to resume `cached_session`.

    If the server does not resume it, a full handshake follows.
    """

    sslobject_class = _ResumableSSLObject
    cached_session: ssl.SSLSession | None = None
    read = 0
    """Number of sessions read."""

    def wrap_bio(
        self,
        incoming: ssl.MemoryBIO,
        outgoing: ssl.MemoryBIO,
        server_side: bool = False,
        server_hostname: str | bytes | None = None,
        session: ssl.SSLSession | None = None,
    ) -> ssl.SSLObject:
        """Return the TLS object of a connection, as `ssl.SSLContext.wrap_bio` does."""
        offered_session = session or self.cached_session
        made = super().wrap_bio(incoming, outgoing, server_side, server_hostname, offered_session)
        assert isinstance(made, _ResumableSSLObject)
        made.offered_session = offered_session
        return made


def cache_session(transport: asyncio.BaseTransport) -> None:
    """Cache the session of a connection after the first response, when the session ticket has arrived."""
    context, tls = transport.get_extra_info("sslcontext"), transport.get_extra_info("ssl_object")
    if not isinstance(context, SessionCachingContext) or not isinstance(tls, _ResumableSSLObject):
        return
    if tls.session_reused or tls.offered_session is not context.cached_session or context.read >= MOST_READ:
        return
    context.read += 1
    session = tls.session
    if session is not None and session.has_ticket:
        context.cached_session = session
