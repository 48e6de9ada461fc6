"""Watches: start, events, selectors and end."""

from __future__ import annotations

import json
from typing import Any

from pyscheduler.embedded.verbs.read import list_options
from pyscheduler.embedded.watching import Watcher, object_line

from .builders import Cluster, api_error, config_map, pod


def watch(cluster: Cluster, plural: str = "pods", namespace: str = "", **query: str) -> Watcher:
    resource = cluster.api.resource(plural)
    opened = Watcher(cluster.api.state, resource, namespace, list_options(resource, {"watch": "1", **query}))
    opened.open()
    return opened


def lines(opened: Watcher, cluster: Cluster, plural: str = "pods") -> list[dict[str, Any]]:
    text = opened.lines(object_line(cluster.api.resource(plural)))
    return [json.loads(line) for line in text.splitlines()]


def events_of(opened: Watcher, cluster: Cluster) -> list[tuple[str, str]]:
    return [(line["type"], line["object"]["metadata"]["name"]) for line in lines(opened, cluster)]


def test_watch_without_revision_starts_with_existing_objects() -> None:
    cluster = Cluster()
    cluster.create("pods", pod("a"))
    for revision in ("", "0"):
        opened = watch(cluster, resourceVersion=revision)
        assert events_of(opened, cluster) == [("ADDED", "a")]
    cluster.create("pods", pod("b"))
    assert events_of(opened, cluster) == [("ADDED", "b")]


def test_watch_from_a_revision_delivers_later_events() -> None:
    cluster = Cluster()
    first = cluster.create("pods", pod("a"))["metadata"]["resourceVersion"]
    cluster.bind("a")
    cluster.api.delete(cluster.api.resource("pods"), "default", "a")
    cluster.create("pods", pod("b"))
    assert events_of(watch(cluster, resourceVersion=first), cluster) == [
        ("MODIFIED", "a"),
        ("MODIFIED", "a"),
        ("ADDED", "b"),
    ]


def test_expired_revision_is_an_error_event() -> None:
    cluster = Cluster()
    cluster.create("pods", pod("a"))
    cluster.api.state.store.compact()
    opened = watch(cluster, resourceVersion="1")
    (line,) = lines(opened, cluster)
    assert line["type"] == "ERROR"
    assert (line["object"]["code"], line["object"]["reason"]) == (410, "Expired")
    assert opened.ended


def test_watch_is_limited_to_its_namespace_and_kind() -> None:
    cluster = Cluster()
    opened = watch(cluster, namespace="kube-system", resourceVersion=str(cluster.api.state.store.revision))
    cluster.create("pods", pod("a"))
    cluster.create("configmaps", config_map(), namespace="kube-system")
    cluster.create("pods", pod("b"), namespace="kube-system")
    assert events_of(opened, cluster) == [("ADDED", "b")]


def test_objects_that_start_or_stop_matching_are_added_or_deleted() -> None:
    cluster = Cluster()
    unassigned = watch(cluster, fieldSelector="spec.nodeName=")
    assigned = watch(cluster, fieldSelector="spec.nodeName!=")
    cluster.create("pods", pod("a"))
    cluster.bind("a")
    assert events_of(unassigned, cluster) == [("ADDED", "a"), ("DELETED", "a")]
    cluster.patch("pods", "a", {"metadata": {"labels": {"x": "y"}}})
    assert events_of(assigned, cluster) == [("ADDED", "a"), ("MODIFIED", "a")]
    assert events_of(unassigned, cluster) == []


def test_object_that_stops_matching_is_sent_in_its_previous_state() -> None:
    cluster = Cluster()
    unassigned = watch(cluster, fieldSelector="spec.nodeName=")
    cluster.create("pods", pod("a"))
    cluster.bind("a")
    last = lines(unassigned, cluster)[-1]["object"]
    assert "nodeName" not in last["spec"]
    assert last["metadata"]["resourceVersion"] == str(cluster.api.state.store.revision)


def test_initial_events_end_with_an_annotated_bookmark() -> None:
    cluster = Cluster()
    cluster.create("pods", pod("a"))
    opened = watch(cluster, sendInitialEvents="true", resourceVersionMatch="NotOlderThan", allowWatchBookmarks="true")
    added, mark = lines(opened, cluster)
    assert added["type"] == "ADDED"
    assert mark["type"] == "BOOKMARK"
    assert mark["object"]["metadata"] == {
        "resourceVersion": str(cluster.api.state.store.revision),
        "annotations": {"k8s.io/initial-events-end": "true"},
    }
    assert lines(opened, cluster) == []


def test_initial_events_at_a_future_revision_time_out() -> None:
    query = {"sendInitialEvents": "true", "resourceVersionMatch": "NotOlderThan", "resourceVersion": "9999"}
    assert api_error(lambda: watch(Cluster(), **query)).code == 504


def test_watch_without_initial_events_starts_at_the_current_revision() -> None:
    cluster = Cluster()
    cluster.create("pods", pod("a"))
    opened = watch(cluster, sendInitialEvents="false", resourceVersionMatch="NotOlderThan")
    cluster.create("pods", pod("b"))
    assert events_of(opened, cluster) == [("ADDED", "b")]


def test_closed_watch_receives_no_events() -> None:
    cluster = Cluster()
    opened = watch(cluster)
    opened.close()
    cluster.create("pods", pod("a"))
    assert opened.ended
    assert opened.idle


def test_event_is_served_in_both_api_groups() -> None:
    cluster = Cluster()
    event = {
        "apiVersion": "events.k8s.io/v1",
        "kind": "Event",
        "metadata": {"name": "e"},
        "regarding": {"kind": "Pod", "namespace": "default", "name": "p"},
        "note": "bound",
        "reason": "Scheduled",
        "type": "Normal",
        "reportingController": "me",
    }
    cluster.create("events.events.k8s.io", event)
    core = cluster.get("events", "e")
    assert (core["message"], core["involvedObject"]["name"]) == ("bound", "p")
    assert core["reportingComponent"] == "me"
    assert cluster.names("events", fieldSelector="involvedObject.name=p,reason=Scheduled") == ["e"]
    assert cluster.names("events.events.k8s.io", fieldSelector="regarding.name=other") == []
    new = cluster.api.resource("events", "events.k8s.io")
    shown = json.loads(cluster.api.get(new, "default", "e").json(new.from_stored))
    assert (shown["note"], shown["regarding"]["name"], shown["apiVersion"]) == ("bound", "p", "events.k8s.io/v1")
