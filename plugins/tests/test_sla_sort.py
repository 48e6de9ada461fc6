"""SLASort: priority, then the deadline of the waiting time, then queueing time."""

from __future__ import annotations

from typing import Any

import pytest

from pyscheduler.api import QueuedPod
from pyscheduler.core.framework.handle import empty_handle
from pyscheduler.testing import Harness, PodBuilder, node, pod
from pyscheduler_plugins.sla_sort import SLASort, SLASortArgs

CONFIG = """
apiVersion: kubescheduler.config.k8s.io/v1
kind: KubeSchedulerConfiguration
profiles:
- schedulerName: default-scheduler
  plugins:
    multiPoint: {enabled: [{name: PodGroups}]}
    queueSort: {enabled: [{name: SLASort}], disabled: [{name: PrioritySort}]}
"""
VOLCANO = "scheduling.volcano.sh/v1beta1"
OLD, NEW = "2026-01-01T10:00:00Z", "2026-01-01T11:00:00Z"


def limited(name: str, waiting: str, created: str = OLD, key: str = "sla-waiting-time") -> PodBuilder:
    return pod(name).created(created).annotation(key, waiting)


def sort(seconds: int = 0) -> SLASort:
    return SLASort(SLASortArgs(seconds), empty_handle())


@pytest.mark.parametrize(
    ("first", "second"),
    [
        pytest.param(limited("a", "1h"), pod("b").created(OLD), id="a limit before none"),
        pytest.param(limited("a", "1h"), limited("b", "2h"), id="the shorter limit"),
        pytest.param(limited("a", "1h", OLD), limited("b", "1h", NEW), id="the older pod"),
        pytest.param(limited("a", "10m", NEW), limited("b", "2h", OLD), id="the earlier deadline of a newer pod"),
        pytest.param(limited("a", "1h30m"), limited("b", "91m"), id="units are added"),
        pytest.param(limited("a", "1h2m3s4ms5µs6ns"), limited("b", "1.1h"), id="Volcano's example, and a fraction"),
        pytest.param(limited("a", "1h"), limited("b", "soon"), id="an invalid limit is none"),
        pytest.param(limited("a", "1h"), limited("b", "-5m"), id="a negative limit is none"),
        pytest.param(limited("a", "1h", key="volcano.sh/sla-waiting-time"), limited("b", "2h"), id="other annotation"),
        pytest.param(pod("a").created(NEW).priority(1), limited("b", "1s"), id="priority first"),
    ],
)
def test_sort_order(first: PodBuilder, second: PodBuilder) -> None:
    a, b = QueuedPod(first.build(), timestamp=9.0), QueuedPod(second.build(), timestamp=1.0)
    assert sort().less(a, b)
    assert not sort().less(b, a)


def test_default_of_the_arguments_is_for_pods_without_an_annotation() -> None:
    plain, annotated = (QueuedPod(p.build(), 1.0) for p in (pod("a").created(OLD), limited("b", "1h")))
    assert sort(60).less(plain, annotated)
    assert sort(7200).less(annotated, plain)


def test_queueing_time_is_last() -> None:
    a, b = (QueuedPod(limited(name, "1h").build(), at) for name, at in (("a", 1.0), ("b", 2.0)))
    assert sort().less(a, b)


def test_negative_default_is_rejected() -> None:
    with pytest.raises(ValueError, match="waitingSeconds: must not be negative"):
        SLASortArgs(-1)


def group(name: str, created: str, **annotations: str) -> dict[str, Any]:
    metadata = {"name": name, "creationTimestamp": created}
    if annotations:
        metadata |= {"annotations": {key.replace("_", "-"): value for key, value in annotations.items()}}  # type: ignore[dict-item]
    return {"apiVersion": VOLCANO, "kind": "PodGroup", "metadata": metadata, "spec": {"minMember": 2}}


def test_annotation_and_age_of_a_pod_group_count() -> None:
    harness = Harness(CONFIG)
    for each in (
        group("none", OLD),
        group("late", OLD, sla_waiting_time="3h"),
        group("soon", NEW, sla_waiting_time="1m"),
    ):
        harness.apply(each)
    for name in ("none", "late", "soon"):
        members = (pod(f"{name}{i}").requests(cpu="1").created(NEW) for i in range(2))
        harness.add(*(each.annotation("scheduling.k8s.io/group-name", name) for each in members))
    harness.run()
    harness.add(node("n", cpu="8"))
    harness.run()
    harness.advance(10)
    assert harness.bound_order == ["soon0", "soon1", "late0", "late1", "none0", "none1"]
