"""TLS sessions that are gone on with: the second connection to a server costs a sixth of the first.

What costs is to check the server's certificate, 4 ms of CPU each time. A scheduler has a watch for each kind and many
bindings under way, so a hundred connections; asyncio and uvloop let nobody name a session, but they ask the context.

To read the session of a connection is not free either: Python before 3.12.8 and 3.13.1 never gives back a copy of it,
5 KiB (gh-116810). So one is read only where the server would not go on with the one remembered, once for all the
connections that it refuses this to, and not without end.
"""

from __future__ import annotations

import asyncio
import ssl
from typing import Final

MOST_READ: Final = 1000
"""Sessions that are read in the life of a context. A server hands out a new one when it starts, and every few days."""


class _Resuming(ssl.SSLObject):
    """One connection's TLS."""

    offered: ssl.SSLSession | None = None
    """The session that it wanted to go on with."""


class ResumingContext(ssl.SSLContext):
    """The context of a client of one server; its connections go on with the session `remembered` last.

    A server that does not know the session any more is checked as if there were none.
    """

    sslobject_class = _Resuming
    remembered: ssl.SSLSession | None = None
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
        offered = session or self.remembered
        made = super().wrap_bio(incoming, outgoing, server_side, server_hostname, offered)
        assert isinstance(made, _Resuming)
        made.offered = offered
        return made


def remember(transport: asyncio.BaseTransport) -> None:
    """Keep the session of a connection on which the server has answered: the ticket comes with its first words."""
    context, tls = transport.get_extra_info("sslcontext"), transport.get_extra_info("ssl_object")
    if not isinstance(context, ResumingContext) or not isinstance(tls, _Resuming):
        return
    if tls.session_reused or tls.offered is not context.remembered or context.read >= MOST_READ:
        return
    context.read += 1
    session = tls.session
    if session is not None and session.has_ticket:
        context.remembered = session
