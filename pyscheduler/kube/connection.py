"""Connection to one API server: requests, streams and safe retries.

Calls share a bounded number of kept-alive connections. Watches have their own, because each occupies one for minutes,
and so do lists, which are decoded while they arrive. A call is retried only if that cannot have an effect twice: if the
server rejected it (429), if it was never sent, or if it only reads.
"""

from __future__ import annotations

import math
import sys
from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Final, Protocol

import msgspec

import pyscheduler
from pyscheduler import logs
from pyscheduler.api import ApiError
from pyscheduler.clock import Clock, SystemClock
from pyscheduler.kube import protobuf
from pyscheduler.kube.client_metrics import ClientMetrics
from pyscheduler.kube.credentials import ConnectionProblem, Credentials, load
from pyscheduler.kube.deadlines import Deadlines
from pyscheduler.kube.errors import (
    DISTRUST,
    LOST,
    TIMEOUT,
    UNREACHABLE,
    RequestError,
    StatusDetails,
    unanswered,
)
from pyscheduler.kube.headers import LONGEST_WAIT, bounded_wait, retry_after
from pyscheduler.kube.http1 import JSON, PROTOBUF, Response
from pyscheduler.kube.http_connection import Address, Limits
from pyscheduler.kube.limiter import Limiter
from pyscheduler.kube.outage import OutageLog, OutageMessages, watch_outage_log
from pyscheduler.kube.pool import READS, Call, Pool, Stream

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
__all__ += ["ConnectionProblem", "connect", "connect_when_available", "unanswered"]

Encode = Callable[[str], bytes]
"""Encodes an object in a content type: JSON or PROTOBUF."""

MERGE_PATCH: Final = "application/merge-patch+json"
STRATEGIC_PATCH: Final = "application/strategic-merge-patch+json"

CONNECTIONS: Final = 448
UNBATCHED_SECONDS: Final = 60.0
"""Seconds without batches of calls after some calls of a batch got no response: not every proxy supports pipelining."""

_USER_AGENT = f"pyscheduler/{pyscheduler.__version__}"
UNAVAILABLE_RETRY: Final = 2.0
"""Seconds between two attempts to connect to a server that is not available."""
_BUSY_TRIES, _FAULT_TRIES = 10, 4
"""Attempts at a call that the server rejects because it is busy (429), and at one that fails otherwise."""
_LATENCY_READS = 2
"""The first read may have to open the connection."""
_FIRST_PAUSE = 0.1
_WRONG_CONTENT_TYPE = (406, 415)
_log = logs.get("connection")


class ConnectionOptions(msgspec.Struct, frozen=True):
    """Limits of the calls to the API server."""

    connections: int = CONNECTIONS
    """Kept-alive connections for calls, opened on demand: enough for all bindings, evictions and status writes in
    flight. Further calls wait. Watches are not counted."""
    qps: float = 0.0
    burst: int = 0
    """As in clientConnection: 0 means kube-scheduler's default (50 and 100), a negative qps no limit."""
    content_type: str = JSON
    """As in clientConnection: the encoding that `create` sends as long as the server accepts it."""
    deadlines: Deadlines = Deadlines()


class Transport(Protocol):
    """Transport of calls: direct or through a proxy."""

    async def call(self, call: Call, authorization: str) -> Response:
        """Send a call once and return its response. RequestError if there is none."""

    async def calls(self, calls: Sequence[Call], authorization: str) -> list[Response | None]:
        """Send repeatable calls together once; None for each without a response. RequestError if none was sent."""

    async def stream(self, call: Call, authorization: str, limits: Limits) -> Stream:
        """Send a call and return its response as a stream. RequestError if there is none."""

    async def warm(self, connections: int) -> None:
        """Open that many connections ahead of the calls, if possible; never raises RequestError."""

    async def close(self) -> None:
        """Close all connections."""


class _Status(msgspec.Struct):
    message: str = ""
    reason: str = ""
    details: StatusDetails | None = None


MetricsFactory = Callable[[str], ClientMetrics]
"""Returns the metrics of calls to a server."""


def _no_metrics(_: str) -> ClientMetrics:
    return ClientMetrics()


class ServerUnavailable(ConnectionProblem):
    """The API server does not respond or is not ready, which may pass."""


async def connect(
    kubeconfig: Path | None,
    options: ConnectionOptions | None = None,
    clock: Clock | None = None,
    server: str = "",
    metrics: MetricsFactory = _no_metrics,
) -> Connection:
    """Return a connection to a server that responds. ConnectionProblem, with a one-line message, otherwise.

    `server` overrides the address in the kubeconfig.
    """
    clock = clock or SystemClock()
    credentials = await load(kubeconfig, clock, server)
    connection = Connection(credentials, options or ConnectionOptions(), clock, metrics(credentials.host))
    try:
        await connection.check()
    except BaseException:
        await connection.close()
        raise
    return connection


async def connect_when_available(
    kubeconfig: Path | None,
    options: ConnectionOptions,
    clock: Clock,
    server: str = "",
    metrics: MetricsFactory = _no_metrics,
) -> Connection:
    """Wait until the server responds; return a connection. ConnectionProblem for a problem that does not pass.

    After a reboot of the control plane the scheduler may start long before the API server.
    """
    begin, summary = "API server is not available, retrying", "API server is still not available, retrying"
    outages = OutageLog(_log, clock, OutageMessages(begin, summary, end="API server is available"))
    while True:
        try:
            connection = await connect(kubeconfig, options, clock, server, metrics)
        except ServerUnavailable as problem:
            outages.fail(server, problem)
            await clock.sleep(UNAVAILABLE_RETRY)
        else:
            outages.succeed(server)
            return connection


class Connection:
    """Requests and streams to one API server. Must be created and closed inside the event loop."""

    def __init__(
        self,
        credentials: Credentials,
        options: ConnectionOptions,
        clock: Clock,
        metrics: ClientMetrics | None = None,
        may_write: Callable[[], bool] | None = None,
    ) -> None:
        """`may_write` is called at the moment of sending a write; if it returns False, the call fails as NotLeading."""
        self._credentials = credentials
        self._options = options
        self._clock = clock
        self._log = logs.LimitedLog("connection", clock.now)
        self._limiter = None if options.qps < 0 else Limiter(options.qps, options.burst, clock)
        self._transport = _transport(credentials, options, may_write)
        self._sends_protobuf = options.content_type == PROTOBUF
        self._unbatched_until = 0.0
        self._metrics = metrics or ClientMetrics()
        self.watch_outages = watch_outage_log(clock)
        """Failures of all watches on this connection."""

    def new_connection(
        self, options: ConnectionOptions | None = None, may_write: Callable[[], bool] | None = None
    ) -> Connection:
        """Return a separate connection to the same server with the same credentials.

        `may_write` is called at the moment of sending each write: if it returns False, the call fails with the reason
        NotLeading and is not retried.
        """
        return Connection(self._credentials, options or self._options, self._clock, self._metrics, may_write)

    @property
    def server(self) -> str:
        """Base URL."""
        return self._credentials.host

    @property
    def namespace(self) -> str:
        """Namespace of the kubeconfig's context, or of the pod's service account; `default` if it has none."""
        return self._credentials.namespace

    @property
    def deadlines(self) -> Deadlines:
        """Deadlines of the calls."""
        return self._options.deadlines

    async def check(self) -> None:
        """Read the server's version. ConnectionProblem if it does not respond or rejects the credentials."""
        try:
            await self.request("GET", "/version", retries=False)
        except ApiError as problem:
            if problem.status == 403:  # authenticated, but not authorised to read /version
                return
            may_pass = problem.status in (0, 429) or problem.status >= 500
            kind = ServerUnavailable if may_pass and DISTRUST not in str(problem) else ConnectionProblem
            raise kind(self._explain(problem)) from None

    def _explain(self, problem: ApiError) -> str:
        cannot = f"cannot reach {self.server} named by {self._credentials.described}: {problem}"
        if DISTRUST in str(problem):
            return f"{cannot}; is the certificate-authority the right one?"
        if problem.reason == UNREACHABLE:
            return f"{cannot}; is the API server running?"
        if problem.status == 401:
            return f"{self.server} does not accept the credentials of {self._credentials.described}: {problem}"
        return cannot

    async def request(
        self,
        method: str,
        path: str,
        body: bytes | Encode | None = None,
        content_type: str = JSON,
        *,
        retries: bool = True,
    ) -> bytes:
        """Return the response's body; `path` carries its query already encoded. ApiError if the call fails.

        A body that is a function is encoded as PROTOBUF where that is configured and the server accepts it, else as
        JSON. With `retries` the call is repeated after failures where that is safe.
        """
        call, attempts, began = self._encoded(method, path, body, content_type), _Attempts(), self._clock.now()
        try:
            while True:
                try:
                    response = await self._transport.call(call, await self._authorize(method))
                    return self._body(call, response, attempts.number > 0)
                except RequestError as problem:
                    if callable(body) and call.content_type == PROTOBUF and problem.status in _WRONG_CONTENT_TYPE:
                        self._sends_protobuf = False
                        call, attempts = self._encoded(method, path, body, content_type), _Attempts()
                        continue
                    await self._wait_for_retry(call, attempts, problem, retries)
        finally:
            self._metrics.observe_latency(method, self._clock.now() - began)

    def _body(self, call: Call, response: Response, is_retry: bool) -> bytes:
        """Count the response and return its body. RequestError if it is an error."""
        self._metrics.count_result(call.method, response.status, is_retry)
        self._metrics.observe_sizes(call.method, len(call.body or b""), len(response.body))
        if response.status >= 300:
            raise _error_of(response, self._clock.wall())
        return response.body

    def _encoded(self, method: str, path: str, body: bytes | Encode | None, content_type: str) -> Call:
        if body is None or isinstance(body, bytes):
            return Call(method, path, body, content_type)
        form = PROTOBUF if self._sends_protobuf else JSON
        return Call(method, path, body(form), form)

    @property
    def batch_limit(self) -> int:
        """Number of calls that may be sent as one batch now without waiting for the rate limiter."""
        if self._clock.now() < self._unbatched_until:
            return 1
        return sys.maxsize if self._limiter is None else self._limiter.left()

    async def create_batch(self, objects: Sequence[tuple[str, Encode]]) -> list[bool]:
        """POST named objects in one batch. Return for each True if the server accepted it.

        `request` reports the error of each that was not accepted, and of all if none could be sent.
        """
        form = PROTOBUF if self._sends_protobuf else JSON
        calls = [Call("POST", path, encode(form), form) for path, encode in objects]
        began = self._clock.now()
        try:
            responses = await self._transport.calls(calls, await self._authorize("POST", len(calls)))
        except RequestError:
            responses = [None] * len(calls)
        if None in responses:
            self._unbatched_until = self._clock.now() + UNBATCHED_SECONDS
        seconds = self._clock.now() - began
        return [
            self._record_batch_result(call, response, seconds) for call, response in zip(calls, responses, strict=True)
        ]

    def _record_batch_result(self, call: Call, response: Response | None, seconds: float) -> bool:
        """Record the metrics of one call of a batch. Return True if it succeeded."""
        self._metrics.count_result(call.method, response.status if response else 0, again=False)
        if response is not None:
            self._metrics.observe_sizes(call.method, len(call.body or b""), len(response.body))
        self._metrics.observe_latency(call.method, seconds)
        return response is not None and response.status < 300

    @asynccontextmanager
    async def watching(self, path: str, seconds: float) -> AsyncIterator[AsyncIterator[bytes]]:
        """Open a watch that the server should end after `seconds`; TIMEOUT if it does not.

        Silence is no sign of a dead connection here, but a missing end is.
        """
        limits = self.deadlines
        async with self._stream(path, Limits(limits.response, math.inf, seconds + limits.grace)) as chunks:
            yield chunks

    @asynccontextmanager
    async def reading(self, path: str) -> AsyncIterator[AsyncIterator[bytes]]:
        """Read a long response as a stream: its total time is not limited, each pause is."""
        began = self._clock.now()
        try:
            async with self._stream(path, Limits(self.deadlines.read, self.deadlines.read, math.inf)) as chunks:
                yield chunks
        finally:
            self._metrics.observe_latency("GET", self._clock.now() - began)

    @asynccontextmanager
    async def _stream(self, path: str, limits: Limits) -> AsyncIterator[AsyncIterator[bytes]]:
        stream = await self._open_stream(Call("GET", path), limits)
        try:
            yield stream.chunks
        finally:
            stream.close()

    async def latency(self) -> float:
        """Return the least seconds of a few small reads on an open connection; 0 if there is no response."""
        least = 0.0
        for _ in range(_LATENCY_READS):
            began = self._clock.now()
            try:
                await self.request("GET", "/version", retries=False)
            except ApiError as problem:
                if not problem.status:
                    return 0.0
            seconds = self._clock.now() - began
            least = min(least or seconds, seconds)
        return least

    async def warm(self, connections: int) -> None:
        """Open that many connections ahead of the calls, as far as the server allows."""
        await self._transport.warm(connections)

    async def close(self) -> None:
        """Close all connections."""
        await self._transport.close()

    async def _open_stream(self, call: Call, limits: Limits) -> Stream:
        attempts = _Attempts()
        while True:
            try:
                stream = await self._transport.stream(call, await self._authorize(call.method), limits)
                return self._accepted(call, stream, attempts.number > 0)
            except RequestError as problem:
                await self._wait_for_retry(call, attempts, problem)

    def _accepted(self, call: Call, stream: Stream, is_retry: bool) -> Stream:
        """Count the response and return the stream. RequestError, with the stream closed, if it is an error."""
        refused = stream.refused
        self._metrics.count_result(call.method, 200 if refused is None else refused.status, is_retry)
        if refused is not None:
            stream.close()
            raise _error_of(refused, self._clock.wall())
        return stream

    async def _wait_for_retry(
        self, call: Call, attempts: _Attempts, problem: RequestError, retries: bool = True
    ) -> None:
        """Wait until a failed call may be repeated. Raises `problem` if it may not, or has waited for too long."""
        if not problem.status:
            self._metrics.count_result(call.method, 0, attempts.number > 0)
        attempts.number += 1
        pause = _pause(call, attempts.number, problem) if retries else None
        if pause is None or attempts.waited + pause > LONGEST_WAIT:
            raise problem
        attempts.waited += pause
        _log.info("Retrying a call", v=4, method=call.method, path=call.path, after=pause, err=str(problem))
        if problem.status == 401:
            await self._reread()
        await self._clock.sleep(pause)

    async def _reread(self) -> None:
        """Read the credentials again; if that fails, the call is retried with the rejected ones."""
        try:
            await self._credentials.reread()
        except ConnectionProblem as problem:
            self._log.warning("Cannot reload the credentials", problem)

    async def _authorize(self, method: str, calls: int = 1) -> str:
        """Wait until the rate limiter admits the calls; return the Authorization header."""
        pause = 0.0
        for _ in range(calls):
            pause = 0.0 if self._limiter is None else self._limiter.take()
            self._metrics.observe_rate_limiter_wait(method, pause)
        if pause:
            await self._clock.sleep(pause)
        static = self._credentials.static_authorization
        if static is not None:
            return static
        try:
            return await self._credentials.authorization()
        except ConnectionProblem as problem:  # an exec plugin or a file that worked before: nothing was sent
            raise RequestError(0, UNREACHABLE, str(problem)) from None


def _transport(credentials: Credentials, options: ConnectionOptions, may_write: Callable[[], bool] | None) -> Transport:
    if credentials.proxy:
        from pyscheduler.kube.proxy_transport import ProxyTransport, Route  # aiohttp takes long to import

        route = Route(credentials.host, credentials.proxy, credentials.ssl, credentials.server_hostname)
        return ProxyTransport(route, options.connections, options.deadlines, _USER_AGENT, may_write)
    address = Address.of(credentials.host, credentials.ssl, credentials.server_hostname)
    return Pool(address, options.connections, options.deadlines, _USER_AGENT, may_write)


class _Attempts(msgspec.Struct):
    """Failed attempts at one call, and the seconds waited after them."""

    number: int = 0
    waited: float = 0.0


def _pause(call: Call, attempts: int, problem: RequestError) -> float | None:
    """Return the seconds until the call may be retried, None if it may not."""
    if problem.status == 429 and attempts < _BUSY_TRIES:
        # Not a busy server but a disruption budget: when to try again is up to the caller, as with client-go.
        is_budget = problem.retry_after is None and call.path.endswith("/eviction")
        return None if is_budget else problem.retry_after or 1.0
    if problem.status == 401 and attempts == 1:
        return 0.0
    safe = problem.reason == UNREACHABLE or call.method in READS
    fault = problem.status == 0 or (problem.status >= 500 and problem.retry_after is not None)
    if fault and safe and attempts < _FAULT_TRIES:
        return problem.retry_after or _FIRST_PAUSE * 2 ** (attempts - 1)
    return None


def _error_of(response: Response, wall: float) -> RequestError:
    status = _status(response.body)
    text = status.message or " ".join(response.body[:200].decode(errors="replace").split())
    return RequestError(
        response.status,
        status.reason or response.reason,
        text or f"HTTP {response.status} {response.reason}".rstrip(),
        _wait(response.retry_after, status, wall),
        status.details,
    )


def _status(body: bytes) -> _Status:
    """Return the Status in an error response; an empty one if it cannot be decoded, as from a proxy."""
    try:
        if protobuf.is_message(body):
            message, reason, seconds = protobuf.status(body)
            return _Status(message, reason, StatusDetails(retry_after_seconds=seconds))
        return msgspec.json.decode(body, type=_Status)
    except (ValueError, RecursionError, msgspec.MsgspecError):
        return _Status()


def _wait(header: str, status: _Status, wall: float) -> float | None:
    """Return the seconds after which the server wants the call retried, None if the response has none."""
    seconds = retry_after(header, wall)
    if seconds is None and status.details and status.details.retry_after_seconds:
        return bounded_wait(min(status.details.retry_after_seconds, LONGEST_WAIT))  # an integer may exceed a float
    return seconds
