"""TLS sessions that are gone on with: the second connection to a server costs a sixth of the first.

What costs is to check the server's certificate, 4 ms of CPU each time. A scheduler has a watch for each kind and many
bindings under way, so a hundred connections; asyncio and uvloop let nobody name a session, but they ask the context.

To read the session of a connection is not free either: Python before 3.12.8 and 3.13.1 never gives back a copy of it,
5 KiB (gh-116810). So one is read only where the server would not go on with the one cached_session, once for all the
connections that it refuses this to, and not without end.
"""

from __future__ import annotations

import asyncio
import ssl
from typing import Final

MOST_READ: Final = 1000
"""Sessions that are read in the life of a context. A server hands out a new one when it starts, and every few days."""


class _ResumableSSLObject(ssl.SSLObject):
    """One connection's TLS."""

    offered_session: ssl.SSLSession | None = None
    """The session that it wanted to go on with."""


class SessionCachingContext(ssl.SSLContext):
    """The context of a client of one server; its connections go on with the session `cached_session` last.

    A server that does not know the session any more is checked as if there were none.
    """

    sslobject_class = _ResumableSSLObject
    cached_session: ssl.SSLSession | None = None
    read = 0
    """How many sessions have been read."""

    def wrap_bio(
        self,
        incoming: ssl.MemoryBIO,
        outgoing: ssl.MemoryBIO,
        server_side: bool = False,
        server_hostname: str | bytes | None = None,
        session: ssl.SSLSession | None = None,
    ) -> ssl.SSLObject:
        """As `ssl.SSLContext` has it."""
        offered_session = session or self.cached_session
        made = super().wrap_bio(incoming, outgoing, server_side, server_hostname, offered_session)
        assert isinstance(made, _ResumableSSLObject)
        made.offered_session = offered_session
        return made


def cache_session(transport: asyncio.BaseTransport) -> None:
    """Keep the session of a connection on which the server has answered: the ticket comes with its first words."""
    context, tls = transport.get_extra_info("sslcontext"), transport.get_extra_info("ssl_object")
    if not isinstance(context, SessionCachingContext) or not isinstance(tls, _ResumableSSLObject):
        return
    if tls.session_reused or tls.offered_session is not context.cached_session or context.read >= MOST_READ:
        return
    context.read += 1
    session = tls.session
    if session is not None and session.has_ticket:
        context.cached_session = session
