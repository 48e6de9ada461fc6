"""Bindings and Events in protobuf, decoded with Kubernetes' message definitions."""

from __future__ import annotations

import pytest

from pyscheduler.core.commands import EventType, Record
from pyscheduler.embedded.wire.decode import decode_object
from pyscheduler.shell.kube import protobuf
from pyscheduler.shell.kube.event_series import EventSeries
from pyscheduler.testing import PodBuilder, pod

LONG = "x" * 300
WALL = 1_700_000_000.000_001


@pytest.mark.parametrize(
    "of",
    [
        pytest.param(pod("a"), id="short"),
        pytest.param(pod(LONG).uid("7d3c0f5e-5b0a-4b0e-8f6e-0d3a4c1e2b3f"), id="length of more than one byte"),
        pytest.param(pod("ä").namespace("ö"), id="beyond ASCII"),
    ],
)
def test_binding_equals_its_json_form(of: PodBuilder) -> None:
    bound = of.build()
    assert decode_object(protobuf.binding(bound, "n1")) == {
        "apiVersion": "v1",
        "kind": "Binding",
        "metadata": {"namespace": bound.namespace, "name": bound.name, "uid": bound.uid},
        "target": {"apiVersion": "v1", "kind": "Node", "name": "n1"},
    }


def recorded(note: str = "no room", *, related: bool = False, times: int = 1, wall: float = WALL) -> EventSeries:
    other = pod("b").priority(5).build() if related else None
    record = Record(EventType.WARNING, "FailedScheduling", "Scheduling", note, pod("a").build(), other)
    series = EventSeries(record, "a.17", wall)
    for repetition in range(1, times):
        series.again(wall + 200 * repetition)
    return series


@pytest.mark.parametrize(
    "series",
    [
        pytest.param(recorded(), id="once"),
        pytest.param(recorded(related=True), id="about two pods"),
        pytest.param(recorded(times=3), id="a series"),
        pytest.param(recorded(times=200), id="a long series"),
        pytest.param(recorded("ä" * 2000), id="a truncated note"),
        pytest.param(recorded(""), id="no note"),
        pytest.param(recorded(wall=-1.25), id="a clock before 1970"),
    ],
)
def test_event_equals_its_json_form(series: EventSeries) -> None:
    whole = series.body("host")
    wanted = {key: value for key, value in whole.items() if value}
    for reference in ("regarding", "related"):
        if reference in wanted:
            wanted[reference] = {key: value for key, value in wanted[reference].items() if value}
    assert decode_object(protobuf.event(series, "host")) == wanted


def refusal(message: str = "", reason: str = "", retry_after: int = 0) -> bytes:
    part, text, number = protobuf._part, protobuf._text, protobuf._number
    details = part(5, text(1, "a") + text(3, "pods") + number(5, retry_after))
    content = text(2, "Failure") + text(3, message) + text(4, reason) + details + number(6, 404)
    return protobuf._head("v1", "Status") + part(2, part(1, b"") + content)


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
