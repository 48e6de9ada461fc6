"""The waiting room of Permit, the label index and the watched objects, as plugins see them."""

from __future__ import annotations

import pytest

from pyscheduler.api import ResourceKind
from pyscheduler.core.framework.handle import CoreHandle, WaitingPodState
from pyscheduler.testing import PodBuilder, pod

GROUP = "example.com/group"
GROUPS = ResourceKind("example.com", "v1", "groups", "Group")


def waiting(*plugins: str, seconds: float = 5.0) -> WaitingPodState:
    return WaitingPodState(pod("a").build(), "n1", 10.0, dict.fromkeys(plugins, 10.0 + seconds))


def test_a_pod_goes_when_every_plugin_has_let_it_go() -> None:
    parked = waiting("One", "Two")
    parked.allow("One")
    assert (parked.is_decided, parked.pending_plugins) == (False, frozenset({"Two"}))
    parked.allow("Two")
    assert parked.is_decided


def test_the_first_rejection_counts() -> None:
    parked = waiting("One")
    parked.reject("One", "changed my mind")
    parked.reject("Two", "too late")
    assert (parked.is_decided, parked.rejected_by, parked.rejection) == (True, "One", "changed my mind")


def test_time_runs_out_at_the_deadline_and_says_so_in_kube_schedulers_words() -> None:
    parked = waiting("Gang")
    parked.expire(14.9)
    assert not parked.is_decided
    parked.expire(15.0)
    assert parked.rejection == "rejected due to timeout after waiting 5s at plugin Gang"


@pytest.mark.parametrize(
    ("seconds", "text"),
    [(0.0, "0s"), (0.25, "250ms"), (5.0, "5s"), (90.5, "1m30.5s"), (60.0, "1m0s"), (900.0, "15m0s")],
)
def test_times_are_written_as_go_writes_them(seconds: float, text: str) -> None:
    parked = waiting("Gang", seconds=seconds)
    parked.expire(10.0 + seconds)
    assert parked.rejection == f"rejected due to timeout after waiting {text} at plugin Gang"


def test_whose_time_was_up_first_is_named() -> None:
    parked = WaitingPodState(pod("a").build(), "n1", 10.0, {"Slow": 13.0, "Quick": 12.0})
    parked.expire(20.0)
    assert (parked.rejected_by, parked.rejection) == (
        "Quick",
        "rejected due to timeout after waiting 2s at plugin Quick",
    )


def test_the_index_follows_a_pod_through_its_labels() -> None:
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
    made = pod(name)
    made.manifest["spec"]["schedulingGroup"] = {"podGroupName": group}
    return made


def test_pods_are_found_by_their_pod_group_until_they_go() -> None:
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


def test_pods_of_other_schedulers_count_for_their_group_once_they_have_a_node() -> None:
    handle = CoreHandle(scheduler_names=["default-scheduler"])
    theirs = grouped("a").scheduler("theirs")
    pending, bound = theirs.build(), theirs.on("n1").build()
    handle.set_pod(None, pending)
    assert not handle.pods_by_pod_group("default", "team")
    handle.set_pod(pending, bound)
    assert handle.pods_by_pod_group("default", "team") == {"a": bound}


def test_activated_pods_are_handed_over_once() -> None:
    handle = CoreHandle()
    handle.activate([pod("a").build()])
    assert [p.name for p in handle.take_activated()] == ["a"]
    assert handle.take_activated() == []


def test_every_change_of_an_object_gives_its_kind_another_version() -> None:
    handle = CoreHandle()
    live, seen = handle.objects(GROUPS), [handle.objects_version(GROUPS)]
    for _ in ("added", "updated"):
        handle.set_object(GROUPS, {"metadata": {"namespace": "default", "name": "g"}})
        seen.append(handle.objects_version(GROUPS))
    assert list(live) == [("default", "g")]
    handle.remove_object(GROUPS, "default", "g")
    seen.append(handle.objects_version(GROUPS))
    assert (len(set(seen)), len(live)) == (4, 0)
    handle.set_object(ResourceKind("", "v1", "services", "Service"), {"metadata": {"name": "s"}})
    assert handle.objects_version(GROUPS) == seen[-1]
