"""Random bytes for the scheduler's endpoints: no request is smuggled in another one, and the server survives."""

from __future__ import annotations

import asyncio
import re

import h11
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from pyscheduler.shell.serving.messages import ServerRequest, ServerResponse
from pyscheduler.shell.serving.webserver import WebServer

pytestmark = pytest.mark.slow

HIDDEN = b"GET /hidden HTTP/1.1\r\nHost: x\r\n\r\n"
LENGTHS = st.sampled_from([b"0", b"00", b"%d" % len(HIDDEN), b"+0", b"-1", b"0x0", b"0, 0", b"", b"\xb2", b"9" * 5000])
ENCODINGS = st.sampled_from([b"chunked", b"identity", b"gzip", b"chunked, chunked", b"xchunked", b"chunked\x0b"])
NAMES = st.sampled_from(
    [b"Content-Length", b"content-length", b"Content-Length ", b"Transfer-Encoding", b" Content-Length"]
)
COLONS = st.sampled_from([b":", b": ", b" :", b":\t", b""])
ENDS = st.sampled_from([b"\r\n", b"\r\n", b"\r\n", b"\n", b"\r", b"\r\r\n", b"\n\r", b"\x0b", b"\x0c", b"\x00"])
FILLERS = st.sampled_from(
    [b"X: a", b"Host: y", b"Expect: 100-continue", b"X", b":", b"X: \x01", b"Connection: keep-alive"]
)
FRAMING = st.tuples(NAMES, COLONS, st.one_of(LENGTHS, ENCODINGS)).map(b"".join)
LINES = st.lists(st.tuples(st.one_of(FRAMING, FILLERS), ENDS).map(b"".join), max_size=5).map(b"".join)


@st.composite
def requests(draw: st.DrawFn) -> tuple[bytes, bool]:
    """Draw a head with unusual framing and a request as its body; with True if a reader might take that for a body."""
    head = b"GET /a HTTP/1.1\r\nHost: x\r\n" + draw(LINES)
    return head + b"\r\n" + draw(st.sampled_from([b"", b"0\r\n\r\n"])) + HIDDEN, has_body(head)


def has_body(head: bytes) -> bool:
    """Return True if the most lenient parser finds a content length other than 0 or a transfer encoding."""
    for line in re.split(rb"[\r\n\x0b\x0c\x00]+", head):
        name, _, value = line.replace(b":", b" ", 1).strip().partition(b" ")
        if name.lower() == b"transfer-encoding" or (name.lower() == b"content-length" and value.strip(b" :\t0")):
            return True
    return False


async def exchange(*connections: bytes) -> tuple[list[str], list[bytes]]:
    """Return the served paths and the response bytes of each connection, opened one after the other."""
    served: list[str] = []

    async def page(request: ServerRequest) -> ServerResponse:
        served.append(request.path)
        return ServerResponse(b"found\n")

    server = WebServer(page, "127.0.0.1", 0)
    await server.start()
    received = []
    for sent in connections:
        reader, writer = await asyncio.open_connection("127.0.0.1", server.port)
        writer.write(sent)
        writer.write_eof()
        received.append(await reader.read())
        writer.close()
    await server.stop()
    return served, received


def statuses(received: bytes) -> list[int]:
    """Return the statuses of all responses, parsed by a strict client."""
    client = h11.Connection(h11.CLIENT)
    statuses: list[int] = []
    client.receive_data(received)
    client.receive_data(b"")
    while received:
        client.send(h11.Request(method="GET", target="/", headers=[("Host", "x")]))
        client.send(h11.EndOfMessage())
        while not isinstance(event := client.next_event(), h11.EndOfMessage):
            if isinstance(event, h11.ConnectionClosed):
                return statuses
            if isinstance(event, h11.Response):
                statuses.append(event.status_code)
        if client.our_state is not h11.DONE or client.their_state is not h11.DONE or not client.trailing_data[0]:
            return statuses
        client.start_next_cycle()
    return statuses


@settings(max_examples=1500, deadline=None)
@given(requests())
def test_no_request_is_smuggled_in_a_body(request_: tuple[bytes, bool]) -> None:
    sent, may_have_body = request_
    served, (received,) = asyncio.run(exchange(sent))
    if may_have_body:
        assert "/hidden" not in served
    assert len(statuses(received)) >= len(served)


@settings(max_examples=1500, deadline=None)
@given(
    st.one_of(
        st.binary(max_size=300),
        requests().map(lambda each: each[0]),
        st.binary().map(lambda b: b"GET /a HTTP/1.1\r\nX: " + b),
    )
)
def test_server_survives_any_bytes(sent: bytes) -> None:
    served, received = asyncio.run(exchange(sent, HIDDEN))
    assert statuses(received[1]) == [200]
    assert not {500, 502} & set(statuses(received[0]))
    assert served[-1] == "/hidden"
