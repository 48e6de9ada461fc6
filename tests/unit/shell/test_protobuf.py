"""Bindings and Events in protobuf, decoded with Kubernetes' message definitions."""

from __future__ import annotations

import pytest

from pyscheduler.core.commands import EventType, Record
from pyscheduler.embedded.wire.decode import decode_object
from pyscheduler.shell.writers import protobuf
from pyscheduler.shell.writers.event_series import EventSeries
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
