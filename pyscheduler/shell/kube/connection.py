"""One connection pool to one API server: requests, streams, and when it is safe to try again.

Calls share a bounded number of kept-alive connections; watches have their own, because they hold one for minutes.
A call is repeated only where that cannot do anything twice: when the server says that it did not take it (429), when
it was never sent, or when it only reads.
"""

from __future__ import annotations

import asyncio
import socket
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Final, NamedTuple

import aiohttp
import msgspec
from yarl import URL

import pyscheduler
from pyscheduler.api import ApiError
from pyscheduler.shell import logs
from pyscheduler.shell.clock import Clock, SystemClock
from pyscheduler.shell.kube.credentials import ConnectionProblem, Credentials, load
from pyscheduler.shell.kube.limiter import Limiter

__all__ = [
    "JSON",
    "LOST",
    "MERGE_PATCH",
    "STRATEGIC_PATCH",
    "TIMEOUT",
    "UNREACHABLE",
    "Connection",
    "ConnectionOptions",
]
__all__ += ["ConnectionProblem", "connect", "unanswered"]

JSON: Final = "application/json"
MERGE_PATCH: Final = "application/merge-patch+json"
STRATEGIC_PATCH: Final = "application/strategic-merge-patch+json"

UNREACHABLE: Final = "Unreachable"
"""ApiError.reason: no connection could be made, so nothing was sent."""
LOST: Final = "ConnectionLost"
"""ApiError.reason: the connection broke; whether the server acted is not known."""
TIMEOUT: Final = "Timeout"
"""ApiError.reason: no answer in time; whether the server acted is not known."""

_DISTRUST = "its certificate is not trusted"
_BUSY_TRIES = 10
_FAULT_TRIES = 4
_FIRST_PAUSE = 0.1
_READS = ("GET", "HEAD")
_log = logs.get("connection")


@dataclass(frozen=True, slots=True)
class ConnectionOptions:
    """How much we ask of the API server."""

    connections: int = 16
    """Kept-alive connections for calls; more calls than that wait. Watches are not counted."""
    qps: float = 0.0
    burst: int = 0
    """clientConnection's: 0 means kube-scheduler's default (50 and 100), a negative qps no limit."""
    timeout: float = 30.0
    """Seconds for one call. Watches are bounded by what they ask the server for."""


class _Details(msgspec.Struct):
    retry_after_seconds: int = msgspec.field(name="retryAfterSeconds", default=0)


class _Status(msgspec.Struct):
    message: str = ""
    reason: str = ""
    details: _Details | None = None


class _Refused(ApiError):
    """An ApiError that also knows how long the server asked to be left alone, in seconds."""

    def __init__(self, status: int, reason: str, message: str, retry_after: float | None = None) -> None:
        super().__init__(status, reason, message)
        self.retry_after = retry_after


class _Call(NamedTuple):
    """A request; `silence` (seconds) makes it a stream."""

    method: str
    path: str
    body: bytes | None = None
    content_type: str = JSON
    silence: float | None = None


def unanswered(error: ApiError) -> bool:
    """Whether a call may or may not have been carried out: it was sent, and no answer came."""
    return error.status == 0 and error.reason in (LOST, TIMEOUT)


async def connect(
    kubeconfig: Path | None, options: ConnectionOptions | None = None, clock: Clock | None = None
) -> Connection:
    """A connection to a server that has answered. ConnectionProblem, in one line, where that cannot be."""
    clock = clock or SystemClock()
    connection = Connection(await load(kubeconfig, clock), options or ConnectionOptions(), clock)
    try:
        await connection.check()
    except ConnectionProblem:
        await connection.close()
        raise
    return connection


class Connection:
    """Requests and streams to one API server. Must be made and closed inside the event loop."""

    def __init__(self, credentials: Credentials, options: ConnectionOptions, clock: Clock) -> None:
        self._credentials = credentials
        self._clock = clock
        self._limiter = Limiter(options.qps, options.burst, clock)
        self._timeout = options.timeout
        self._calls = _session(credentials, options.connections, options.timeout)
        self._streams = _session(credentials, 0, options.timeout)

    @property
    def server(self) -> str:
        """The base URL."""
        return self._credentials.host

    async def check(self) -> None:
        """Ask for the server's version. ConnectionProblem if it does not answer or does not want us."""
        try:
            await self._once(_Call("GET", "/version"))
        except ApiError as problem:
            if problem.status == 403:  # it knows us, and /version is not for everyone
                return
            raise ConnectionProblem(self._explained(problem)) from None

    def _explained(self, problem: ApiError) -> str:
        cannot = f"cannot reach {self.server} named by {self._credentials.described}: {problem}"
        if _DISTRUST in str(problem):
            return f"{cannot}; is the certificate-authority the right one?"
        if problem.reason == UNREACHABLE:
            return f"{cannot}; is the API server running?"
        if problem.status == 401:
            return f"{self.server} does not accept the credentials of {self._credentials.described}: {problem}"
        return cannot

    async def request(self, method: str, path: str, body: bytes | None = None, content_type: str = JSON) -> bytes:
        """One call; `path` carries its query already encoded. ApiError if it fails after all safe repetitions."""
        _, content = await self._repeated(_Call(method, path, body, content_type))
        return content

    @asynccontextmanager
    async def stream(self, path: str, silence: float) -> AsyncIterator[AsyncIterator[bytes]]:
        """A GET whose body is read as it comes; `silence` is how many seconds of nothing mean that it is dead."""
        response, _ = await self._repeated(_Call("GET", path, silence=silence))
        try:
            yield _chunks(response)
        finally:
            response.close()

    async def close(self) -> None:
        """Drop all connections."""
        await self._calls.close()
        await self._streams.close()

    async def _repeated(self, call: _Call) -> tuple[aiohttp.ClientResponse, bytes]:
        """The answer to a call, repeated where that is safe."""
        tries = 0
        while True:
            tries += 1
            try:
                return await self._once(call)
            except _Refused as problem:
                pause = _pause(call.method, tries, problem)
                if pause is None:
                    raise
                _log.info("Repeating a call", v=4, method=call.method, path=call.path, after=pause, err=str(problem))
                if problem.status == 401:
                    await self._credentials.reread()
            await self._clock.sleep(pause)

    async def _once(self, call: _Call) -> tuple[aiohttp.ClientResponse, bytes]:
        await self._limiter.take()
        headers = {"Content-Type": call.content_type} if call.body is not None else {}
        authorization = await self._credentials.authorization()
        if authorization:
            headers["Authorization"] = authorization
        session = self._calls if call.silence is None else self._streams
        try:
            response = await session.request(
                call.method,
                URL(self._credentials.host + call.path, encoded=True),
                data=call.body,
                headers=headers,
                allow_redirects=False,
                proxy=self._credentials.proxy,
                server_hostname=self._credentials.server_hostname,
                timeout=aiohttp.ClientTimeout(sock_connect=self._timeout, sock_read=call.silence)
                if call.silence is not None
                else session.timeout,
            )
            refused = response.status >= 300
            content = await response.read() if refused or call.silence is None else b""
        except (aiohttp.ClientError, TimeoutError, OSError) as error:
            raise _unanswered(error) from None
        if refused:
            raise _refusal(response, content)
        return response, content


def _pause(method: str, tries: int, problem: _Refused) -> float | None:
    """Seconds until the call may be repeated, None if it may not."""
    if problem.status == 429 and tries < _BUSY_TRIES:
        return problem.retry_after or 1.0
    if problem.status == 401 and tries == 1:
        return 0.0
    safe = problem.reason == UNREACHABLE or method in _READS
    fault = problem.status == 0 or (problem.status >= 500 and problem.retry_after is not None)
    if fault and safe and tries < _FAULT_TRIES:
        return problem.retry_after or _FIRST_PAUSE * 2 ** (tries - 1)
    return None


def _session(credentials: Credentials, limit: int, timeout: float) -> aiohttp.ClientSession:
    connector = aiohttp.TCPConnector(
        limit=limit,
        ssl=credentials.ssl if credentials.ssl is not None else True,
        keepalive_timeout=30,  # below the API server's 90, so that it is we who close
        socket_factory=_socket,
    )
    return aiohttp.ClientSession(
        connector=connector,
        timeout=aiohttp.ClientTimeout(total=timeout),
        cookie_jar=aiohttp.DummyCookieJar(),
        headers={"Accept": JSON, "User-Agent": f"pyscheduler/{pyscheduler.__version__}"},
        read_bufsize=1 << 18,
    )


def _socket(address: aiohttp.AddrInfoType) -> socket.socket:
    """A socket that finds out within a minute that its peer has vanished."""
    family, kind, protocol, _, _ = address
    made = socket.socket(family, kind, protocol)
    made.setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)
    for option, value in (("TCP_KEEPIDLE", 30), ("TCP_KEEPINTVL", 10), ("TCP_KEEPCNT", 3)):
        if hasattr(socket, option):
            made.setsockopt(socket.IPPROTO_TCP, getattr(socket, option), value)
    return made


async def _chunks(response: aiohttp.ClientResponse) -> AsyncIterator[bytes]:
    try:
        async for chunk in response.content.iter_any():
            yield chunk
    except (aiohttp.ClientError, TimeoutError, OSError) as error:
        raise _unanswered(error) from None


def _unanswered(error: Exception) -> _Refused:
    if isinstance(error, aiohttp.ClientConnectorError):
        return _Refused(0, UNREACHABLE, _cause(error))
    if isinstance(error, TimeoutError):
        # A connection that takes too long to make was not made.
        reason = UNREACHABLE if isinstance(error, aiohttp.ConnectionTimeoutError) else TIMEOUT
        return _Refused(0, reason, "no answer in time")
    if isinstance(error, aiohttp.ClientPayloadError):
        return _Refused(0, LOST, "the connection broke in the middle of the answer")
    return _Refused(0, LOST, f"the connection broke: {str(error) or type(error).__name__}")


def _cause(error: aiohttp.ClientConnectorError) -> str:
    """What the operating system or TLS said, without aiohttp's words around it."""
    cause = error.os_error
    if isinstance(error, aiohttp.ClientConnectorCertificateError):
        return f"{_DISTRUST}: {getattr(error.certificate_error, 'verify_message', '') or error.certificate_error}"
    if isinstance(error, aiohttp.ClientConnectorDNSError):
        return "its name cannot be resolved"
    if isinstance(cause, ConnectionRefusedError):
        return "connection refused"
    if isinstance(cause, asyncio.TimeoutError):
        return "no answer in time"
    return " ".join(str(cause.strerror or cause).split())


def _refusal(response: aiohttp.ClientResponse, content: bytes) -> _Refused:
    try:
        status = msgspec.json.decode(content, type=_Status)
    except (msgspec.MsgspecError, UnicodeDecodeError):
        status = _Status()
    text = status.message or " ".join(content[:200].decode(errors="replace").split())
    return _Refused(
        response.status,
        status.reason or (response.reason or ""),
        text or f"HTTP {response.status} {response.reason or ''}".rstrip(),
        _retry_after(response.headers.get("Retry-After", ""), status),
    )


def _retry_after(header: str, status: _Status) -> float | None:
    if header.isdigit():
        return float(header)
    return float(status.details.retry_after_seconds) if status.details and status.details.retry_after_seconds else None
