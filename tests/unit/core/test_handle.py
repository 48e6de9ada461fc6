"""Pods waiting on Permit, the label index and the watched objects, as plugins see them."""

from __future__ import annotations

import pytest

from pyscheduler.api import ResourceKind
from pyscheduler.core.framework.handle import CoreHandle, WaitingPodState
from pyscheduler.testing import PodBuilder, pod

GROUP = "example.com/group"
GROUPS = ResourceKind("example.com", "v1", "groups", "Group")


def waiting(*plugins: str, seconds: float = 5.0) -> WaitingPodState:
    return WaitingPodState(pod("a").build(), "n1", 10.0, dict.fromkeys(plugins, 10.0 + seconds))


def test_pod_is_released_when_every_plugin_allows_it() -> None:
    waiting_pod = waiting("One", "Two")
    waiting_pod.allow("One")
    assert (waiting_pod.is_decided, waiting_pod.pending_plugins) == (False, frozenset({"Two"}))
    waiting_pod.allow("Two")
    assert waiting_pod.is_decided


def test_first_rejection_is_kept() -> None:
    waiting_pod = waiting("One")
    waiting_pod.reject("One", "changed my mind")
    waiting_pod.reject("Two", "too late")
    assert (waiting_pod.is_decided, waiting_pod.rejected_by, waiting_pod.rejection) == (True, "One", "changed my mind")


def test_pod_is_rejected_at_deadline_with_kube_scheduler_message() -> None:
    waiting_pod = waiting("Gang")
    waiting_pod.expire(14.9)
    assert not waiting_pod.is_decided
    waiting_pod.expire(15.0)
    assert waiting_pod.rejection == "rejected due to timeout after waiting 5s at plugin Gang"


@pytest.mark.parametrize(
    ("seconds", "text"),
    [(0.0, "0s"), (0.25, "250ms"), (5.0, "5s"), (90.5, "1m30.5s"), (60.0, "1m0s"), (900.0, "15m0s")],
)
def test_timeout_message_formats_duration_like_go(seconds: float, text: str) -> None:
    waiting_pod = waiting("Gang", seconds=seconds)
    waiting_pod.expire(10.0 + seconds)
    assert waiting_pod.rejection == f"rejected due to timeout after waiting {text} at plugin Gang"


def test_timeout_names_plugin_with_earliest_deadline() -> None:
    waiting_pod = WaitingPodState(pod("a").build(), "n1", 10.0, {"Slow": 13.0, "Quick": 12.0})
    waiting_pod.expire(20.0)
    assert (waiting_pod.rejected_by, waiting_pod.rejection) == (
        "Quick",
        "rejected due to timeout after waiting 2s at plugin Quick",
    )


def test_label_index_follows_label_changes() -> None:
    handle = CoreHandle()
    handle.index([GROUP])
    first = pod("a").label(GROUP, "x").build()
    second = pod("a").label(GROUP, "y").build()
    handle.set_pod(None, first)
    assert set(handle.pods_by_label(GROUP, "default", "x")) == {"a"}
    handle.set_pod(first, second)
    assert not handle.pods_by_label(GROUP, "default", "x")
    assert handle.pods_by_label(GROUP, "default", "y")["a"] is second
    handle.set_pod(second, None)
    assert not handle.pods_by_label(GROUP, "default", "y")


def grouped(name: str, group: str = "team") -> PodBuilder:
    builder = pod(name)
    builder.manifest["spec"]["schedulingGroup"] = {"podGroupName": group}
    return builder


def test_pod_group_index_follows_pod_until_deletion() -> None:
    handle = CoreHandle(scheduler_names=["default-scheduler"])
    first, second = grouped("a").build(), grouped("a").on("n1").build()
    handle.set_pod(None, first)
    handle.set_pod(None, grouped("b", "others").build())
    handle.set_pod(None, pod("c").build())
    assert handle.pods_by_pod_group("default", "team") == {"a": first}
    assert not handle.pods_by_pod_group("elsewhere", "team")
    handle.set_pod(first, second)
    assert handle.pods_by_pod_group("default", "team")["a"] is second
    handle.set_pod(second, None)
    assert not handle.pods_by_pod_group("default", "team")


def test_pod_of_other_scheduler_counts_for_group_once_bound() -> None:
    handle = CoreHandle(scheduler_names=["default-scheduler"])
    foreign = grouped("a").scheduler("other-scheduler")
    pending, bound = foreign.build(), foreign.on("n1").build()
    handle.set_pod(None, pending)
    assert not handle.pods_by_pod_group("default", "team")
    handle.set_pod(pending, bound)
    assert handle.pods_by_pod_group("default", "team") == {"a": bound}


def test_activated_pods_are_returned_once() -> None:
    handle = CoreHandle()
    handle.activate([pod("a").build()])
    assert [p.name for p in handle.take_activated()] == ["a"]
    assert handle.take_activated() == []


def test_object_change_increments_version_of_its_kind() -> None:
    handle = CoreHandle()
    objects, versions = handle.objects(GROUPS), [handle.objects_version(GROUPS)]
    for _ in ("added", "updated"):
        handle.set_object(GROUPS, {"metadata": {"namespace": "default", "name": "g"}})
        versions.append(handle.objects_version(GROUPS))
    assert list(objects) == [("default", "g")]
    handle.remove_object(GROUPS, "default", "g")
    versions.append(handle.objects_version(GROUPS))
    assert (len(set(versions)), len(objects)) == (4, 0)
    handle.set_object(ResourceKind("", "v1", "services", "Service"), {"metadata": {"name": "s"}})
    assert handle.objects_version(GROUPS) == versions[-1]
