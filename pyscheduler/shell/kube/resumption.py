"""TLS sessions that are gone on with: the second connection to a server costs a sixth of the first.

What costs is to check the server's certificate, 4 ms of CPU each time. A scheduler has a watch for each kind and many
bindings under way, so a hundred connections; asyncio and uvloop let nobody name a session, but they ask the context.
"""

from __future__ import annotations

import asyncio
import ssl


class ResumingContext(ssl.SSLContext):
    """The context of a client of one server; its connections go on with the session `remembered` last.

    A server that does not know the session any more is checked as if there were none.
    """

    remembered: ssl.SSLSession | None = None

    def wrap_bio(
        self,
        incoming: ssl.MemoryBIO,
        outgoing: ssl.MemoryBIO,
        server_side: bool = False,
        server_hostname: str | bytes | None = None,
        session: ssl.SSLSession | None = None,
    ) -> ssl.SSLObject:
        """As `ssl.SSLContext` has it."""
        return super().wrap_bio(incoming, outgoing, server_side, server_hostname, session or self.remembered)


def remember(transport: asyncio.BaseTransport) -> None:
    """Keep the session of a connection on which the server has answered: the ticket comes with its first words."""
    context, tls = transport.get_extra_info("sslcontext"), transport.get_extra_info("ssl_object")
    if isinstance(context, ResumingContext) and tls is not None and tls.session is not None and tls.session.has_ticket:
        context.remembered = tls.session
