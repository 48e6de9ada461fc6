"""One extender over HTTP: its calls are made here, and everything that can go wrong with one becomes one line.

The rules are those of kube-scheduler's HTTPExtender, its TLS included: without an authority, enableHTTPS trusts anyone.
"""

from __future__ import annotations

import base64
import ssl
from pathlib import Path
from tempfile import TemporaryDirectory

import aiohttp
from yarl import URL

from pyscheduler.config.types import Extender as Configured
from pyscheduler.config.types import ExtenderTLS
from pyscheduler.core.extender import ExtenderFailed

MOST_BYTES = 256 * 1024 * 1024
"""The longest answer that is read: extenders may send back every node that they were sent."""
IDLE = 4.0
"""Seconds that a connection is kept for the next call: less than servers usually keep theirs."""
_OK = 200


class UnusableTLS(ValueError):
    """The TLS settings of an extender cannot be used; the message says why."""


class Client:
    """Calls one extender. Its connections are made in the event loop that first calls."""

    def __init__(self, configured: Configured) -> None:
        """UnusableTLS if it cannot be reached as configured."""
        self.url = configured.url_prefix
        self._timeout = configured.http_timeout
        self._tls = tls_of(configured)
        self._server_name = (configured.tls_config.server_name if configured.tls_config else "") or None
        self._opened: aiohttp.ClientSession | None = None

    async def send(self, verb: str, body: bytes) -> bytes:
        """What it answers with 200. ExtenderFailed, naming extender and verb, for anything else."""
        try:
            async with self._session().post(
                URL(f"{self.url.rstrip('/')}/{verb}", encoded=True),
                data=body,
                headers={"Content-Type": "application/json"},
                server_hostname=self._server_name,
            ) as answer:
                if answer.status != _OK:
                    raise ExtenderFailed(f"{self._failed(verb)}, code {answer.status}")
                return await self._body(verb, answer)
        except TimeoutError:
            raise self.failure(verb, f"no answer within {self._timeout:g}s") from None
        except (aiohttp.ClientError, OSError, ValueError) as problem:
            raise self.failure(verb, " ".join(str(problem).split()) or type(problem).__name__) from None

    def failure(self, verb: str, problem: str) -> ExtenderFailed:
        """A failure that the extender has not told of itself."""
        return ExtenderFailed(f"{self._failed(verb)}: {problem}")

    async def close(self) -> None:
        """Drop all connections."""
        if self._opened is not None:
            await self._opened.close()

    def _failed(self, verb: str) -> str:
        return f"failed {verb} with extender at URL {self.url.rstrip('/')}/{verb}"

    async def _body(self, verb: str, answer: aiohttp.ClientResponse) -> bytes:
        body = bytearray()
        async for chunk in answer.content.iter_any():
            body += chunk
            if len(body) > MOST_BYTES:
                raise self.failure(verb, f"its answer is longer than {MOST_BYTES} bytes")
        return bytes(body)

    def _session(self) -> aiohttp.ClientSession:
        if self._opened is None:
            self._opened = aiohttp.ClientSession(
                connector=aiohttp.TCPConnector(
                    ssl=self._tls if self._tls is not None else True, keepalive_timeout=IDLE
                ),
                cookie_jar=aiohttp.DummyCookieJar(),
                timeout=aiohttp.ClientTimeout(total=self._timeout),
                read_bufsize=1 << 18,
                trust_env=True,
            )
        return self._opened


def tls_of(configured: Configured) -> ssl.SSLContext | None:
    """How the extender and we prove who we are; None leaves it to what the system trusts. UnusableTLS."""
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
    """Where a certificate or key is, or is put: data goes before the file named, as in client-go."""
    if data:
        path.write_bytes(base64.b64decode(data, validate=True))
        return str(path)
    return named or None
