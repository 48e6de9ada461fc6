"""Protobuf responses: a Status is decoded, and nothing else passes for one."""

from __future__ import annotations

import pytest

from pyscheduler.kube import protobuf


def refusal(message: str = "", reason: str = "", retry_after: int = 0) -> bytes:
    part, text, number = protobuf.part, protobuf.text, protobuf.number
    details = part(5, text(1, "a") + text(3, "pods") + number(5, retry_after))
    content = text(2, "Failure") + text(3, message) + text(4, reason) + details + number(6, 404)
    return protobuf.head("v1", "Status") + part(2, part(1, b"") + content)


@pytest.mark.parametrize(
    ("message", "reason", "retry_after"),
    [("", "", 0), ("no such pod", "NotFound", 0), ("ä" * 500, "TooManyRequests", 300)],
)
def test_status_is_decoded(message: str, reason: str, retry_after: int) -> None:
    body = refusal(message, reason, retry_after)
    assert protobuf.is_message(body)
    assert protobuf.status(body) == (message, reason, retry_after)


@pytest.mark.parametrize(
    "body",
    [
        pytest.param(b"k8s\x00", id="nothing"),
        pytest.param(b"k8s\x00\x0a\x02hi", id="no object"),
        pytest.param(b"k8s\x00\x12", id="truncated"),
        pytest.param(b"k8s\x00\x12\xff\xff\xff", id="an endless length"),
        pytest.param(b"k8s\x00\x12\x03\x1a\x01\xff", id="no UTF-8"),
        pytest.param(b"k8s\x00\x10\x05", id="a number where an object should be"),
        pytest.param(b"k8s\x00\x12\x02\x18\x05", id="a number where a text should be"),
        pytest.param(b"k8s\x00\x13\x05", id="groups"),
        pytest.param(b"k8s\x00" + b"\xff" * 4_000_000, id="an endless number"),
    ],
)
def test_malformed_status_raises_value_error(body: bytes) -> None:
    with pytest.raises(ValueError):  # noqa: PT011 - the message is not used
        protobuf.status(body)
