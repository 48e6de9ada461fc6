"""kopf's login with the credentials of all other clients."""

from __future__ import annotations

import ssl
from dataclasses import dataclass, field

import kopf

from pyscheduler.kube.credentials import Credentials


@dataclass(frozen=True, kw_only=True)
class _TlsConnectionInfo(kopf.ConnectionInfo):
    """kopf's connection with a TLS context instead of files.

    The context is not compared: kopf stops after it has logged in again with equal credentials.
    """

    context: ssl.SSLContext | None = field(default=None, compare=False)

    def as_ssl_context(self) -> ssl.SSLContext:
        return super().as_ssl_context() if self.context is None else self.context


async def connection_info(credentials: Credentials) -> kopf.ConnectionInfo:
    """Return credentials as kopf's ConnectionInfo. ConnectionProblem if they cannot be read."""
    scheme, _, token = (await credentials.authorization()).partition(" ")
    return _TlsConnectionInfo(
        server=credentials.host,
        scheme=scheme or None,
        token=token or None,
        proxy_url=credentials.proxy,
        context=credentials.ssl,
    )
