"""Attempts of groups that end with an exception in the scheduler itself: nothing is lost or left half done."""

from __future__ import annotations

import pytest

from pyscheduler.core.scheduling import schedule_pod_group
from tests.scenarios.batch.cluster import Cluster
from tests.scenarios.batch.manifests import NATIVE, gang, node

STEPS = ("_place", "_failures_of_all", "_start_binding_cycles", "_run_preemption", "report_group")


@pytest.mark.parametrize("step", STEPS)
@pytest.mark.parametrize("slots", [2, 3], ids=["without room", "with room"])
def test_group_is_tried_again_after_an_attempt_has_raised(
    step: str, slots: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    cluster = Cluster(*(node(f"slot{i}") for i in range(slots)))
    group = gang("a", 3, api=NATIVE)
    working = getattr(schedule_pod_group, step)

    def broken(*_: object) -> object:
        raise KeyError("missing")

    monkeypatch.setattr(schedule_pod_group, step, broken)
    cluster.exempt(group)
    cluster.submit(group)
    monkeypatch.setattr(schedule_pod_group, step, working)
    cluster.submit(*(node(f"slot{i}") for i in range(slots, 3)))
    cluster.advance_to(60)
    assert cluster.members(group) == 3
