"""Events of an update, as kube-scheduler's event handlers derive them."""

from __future__ import annotations

import pytest

from pyscheduler.core.changes import may_fit_other_pods, node_events, pod_events
from pyscheduler.testing import NodeBuilder, PodBuilder, node, pod

PLAIN = node("n")


@pytest.mark.parametrize(
    ("old", "new", "labels"),
    [
        (PLAIN, PLAIN, []),
        (PLAIN, PLAIN.has("cpu", "8"), ["NodeUpdateNodeAllocatable"]),
        (PLAIN, PLAIN.label("a", "b"), ["NodeUpdateNodeLabel"]),
        (PLAIN, PLAIN.taint("a"), ["NodeUpdateNodeTaint"]),
        (PLAIN.unschedulable(), PLAIN, ["NodeUpdateNodeTaint"]),
        (PLAIN, PLAIN.unschedulable(), []),
        (PLAIN, PLAIN.annotation("a", "b"), ["NodeUpdateNodeAnnotation"]),
        (PLAIN, PLAIN.has("cpu", "8").label("a", "b"), ["NodeUpdateNodeAllocatable", "NodeUpdateNodeLabel"]),
    ],
)
def test_node_events(old: NodeBuilder, new: NodeBuilder, labels: list[str]) -> None:
    assert [event.label for event in node_events(old.build(), new.build())] == labels


WAITING = pod("p").requests(cpu="2")


@pytest.mark.parametrize(
    ("old", "new", "labels"),
    [
        (WAITING, WAITING.nominated("n"), ["UnscheduledPodUpdate"]),
        (WAITING, WAITING.label("a", "b"), ["UnscheduledPodUpdatePodLabel"]),
        (WAITING, WAITING.requests(cpu="1"), ["UnscheduledPodUpdatePodScaleDown"]),
        (WAITING, WAITING.requests(cpu="3"), ["UnscheduledPodUpdatePodScaleUp"]),
        (WAITING.gate("g"), WAITING, ["UnscheduledPodUpdatePodSchedulingGatesEliminated"]),
        (WAITING, WAITING.tolerates("a"), ["UnscheduledPodUpdatePodToleration"]),
        (WAITING.on("n"), WAITING.on("n").label("a", "b"), ["AssignedPodUpdatePodLabel"]),
        (WAITING.on("n"), WAITING.on("n").deleting(), ["AssignedPodUpdatePodTerminating"]),
        (WAITING.on("n").deleting(), WAITING.on("n").deleting(), ["AssignedPodUpdate"]),
    ],
)
def test_pod_events(old: PodBuilder, new: PodBuilder, labels: list[str]) -> None:
    assert [event.label for event in pod_events(old.build(), new.build())] == labels


@pytest.mark.parametrize(
    ("new", "may"),
    [
        (PLAIN.annotation("a", "b"), False),
        (PLAIN.unschedulable(), True),
        (PLAIN.has("cpu", "1"), True),
        (PLAIN.taint("a"), True),
        (PLAIN.label("a", "b"), True),
    ],
)
def test_node_changes_after_which_other_pods_may_fit(new: NodeBuilder, may: bool) -> None:
    assert may_fit_other_pods(PLAIN.build(), new.build()) is may
