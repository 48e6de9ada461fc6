"""HTTP server on the wire: valid, malformed and rejected requests."""

from __future__ import annotations

import asyncio
import gc
import ssl
from collections.abc import AsyncIterator
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest

from pyscheduler.shell.serving.messages import ServerRequest, ServerResponse
from pyscheduler.shell.serving.server_connection import LONGEST_HEAD
from pyscheduler.shell.serving.webserver import MOST_CONNECTIONS, WebServer
from tests.controlplane.certs import Authority


async def answer(request: ServerRequest) -> ServerResponse:
    if request.path == "/broken":
        raise RuntimeError
    if request.path == "/long":
        return ServerResponse(pieces("one ", "", "two"))
    if request.path == "/broken/off":
        return ServerResponse(pieces("one", None))
    if request.path == "/how":
        return ServerResponse(f"{request.method} {request.target} {request.subject}".encode())
    return ServerResponse(f"{request.path} {dict(request.query)} {request.headers.get('accept')}".encode())


async def pieces(*parts: str | None) -> AsyncIterator[bytes]:
    for part in parts:
        if part is None:
            raise RuntimeError
        yield part.encode()


@pytest.fixture
async def server() -> AsyncIterator[WebServer]:
    server = WebServer(answer, "127.0.0.1", 0)
    await server.start()
    yield server
    await server.stop()


async def exchange(server: WebServer, *requests: str) -> str:
    """Send the requests over one connection and return all bytes received until the server closes it."""
    reader, writer = await asyncio.open_connection("127.0.0.1", server.port)
    for request in requests:
        writer.write(request.encode("latin-1"))
        await asyncio.sleep(0)
    writer.write_eof()
    received = await reader.read()
    writer.close()
    return received.decode()


def get(path: str, *headers: str, method: str = "GET") -> str:
    return "\r\n".join((f"{method} {path} HTTP/1.1", "Host: x", *headers, "", ""))


HEAD = (
    "HTTP/1.1 200 OK\r\nContent-Type: text/plain; charset=utf-8\r\n"
    "X-Content-Type-Options: nosniff\r\nCache-Control: no-cache, private\r\n"
)


def ok(body: str) -> str:
    return f"{HEAD}Content-Length: {len(body)}\r\n\r\n{body}"


@pytest.mark.parametrize(
    ("path", "body"),
    [
        ("/a", "/a {} None"),
        ("/a?verbose", "/a {'verbose': ['']} None"),
        ("/a?x=1&x=2", "/a {'x': ['1', '2']} None"),
        ("/a%20b", "/a b {} None"),
        ("//a/b", "//a/b {} None"),
    ],
)
async def test_request_gets_a_response(server: WebServer, path: str, body: str) -> None:
    assert await exchange(server, get(path)) == ok(body)


async def test_headers_in_any_case(server: WebServer) -> None:
    assert await exchange(server, get("/a", "ACCEPT: this")) == ok("/a {} this")


async def test_connection_carries_several_requests(server: WebServer) -> None:
    assert await exchange(server, get("/a"), get("/b")) == ok("/a {} None") + ok("/b {} None")


async def test_request_in_pieces(server: WebServer) -> None:
    whole = get("/a")
    assert await exchange(server, *whole) == ok("/a {} None")


@pytest.mark.parametrize("last", [get("/a", "Connection: close"), "GET /a HTTP/1.0\r\n\r\n"])
async def test_close_ends_the_connection(server: WebServer, last: str) -> None:
    received = await exchange(server, last, get("/b"))
    assert "\r\nConnection: close\r\n" in received
    assert received.endswith("/a {} None")


async def test_head_has_no_body(server: WebServer) -> None:
    assert await exchange(server, get("/a", method="HEAD")) == ok("/a {} None").removesuffix("/a {} None")


async def test_request_has_method_target_and_subject(server: WebServer) -> None:
    assert await exchange(server, get("/how?a=%20", method="DELETE")) == ok("DELETE /how?a=%20 None")


async def test_long_response_is_chunked(server: WebServer) -> None:
    chunks = "4\r\none \r\n3\r\ntwo\r\n0\r\n\r\n"
    assert await exchange(server, get("/long"), get("/a")) == (
        f"{HEAD}Transfer-Encoding: chunked\r\n\r\n{chunks}" + ok("/a {} None")
    )
    assert (await exchange(server, "GET /long HTTP/1.0\r\n\r\n")).endswith("\r\nConnection: close\r\n\r\none two")


async def test_failed_long_response_is_truncated(server: WebServer) -> None:
    received = await exchange(server, get("/broken/off"))
    assert "3\r\none\r\n" in received
    assert not received.endswith("0\r\n\r\n")


async def test_longest_idle_connection_is_closed_at_the_limit(server: WebServer) -> None:
    held = [await asyncio.open_connection("127.0.0.1", server.port) for _ in range(MOST_CONNECTIONS)]
    for reader, writer in (*held[1:], held[0]):  # the second has then been idle the longest
        writer.write(get("/a").encode())
        await reader.readuntil(b"None")
    assert await exchange(server, get("/a")) == ok("/a {} None")
    async with asyncio.timeout(5):
        assert await held[1][0].read() == b""
    held[0][1].write(get("/b").encode())
    assert (await held[0][0].readuntil(b"None")).endswith(b"/b {} None")
    for _, writer in held:
        writer.close()


@pytest.mark.parametrize(
    ("request_", "status"),
    [
        pytest.param(get("/a", "Content-Length: 3") + "abc", "400 Bad Request", id="a body"),
        pytest.param(get("/a", "Transfer-Encoding: chunked"), "400 Bad Request", id="a body in chunks"),
        pytest.param(get("/a").replace("1.1", "2.0"), "505 HTTP Version Not Supported", id="another protocol"),
        pytest.param("nonsense\r\n\r\n", "400 Bad Request", id="not a request"),
        pytest.param(get("/a", "no header"), "400 Bad Request", id="not a header"),
        pytest.param(get("/a", f"X: {'x' * 2 * LONGEST_HEAD}"), "431 Request Header Fields Too Large", id="too long"),
        pytest.param(get("/broken", "Connection: close"), "500 Internal Server Error", id="an exception"),
    ],
)
async def test_rejected(server: WebServer, request_: str, status: str) -> None:
    received = await exchange(server, request_)
    assert received.startswith(f"HTTP/1.1 {status}\r\n")
    assert "\r\nConnection: close\r\n" in received


HIDDEN = get("/hidden")
LENGTH = f"Content-Length: {len(HIDDEN)}"


@pytest.mark.parametrize(
    "headers",
    [
        pytest.param((LENGTH, "Content-Length: 0"), id="two lengths, the second 0"),
        pytest.param(("Content-Length: 0", LENGTH), id="two lengths, the first 0"),
        pytest.param((f"{LENGTH}, 0",), id="a list of lengths"),
        pytest.param((f"Content-Length : {len(HIDDEN)}",), id="a space before the colon"),
        pytest.param((f"X: a\r{LENGTH}",), id="a bare CR before the length"),
        pytest.param(("Transfer-Encoding: chunked", "Content-Length: 0"), id="chunks and a length"),
        pytest.param(("Transfer-Encoding: identity",), id="an unknown encoding"),
    ],
)
async def test_request_hidden_in_a_body_gets_no_response(server: WebServer, headers: tuple[str, ...]) -> None:
    received = await exchange(server, get("/a", *headers) + HIDDEN)
    assert "/hidden" not in received
    assert received.count("HTTP/1.1 ") == 1


@pytest.mark.parametrize(
    ("request_", "status"),
    [
        pytest.param(get("/a").replace("Host: x\r\n", ""), 400, id="no Host"),
        pytest.param(get("/a", "Host: y"), 400, id="two Hosts"),
        pytest.param(get("/a").replace("Host: x", "Host: a b"), 400, id="a Host with a space"),
        pytest.param(get("/a", method="G(T"), 400, id="a method that is no token"),
        pytest.param(get("a"), 400, id="a path without a slash"),
        pytest.param(get("*"), 400, id="no path"),
        pytest.param(get("/a%zz"), 400, id="a bad escape"),
        pytest.param(get("http://x:y/a"), 400, id="a URL with a bad port"),
        pytest.param(get("/a\x01"), 400, id="a control character in the path"),
        pytest.param(get("/a", "X: a\x01"), 400, id="a control character in a value"),
        pytest.param(get("/a", "X: a\0"), 400, id="NUL in a value"),
        pytest.param(get("/a", ": a"), 400, id="a header without a name"),
        pytest.param(get("/a", "X(: a"), 400, id="a header name that is not a token"),
        pytest.param(get("/a", "Content-Length: +0"), 400, id="a signed length"),
        pytest.param(get("/a", f"Content-Length: {'9' * 5000}"), 400, id="a length of 5,000 digits"),
        pytest.param(get("/a", "Content-Length: \u00b2"), 400, id="a superscript length"),
        pytest.param(get("/a", "Transfer-Encoding: gzip"), 501, id="an encoding that Go lacks"),
        pytest.param(get("/a", "Expect: 200-ok"), 417, id="an expectation"),
    ],
)
async def test_requests_that_go_rejects_are_rejected_with_the_same_status(
    server: WebServer, request_: str, status: int
) -> None:
    """The statuses are those of Go 1.26's net/http for the same bytes."""
    received = await exchange(server, request_)
    assert received.startswith(f"HTTP/1.1 {status} ")
    assert "\r\nConnection: close\r\n" in received


async def test_rejected_head_request_has_no_body(server: WebServer) -> None:
    assert (await exchange(server, get("/a%zz", method="HEAD"))).endswith("\r\n\r\n")


@pytest.mark.parametrize(
    "request_",
    [
        pytest.param(get("http://x:80/a"), id="a whole URL"),
        pytest.param(get("/a", "Content-Length: 00"), id="a length of 0"),
        pytest.param(get("/a", "Content-Length: 0", "Content-Length: 0"), id="equal lengths"),
        pytest.param(get("/a", "X: a", " b"), id="a folded header"),
        pytest.param(get("/a").replace("\r\n", "\n"), id="lines that end in LF alone"),
        pytest.param(get("/a", "Expect: 100-continue"), id="an expectation that is always met"),
    ],
)
async def test_requests_that_go_accepts_are_accepted(server: WebServer, request_: str) -> None:
    assert await exchange(server, request_) == ok("/a {} None")


async def test_stopping_closes_idle_connections(server: WebServer) -> None:
    reader, writer = await asyncio.open_connection("127.0.0.1", server.port)
    writer.write(get("/a").encode())
    await reader.readuntil(b"None")
    await server.stop()
    assert await reader.read() == b""
    writer.close()


@pytest.mark.parametrize("secure", [False, True], ids=["plain", "TLS"])
async def test_stop_closes_open_connections_without_logging(
    tmp_path: Path, caplog: pytest.LogCaptureFixture, secure: bool
) -> None:
    gc.collect()  # what earlier tests left may log
    caplog.clear()
    problems: list[dict[str, Any]] = []
    asyncio.get_running_loop().set_exception_handler(lambda _, context: problems.append(context))
    authority = Authority()
    own = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    own.load_cert_chain(*authority.server(["localhost"], ["127.0.0.1"]).write(tmp_path, "own"))

    async def context() -> ssl.SSLContext:
        return own

    server = WebServer(answer, "127.0.0.1", 0, context if secure else None)
    await server.start()
    client = ssl.create_default_context(cadata=authority.certificate) if secure else None
    reader, writer = await asyncio.open_connection("127.0.0.1", server.port, ssl=client)
    writer.write(get("/a").encode())
    assert (await reader.readuntil(b"None")).endswith(b"/a {} None")
    await server.stop()
    with suppress(OSError):
        assert await reader.read() == b""
    writer.close()
    gc.collect()
    await asyncio.sleep(0)
    assert (problems, caplog.messages) == ([], [])
