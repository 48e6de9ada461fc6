"""Parsing of responses: whole, in pieces, chunked, malformed."""

from __future__ import annotations

import pytest

from pyscheduler.kube import http1
from pyscheduler.kube.http1 import MalformedResponse, Response, ResponseParser, request

WHOLE = b'HTTP/1.1 201 Created\r\nContent-Type: application/json\r\nContent-Length: 7\r\n\r\n{"a":1}'
CHUNKED = (
    b"HTTP/1.1 200 OK\r\ntransfer-encoding: CHUNKED\r\n\r\n"
    b'5\r\n{"a":\r\n0000B;name=value\r\n1,"b":"2"}\n\r\n0\r\nTrailer: x\r\n\r\n'
)
PLAINLY_CHUNKED = b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n2\r\n[1\r\n3\r\n,2]\r\n0\r\n\r\n"
EMPTY = b"HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n"
NO_CONTENT = b"HTTP/1.1 204 No Content\r\n\r\n"
CONTINUED = b"HTTP/1.1 100 Continue\r\n\r\nHTTP/1.1 103 Early Hints\r\nLink: x\r\n\r\n" + WHOLE
BUSY = b"HTTP/1.1 429 Too Many Requests\r\nRETRY-AFTER:  3 \r\nContent-Length: 2\r\n\r\n{}"
ANSWERS = {
    "whole": (WHOLE, Response(201, b'{"a":1}')),
    "chunked": (CHUNKED, Response(200, b'{"a":1,"b":"2"}\n')),
    "plainly chunked": (PLAINLY_CHUNKED, Response(200, b"[1,2]")),
    "empty": (EMPTY, Response(200, b"")),
    "no content": (NO_CONTENT, Response(204, b"")),
    "after a 100": (CONTINUED, Response(201, b'{"a":1}')),
    "429": (BUSY, Response(429, b"{}", "Too Many Requests", "3")),
}


@pytest.mark.parametrize(("data", "expected"), ANSWERS.values(), ids=ANSWERS)
@pytest.mark.parametrize("step", [1, 2, 3, 7, 1000])
def test_response_is_parsed_from_pieces_of_any_size(data: bytes, expected: Response, step: int) -> None:
    assert not ResponseParser().begun
    reader = ResponseParser()
    pieces = [data[at : at + step] for at in range(0, len(data), step)]
    assert [reader.feed(piece) for piece in pieces] == [False] * (len(pieces) - 1) + [True]
    assert reader.begun
    assert reader.reusable
    assert reader.response() == expected


@pytest.mark.parametrize(("data", "expected"), ANSWERS.values(), ids=ANSWERS)
@pytest.mark.parametrize("step", [1, 7, 1000])
def test_bytes_after_a_response_are_not_part_of_it(data: bytes, expected: Response, step: int) -> None:
    reader, end = ResponseParser(), len(data) + 3
    both = data + WHOLE
    fed = 0
    while not reader.feed(both[fed : fed + step]):
        fed += step
        assert fed < end
    assert reader.response() == expected
    assert data + reader.beyond == both[: fed + step]


@pytest.mark.parametrize(
    "head",
    [
        b"HTTP/1.1 200 OK\r\nConnection: close\r\nContent-Length: 2\r\n\r\n",
        b"HTTP/1.1 200 OK\r\nconnection: X, Close\r\nContent-Length: 2\r\n\r\n",
        b"HTTP/1.0 200 OK\r\nContent-Length: 2\r\n\r\n",
    ],
)
def test_connection_is_not_reusable_after_connection_close(head: bytes) -> None:
    reader = ResponseParser()
    assert reader.feed(head + b"ok")
    assert not reader.reusable


def test_response_may_end_with_the_connection() -> None:
    reader = ResponseParser()
    assert not reader.feed(b"HTTP/1.1 200 OK\r\n\r\nsome")
    assert not reader.feed(b"thing")
    assert reader.ended()
    assert reader.response() == Response(200, b"something")
    assert not reader.reusable


@pytest.mark.parametrize("data", [b"", WHOLE[:-1], WHOLE[:20], CHUNKED[:-2]])
def test_truncated_response_is_incomplete(data: bytes) -> None:
    reader = ResponseParser()
    reader.feed(data)
    assert not reader.ended()


@pytest.mark.parametrize(
    ("data", "problem"),
    [
        (b"SSH-2.0-OpenSSH_9.6\r\n\r\n", "not HTTP"),
        (b"HTTP/2 200\r\n\r\n", "not HTTP"),
        (b"HTTP/1.1 2xx OK\r\n\r\n", "not HTTP"),
        (b"HTTP/1.1 101 Switching Protocols\r\n\r\n", "switch protocols"),
        (b"HTTP/1.1 200 OK\r\nContent-Length: -1\r\n\r\n", "not clear"),
        (b"HTTP/1.1 200 OK\r\nContent-Length: 1\r\nContent-Length: 2\r\n\r\n", "not clear"),
        (b"HTTP/1.1 200 OK\r\nContent-Length: 1\r\nTransfer-Encoding: chunked\r\n\r\n", "not clear"),
        (b"HTTP/1.1 200 OK\r\nTransfer-Encoding: gzip\r\n\r\n", "not clear"),
        (b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\nnone\r\n", "no valid size"),
        (b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n-1\r\n", "no valid size"),
        (b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n1\r\nab\r\n", "longer than its size"),
        (b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n" + b"0" * 2000, "no end"),
        (b"HTTP/1.1 200 OK\r\nContent-Length: " + b"9" * 5000 + b"\r\n\r\n", "longer than"),
        (b"HTTP/1.1 200 OK\r\nContent-Length: 4294967297\r\n\r\n", "longer than"),
        (b"HTTP/1.1 200 OK\r\nContent-Length: \xb2\r\n\r\n", "not clear"),
        (b"HTTP/1.1 200 OK\r\nContent-Length: +1\r\n\r\n", "not clear"),
        (b"HTTP/1.1 200 OK\r\nContent-Length: 3\r\nTransfer-Encoding : chunked\r\n\r\nabc", "malformed"),
        (b"HTTP/1.1 200 OK\r\nContent-Length: 3\r\n folded\r\n\r\nabc", "malformed"),
        (b"HTTP/1.1 200 OK\r\nContent-Length: 3\rX: y\r\n\r\nabc", "malformed"),
        (b"HTTP/1.1 200 OK\r\nX: \0\r\nContent-Length: 3\r\n\r\nabc", "malformed"),
        (b"HTTP/1.1 200 OK\r\nno colon\r\nContent-Length: 3\r\n\r\nabc", "malformed"),
        (b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\nTransfer-Encoding: chunked\r\n\r\n", "not clear"),
        (b"HTTP/1.1 9999 OK\r\nContent-Length: 0\r\n\r\n", "not HTTP"),
        (b"HTTP/1.1 000 OK\r\nContent-Length: 0\r\n\r\n", "not HTTP"),
        (b"HTTP/1.1 100 Continue\r\n\r\n" * 100, "never begins"),
        (b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n0x3\r\nabc\r\n", "no valid size"),
        (b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n1_0\r\n", "no valid size"),
        (b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n" + b"a: b\r\n" * 20_000, "no end"),
        (b"HTTP/1.1 200 OK\r\nX: " + b"x" * http1.LONGEST_HEAD, "no end"),
        (b"HTTP/1.1 200 OK\r\nX: " + b"x" * http1.LONGEST_HEAD + b"\r\n\r\n", "no end"),
    ],
)
def test_malformed_response_is_rejected(data: bytes, problem: str) -> None:
    with pytest.raises(MalformedResponse, match=problem):
        ResponseParser().feed(data)


@pytest.mark.parametrize(
    ("begin", "more"),
    [
        (b"HTTP/1.1 200 OK\r\n\r\n0123456789", b"x"),
        (b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n5\r\n01234\r\n5\r\n56789\r\n", b"1\r\nx\r\n"),
    ],
)
def test_endless_response_is_rejected(monkeypatch: pytest.MonkeyPatch, begin: bytes, more: bytes) -> None:
    monkeypatch.setattr(http1, "LONGEST_BODY", 10)
    reader = ResponseParser()
    reader.feed(begin)
    with pytest.raises(MalformedResponse, match="longer than 10 bytes"):
        reader.feed(more)


def test_consumed_bytes_of_a_stream_do_not_count_as_length(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(http1, "LONGEST_BODY", 10)
    reader = ResponseParser()
    reader.feed(b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n")
    for _ in range(3):
        reader.feed(b"6\r\nchunk\n\r\n")
        assert reader.take() == b"chunk\n"


_GET = b"GET /a?b=%20 HTTP/1.1\r\nHost: h\r\nAccept: application/json\r\n"


@pytest.mark.parametrize(
    ("body", "expected"),
    [
        (None, _GET + b"\r\n"),
        (b"{}", _GET + b"Content-Type: text/x\r\nContent-Length: 2\r\n\r\n{}"),
        (b"", _GET + b"Content-Type: text/x\r\nContent-Length: 0\r\n\r\n"),
    ],
)
def test_a_request(body: bytes | None, expected: bytes) -> None:
    assert request("GET", "/a?b=%20", b"Host: h\r\n", body, "text/x") == expected


@pytest.mark.parametrize("target", ["", "a", "/a b", "/a\r\nX: y", "/ä", "http://elsewhere/"])
def test_invalid_path_is_rejected(target: str) -> None:
    with pytest.raises(ValueError, match="is not the path of a URL"):
        request("GET", target, b"", None, "")
