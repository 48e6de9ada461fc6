"""HTTP client of one extender; every failure of a call becomes a one-line ExtenderFailed.

Follows kube-scheduler's HTTPExtender, its TLS included: without a CA, enableHTTPS accepts any server certificate.
"""

from __future__ import annotations

import base64
import ssl
from pathlib import Path
from tempfile import TemporaryDirectory

import aiohttp
from yarl import URL

from pyscheduler.config.types import ExtenderConfig as Configured
from pyscheduler.config.types import ExtenderTLS
from pyscheduler.core.extenders.extender import ExtenderFailed
from pyscheduler.kube.loop_socket import loop_socket

MOST_BYTES = 256 * 1024 * 1024
"""Bytes of the longest response that is read: extenders may send back every node of the request."""
IDLE = 4.0
"""Seconds that an idle connection is kept for the next call: less than servers usually keep theirs."""
_OK = 200


class UnusableTLS(ValueError):
    """The TLS settings of an extender are invalid; the message names the problem."""


class Client:
    """Client of one extender. Its connections belong to the event loop of the first call."""

    def __init__(self, configured: Configured) -> None:
        """UnusableTLS if the TLS settings are invalid."""
        self.url = configured.url_prefix
        self._timeout = configured.http_timeout
        self._tls = tls_of(configured)
        self._server_name = (configured.tls_config.server_name if configured.tls_config else "") or None
        self._opened: aiohttp.ClientSession | None = None

    async def send(self, verb: str, body: bytes) -> bytes:
        """Return the body of a response with status 200. ExtenderFailed, with extender and verb, for anything else."""
        try:
            async with self._session().post(
                URL(f"{self.url.rstrip('/')}/{verb}", encoded=True),
                data=body,
                headers={"Content-Type": "application/json"},
                server_hostname=self._server_name,
            ) as response:
                if response.status != _OK:
                    raise ExtenderFailed(f"{self._failed(verb)}, code {response.status}")
                return await self._body(verb, response)
        except TimeoutError:
            raise self.failure(verb, f"no answer within {self._timeout:g}s") from None
        except (aiohttp.ClientError, OSError, ValueError) as problem:
            raise self.failure(verb, " ".join(str(problem).split()) or type(problem).__name__) from None

    def failure(self, verb: str, problem: str) -> ExtenderFailed:
        """Return the error for a failure that is not in the extender's own response."""
        return ExtenderFailed(f"{self._failed(verb)}: {problem}")

    async def close(self) -> None:
        """Close all connections."""
        if self._opened is not None:
            await self._opened.close()

    def _failed(self, verb: str) -> str:
        return f"failed {verb} with extender at URL {self.url.rstrip('/')}/{verb}"

    async def _body(self, verb: str, response: aiohttp.ClientResponse) -> bytes:
        body = bytearray()
        async for chunk in response.content.iter_any():
            body += chunk
            if len(body) > MOST_BYTES:
                raise self.failure(verb, f"its answer is longer than {MOST_BYTES} bytes")
        return bytes(body)

    def _session(self) -> aiohttp.ClientSession:
        if self._opened is None:
            self._opened = aiohttp.ClientSession(
                connector=aiohttp.TCPConnector(
                    ssl=self._tls if self._tls is not None else True, keepalive_timeout=IDLE, socket_factory=loop_socket
                ),
                cookie_jar=aiohttp.DummyCookieJar(),
                timeout=aiohttp.ClientTimeout(total=self._timeout),
                read_bufsize=1 << 18,
                trust_env=True,
            )
        return self._opened


def tls_of(configured: Configured) -> ssl.SSLContext | None:
    """Return the TLS context with the CA and the client certificate; None for the system's defaults. UnusableTLS."""
    tls = configured.tls_config or ExtenderTLS()
    authority = bool(tls.ca_file or tls.ca_data)
    if tls.insecure and authority:
        raise UnusableTLS("specifying a root certificates file with the insecure flag is not allowed")
    if bool(tls.cert_file or tls.cert_data) != bool(tls.key_file or tls.key_data):
        raise UnusableTLS("a client certificate needs its key, and a key its certificate")
    if tls == ExtenderTLS() and not configured.enable_https:
        return None
    try:
        return _context(tls, insecure=tls.insecure or (configured.enable_https and not authority))
    except (OSError, ValueError) as problem:  # ssl.SSLError is an OSError, base64's errors are ValueErrors
        raise UnusableTLS(f"the certificates cannot be used: {' '.join(str(problem).split())}") from None


def _context(tls: ExtenderTLS, insecure: bool) -> ssl.SSLContext:
    with TemporaryDirectory(prefix="pyscheduler-") as folder:
        context = ssl.create_default_context(cafile=_file(Path(folder, "ca"), tls.ca_data, tls.ca_file))
        certificate = _file(Path(folder, "cert"), tls.cert_data, tls.cert_file)
        if certificate is not None:
            context.load_cert_chain(certificate, _file(Path(folder, "key"), tls.key_data, tls.key_file))
    # Extenders' certificates are often older than the strictness that Python 3.13 brought.
    context.verify_flags &= ~ssl.VERIFY_X509_STRICT
    if insecure:
        context.check_hostname = False
        context.verify_mode = ssl.CERT_NONE
    return context


def _file(path: Path, data: str, named: str) -> str | None:
    """Return the path of a certificate or key; inline data, which is written to `path`, precedes, as in client-go."""
    if data:
        path.write_bytes(base64.b64decode(data, validate=True))
        return str(path)
    return named or None
