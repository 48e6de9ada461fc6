"""Transport through an HTTP proxy: `Pool`'s interface with aiohttp, which supports proxies but is slower."""

from __future__ import annotations

import asyncio
import math
import ssl
from collections.abc import AsyncIterator, Callable, Sequence

import aiohttp
import msgspec
from yarl import URL

from pyscheduler.kube.deadlines import Deadlines
from pyscheduler.kube.errors import (
    RequestError,
    connection_lost_error,
    not_leading_error,
    timeout_error,
    unreachable_error,
)
from pyscheduler.kube.http1 import ACCEPT, JSON, Response
from pyscheduler.kube.http_connection import Limits
from pyscheduler.kube.loop_socket import loop_socket
from pyscheduler.kube.pool import IDLE, READS, Call, Stream


class Route(msgspec.Struct, frozen=True):
    """Route to a server. `server_hostname` must match its certificate, if it differs from the host in `url`."""

    url: str
    proxy: str
    tls: ssl.SSLContext | None
    server_hostname: str | None


class ProxyTransport:
    """Calls and streams to one server behind a proxy. Must be created and closed inside the event loop."""

    def __init__(
        self,
        route: Route,
        size: int,
        deadlines: Deadlines,
        user_agent: str,
        may_write: Callable[[], bool] | None = None,
    ) -> None:
        """`may_write` is called before a write acquires a connection; False rejects it, None allows all."""
        self._may_write = may_write
        self._route = route
        self._deadlines = deadlines
        self._calls = _session(route, size, user_agent)
        self._streams = _session(route, 0, user_agent)

    async def call(self, call: Call, authorization: str) -> Response:
        """Send a call once. RequestError if there is no response."""
        if call.method not in READS and self._may_write is not None and not self._may_write():
            raise not_leading_error()
        timeout = aiohttp.ClientTimeout(total=self._deadlines.response, sock_connect=self._deadlines.connect)
        try:
            response = await self._send(self._calls, call, authorization, timeout)
            return _response_of(response, await response.read())
        except (aiohttp.ClientError, TimeoutError, OSError) as error:
            raise _request_error(error) from None

    async def calls(self, calls: Sequence[Call], authorization: str) -> list[Response | None]:
        """Send the calls one after the other: not every proxy supports pipelining."""
        return [await self._response_or_none(call, authorization) for call in calls]

    async def _response_or_none(self, call: Call, authorization: str) -> Response | None:
        try:
            return await self.call(call, authorization)
        except RequestError:
            return None

    async def stream(self, call: Call, authorization: str, limits: Limits) -> Stream:
        """Send a call and return its response as a stream. RequestError if there is none."""
        timeout = aiohttp.ClientTimeout(
            total=_finite(limits.total), sock_connect=self._deadlines.connect, sock_read=_finite(limits.silence)
        )
        try:
            async with asyncio.timeout(limits.head):
                response = await self._send(self._streams, call, authorization, timeout)
            refused = _response_of(response, await response.read()) if response.status >= 300 else None
        except (aiohttp.ClientError, TimeoutError, OSError) as error:
            raise _request_error(error) from None
        return Stream(refused, _chunks(response), response.close)

    async def warm(self, connections: int) -> None:
        """Do nothing: aiohttp opens connections on demand."""

    async def close(self) -> None:
        """Close all connections."""
        await self._calls.close()
        await self._streams.close()

    async def _send(
        self, session: aiohttp.ClientSession, call: Call, authorization: str, timeout: aiohttp.ClientTimeout
    ) -> aiohttp.ClientResponse:
        headers = {"Accept": ACCEPT.get(call.content_type, JSON)}
        if call.body is not None:
            headers["Content-Type"] = call.content_type
        if authorization:
            headers["Authorization"] = authorization
        return await session.request(
            call.method,
            URL(self._route.url + call.path, encoded=True),
            data=call.body,
            headers=headers,
            allow_redirects=False,
            proxy=self._route.proxy,
            server_hostname=self._route.server_hostname,
            timeout=timeout,
        )


def _session(route: Route, limit: int, user_agent: str) -> aiohttp.ClientSession:
    connector = aiohttp.TCPConnector(
        limit=limit,
        ssl=route.tls if route.tls is not None else True,
        keepalive_timeout=IDLE,
        socket_factory=loop_socket,
    )
    return aiohttp.ClientSession(
        connector=connector,
        cookie_jar=aiohttp.DummyCookieJar(),
        headers={"Accept-Encoding": "identity", "User-Agent": user_agent},
        read_bufsize=1 << 18,
    )


def _finite(seconds: float) -> float | None:
    """Return `seconds`, None for infinity, which is aiohttp's value for no limit."""
    return None if seconds == math.inf else seconds


def _response_of(response: aiohttp.ClientResponse, body: bytes) -> Response:
    return Response(response.status, body, response.reason or "", response.headers.get("Retry-After", ""))


async def _chunks(response: aiohttp.ClientResponse) -> AsyncIterator[bytes]:
    try:
        async for chunk in response.content.iter_any():
            yield chunk
    except (aiohttp.ClientError, TimeoutError, OSError) as error:
        raise _request_error(error) from None


def _request_error(error: Exception) -> RequestError:
    if isinstance(error, aiohttp.ClientConnectorCertificateError):
        return unreachable_error(error.certificate_error)
    if isinstance(error, aiohttp.ClientConnectorError):
        return unreachable_error(error.os_error)
    if isinstance(error, aiohttp.ClientHttpProxyError):
        return unreachable_error(error)
    if isinstance(error, TimeoutError):
        # The connection was not opened, so nothing was sent.
        return unreachable_error(error) if isinstance(error, aiohttp.ConnectionTimeoutError) else timeout_error()
    return connection_lost_error(error)
