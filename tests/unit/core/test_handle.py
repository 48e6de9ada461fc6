"""Pods that wait in Permit, the label index and the watched objects of the handle."""

from __future__ import annotations

import math

import pytest

from pyscheduler.api import ResourceKind, Wait
from pyscheduler.core.framework.handle import empty_handle
from pyscheduler.core.framework.object_store import KEEP, ObjectStore
from pyscheduler.core.framework.pod_indexer import PodIndexer
from pyscheduler.core.framework.waiting_pods import WaitingPodState
from pyscheduler.core.state import ClusterState
from pyscheduler.testing import PodBuilder, pod

GROUP = "example.com/group"
GROUPS = ResourceKind("example.com", "v1", "groups", "Group")


def waiting(*plugins: str, seconds: float = 5.0) -> WaitingPodState:
    return WaitingPodState(pod("a").build(), "n1", 10.0, dict.fromkeys(plugins, 10.0 + seconds))


def test_waiting_pod_is_decided_when_every_plugin_has_allowed_it() -> None:
    state = waiting("One", "Two")
    state.allow("One")
    assert (state.is_decided, state.pending_plugins) == (False, frozenset({"Two"}))
    state.allow("Two")
    assert state.is_decided


def test_first_rejection_of_a_waiting_pod_is_recorded() -> None:
    state = waiting("One")
    state.reject("One", "first reason")
    state.reject("Two", "second reason")
    assert (state.is_decided, state.rejected_by, state.rejection) == (True, "One", "first reason")


def test_waiting_pod_is_rejected_at_its_deadline_with_kube_schedulers_message() -> None:
    state = waiting("Gang")
    state.expire(14.9)
    assert not state.is_decided
    state.expire(15.0)
    assert state.rejection == "rejected due to timeout after waiting 5s at plugin Gang"


@pytest.mark.parametrize(
    ("seconds", "text"),
    [(0.0, "0s"), (0.25, "250ms"), (5.0, "5s"), (90.5, "1m30.5s"), (60.0, "1m0s"), (900.0, "15m0s")],
)
def test_timeouts_are_formatted_as_by_go(seconds: float, text: str) -> None:
    state = waiting("Gang", seconds=seconds)
    state.expire(10.0 + seconds)
    assert state.rejection == f"rejected due to timeout after waiting {text} at plugin Gang"


@pytest.mark.parametrize("seconds", [-5, -0.25, -math.inf])
def test_negative_timeout_is_none(seconds: float) -> None:
    state = waiting()
    state.hold("Gang", Wait(seconds), 10.0)
    state.expire(10.0)
    assert state.rejection == "rejected due to timeout after waiting 0s at plugin Gang"


def test_plugin_with_the_earliest_deadline_is_the_rejector() -> None:
    state = WaitingPodState(pod("a").build(), "n1", 10.0, {"Slow": 13.0, "Quick": 12.0})
    state.expire(20.0)
    assert (state.rejected_by, state.rejection) == (
        "Quick",
        "rejected due to timeout after waiting 2s at plugin Quick",
    )


def test_pod_is_found_by_its_name_until_it_is_deleted() -> None:
    pods, web = PodIndexer(ClusterState(), ()), pod("web").namespace("a").uid("1").build()
    pods.set_pod(None, web)
    pods.set_pod(web, web)
    assert pods.uid_of("a", "web") == pods.uid_of_key("a/web") == "1"
    assert pods.uid_of("b", "web") is pods.uid_of("a", "db") is pods.uid_of_key("web") is None
    pods.set_pod(web, None)
    assert pods.uid_of("a", "web") is None
    assert [*pods.named_uids()] == []


def test_deletion_of_a_namesake_keeps_the_newer_pod() -> None:
    pods = PodIndexer(ClusterState(), ())
    older, newer = (pod("web").namespace("a").uid(uid).build() for uid in ("1", "2"))
    pods.set_pod(None, older)
    pods.set_pod(None, newer)
    pods.set_pod(older, None)
    assert pods.uid_of("a", "web") == "2"


def test_label_index_follows_updates_and_deletion_of_a_pod() -> None:
    pods = PodIndexer(ClusterState(), ())
    pods.index([GROUP])
    first = pod("a").label(GROUP, "x").build()
    second = pod("a").label(GROUP, "y").build()
    pods.set_pod(None, first)
    assert set(pods.by_label(GROUP, "default", "x")) == {"a"}
    pods.set_pod(first, second)
    assert not pods.by_label(GROUP, "default", "x")
    assert pods.by_label(GROUP, "default", "y")["a"] is second
    pods.set_pod(second, None)
    assert not pods.by_label(GROUP, "default", "y")


def grouped(name: str, group: str = "team") -> PodBuilder:
    builder = pod(name)
    builder.manifest["spec"]["schedulingGroup"] = {"podGroupName": group}
    return builder


def test_pods_are_indexed_by_pod_group_until_they_are_deleted() -> None:
    pods = PodIndexer(ClusterState(), ["default-scheduler"])
    first, second = grouped("a").build(), grouped("a").on("n1").build()
    pods.set_pod(None, first)
    pods.set_pod(None, grouped("b", "others").build())
    pods.set_pod(None, pod("c").build())
    assert pods.by_pod_group("default", "team") == {"a": first}
    assert not pods.by_pod_group("elsewhere", "team")
    pods.set_pod(first, second)
    assert pods.by_pod_group("default", "team")["a"] is second
    pods.set_pod(second, None)
    assert not pods.by_pod_group("default", "team")


def test_pods_of_other_schedulers_are_indexed_by_group_once_they_are_bound() -> None:
    pods = PodIndexer(ClusterState(), ["default-scheduler"])
    theirs = grouped("a").scheduler("theirs")
    pending, bound = theirs.build(), theirs.on("n1").build()
    pods.set_pod(None, pending)
    assert not pods.by_pod_group("default", "team")
    pods.set_pod(pending, bound)
    assert pods.by_pod_group("default", "team") == {"a": bound}


def test_activated_pods_are_returned_once() -> None:
    handle = empty_handle()
    handle.activate([pod("a").build()])
    assert [p.name for p in handle.activated.take()] == ["a"]
    assert handle.activated.take() == []


def test_every_change_of_an_object_changes_the_version_of_its_kind() -> None:
    objects = ObjectStore({})
    live, versions = objects[GROUPS], [objects.version(GROUPS)]
    for _ in ("added", "updated"):
        objects.set(GROUPS, {"metadata": {"namespace": "default", "name": "g"}})
        versions.append(objects.version(GROUPS))
    assert list(live) == [("default", "g")]
    objects.remove(GROUPS, "default", "g")
    versions.append(objects.version(GROUPS))
    assert (len(set(versions)), len(live)) == (4, 0)
    objects.set(ResourceKind("", "v1", "services", "Service"), {"metadata": {"name": "s"}})
    assert objects.version(GROUPS) == versions[-1]


def test_changed_objects_are_listed_by_version_until_there_are_too_many() -> None:
    objects = ObjectStore({})

    def add(name: str) -> int:
        objects.set(GROUPS, {"metadata": {"namespace": "default", "name": name}})
        return objects.version(GROUPS)

    assert objects.changed_since(GROUPS, -1) is None
    first = add("a")
    assert objects.changed_since(GROUPS, first) == ()
    assert list(objects.changed_since(GROUPS, 0) or ()) == [("default", "a")]
    add("b")
    add("c")
    add("b")
    objects.remove(GROUPS, "default", "a")
    assert list(objects.changed_since(GROUPS, first) or ()) == [("default", "b"), ("default", "c"), ("default", "a")]
    last = [add("d") for _ in range(2 * KEEP)][KEEP]
    assert objects.changed_since(GROUPS, first) is None
    assert list(objects.changed_since(GROUPS, last) or ()) == [("default", "d")]
