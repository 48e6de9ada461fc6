"""Ends of pods: declared, unknown, never."""

from __future__ import annotations

import pytest
from msgspec.structs import replace

from pyscheduler.api import Pod
from pyscheduler.api.objects import OwnerReference
from pyscheduler.core.pod_groups.run_times import RUN_SECONDS, UNKNOWN, PlacementTimes, ends, run_seconds
from pyscheduler.core.state import PodSignatures
from pyscheduler.testing.builders import pod


def declared(seconds: str, deadline: int | None = None) -> Pod:
    """Return a pod that declares a run time."""
    source = pod("a").annotation(RUN_SECONDS, seconds).object()
    return PodSignatures().pod(replace(source, spec=replace(source.spec, active_deadline_seconds=deadline)))


def owned_by(kind: str) -> Pod:
    """Return a pod of a controller."""
    source = pod("a").object()
    owner = OwnerReference(kind, "x", controller=True)
    return PodSignatures().pod(replace(source, metadata=replace(source.metadata, owner_references=(owner,))))


@pytest.mark.parametrize(
    ("text", "expected"),
    [("90", 90), ("1.5", 1.5), ("", None), ("0", None), ("-1", None), ("inf", None), ("nan", None), ("1h", None)],
)
def test_declared_run_time_is_a_positive_number_of_seconds(text: str, expected: float | None) -> None:
    assert run_seconds(declared(text)) == expected


@pytest.mark.parametrize(
    ("text", "deadline", "expected"), [("90", 60, 60), ("60", 90, 60), ("", 60, 60), ("90", 0, 90), ("1h", 60, 60)]
)
def test_deadline_limits_the_run_time(text: str, deadline: int, expected: float) -> None:
    assert run_seconds(declared(text, deadline)) == expected


def test_pod_without_the_annotation_declares_no_run_time() -> None:
    assert run_seconds(pod("a").build()) is None


@pytest.mark.parametrize(
    ("kind", "expected"), [("Job", True), ("ReplicaSet", False), ("StatefulSet", False), ("Node", False)]
)
def test_pods_of_services_never_end(kind: str, expected: bool) -> None:
    owned = owned_by(kind)
    assert ends(owned) == expected
    owned.deleting = True
    assert ends(owned)


def test_pod_ends_after_its_run_time_since_it_was_assumed() -> None:
    times, placed = PlacementTimes(0), declared("90")
    times.add(placed, 10)
    times.add_seen(placed, 30)
    assert times.end(placed, 50) == 100
    assert (times.end(placed, 120), times.declared_end(placed, 120)) == (120, 100)


def test_pod_that_was_not_assumed_here_counts_from_when_it_was_seen() -> None:
    times, placed = PlacementTimes(0), declared("90")
    times.add_seen(placed, 30)
    assert times.end(placed, 50) == 120
    times.remove(placed.uid)
    assert times.end(placed, 50) == 140


@pytest.mark.parametrize(("started", "expected"), [(1_020, 110), (1_060, 120)], ids=["known", "later than it was seen"])
def test_pod_that_was_not_assumed_here_counts_from_its_start(started: float, expected: float) -> None:
    times, placed = PlacementTimes(epoch=1_000), declared("90")
    placed.started = started
    times.add_seen(placed, 30)
    assert times.end(placed, 50) == expected


def test_end_without_a_run_time_is_unknown_unless_the_pod_is_terminating() -> None:
    times, placed = PlacementTimes(0), pod("a").build()
    times.add(placed, 10)
    assert times.end(placed, 50) == UNKNOWN
    placed.deleting = True
    assert times.end(placed, 50) == 50
