"""Watches: where they start, what they show, and how they end."""

from __future__ import annotations

import json
from typing import Any

from pyscheduler.embedded.verbs.read import list_options
from pyscheduler.embedded.watching import Watcher, object_line

from .builders import Cluster, config_map, pod, refused


def watch(cluster: Cluster, plural: str = "pods", namespace: str = "", **query: str) -> Watcher:
    resource = cluster.api.resource(plural)
    opened = Watcher(cluster.api.state, resource, namespace, list_options(resource, {"watch": "1", **query}))
    opened.open()
    return opened


def lines(opened: Watcher, cluster: Cluster, plural: str = "pods") -> list[dict[str, Any]]:
    text = opened.lines(object_line(cluster.api.resource(plural)))
    return [json.loads(line) for line in text.splitlines()]


def told(opened: Watcher, cluster: Cluster) -> list[tuple[str, str]]:
    return [(line["type"], line["object"]["metadata"]["name"]) for line in lines(opened, cluster)]


def test_without_a_revision_it_starts_with_what_is_there() -> None:
    cluster = Cluster()
    cluster.create("pods", pod("a"))
    for revision in ("", "0"):
        opened = watch(cluster, resourceVersion=revision)
        assert told(opened, cluster) == [("ADDED", "a")]
    cluster.create("pods", pod("b"))
    assert told(opened, cluster) == [("ADDED", "b")]


def test_from_a_revision_it_shows_what_came_after() -> None:
    cluster = Cluster()
    first = cluster.create("pods", pod("a"))["metadata"]["resourceVersion"]
    cluster.bind("a")
    cluster.api.delete(cluster.api.resource("pods"), "default", "a")
    cluster.create("pods", pod("b"))
    assert told(watch(cluster, resourceVersion=first), cluster) == [
        ("MODIFIED", "a"),
        ("MODIFIED", "a"),
        ("ADDED", "b"),
    ]


def test_a_revision_too_old_is_told_as_an_error_event() -> None:
    cluster = Cluster()
    cluster.create("pods", pod("a"))
    cluster.api.state.store.compact()
    opened = watch(cluster, resourceVersion="1")
    (line,) = lines(opened, cluster)
    assert line["type"] == "ERROR"
    assert (line["object"]["code"], line["object"]["reason"]) == (410, "Expired")
    assert opened.ended


def test_other_namespaces_and_kinds_are_not_shown() -> None:
    cluster = Cluster()
    opened = watch(cluster, namespace="kube-system", resourceVersion=str(cluster.api.state.store.revision))
    cluster.create("pods", pod("a"))
    cluster.create("configmaps", config_map(), namespace="kube-system")
    cluster.create("pods", pod("b"), namespace="kube-system")
    assert told(opened, cluster) == [("ADDED", "b")]


def test_coming_to_match_is_added_ceasing_to_match_is_deleted() -> None:
    cluster = Cluster()
    unassigned = watch(cluster, fieldSelector="spec.nodeName=")
    assigned = watch(cluster, fieldSelector="spec.nodeName!=")
    cluster.create("pods", pod("a"))
    cluster.bind("a")
    assert told(unassigned, cluster) == [("ADDED", "a"), ("DELETED", "a")]
    cluster.patch("pods", "a", {"metadata": {"labels": {"x": "y"}}})
    assert told(assigned, cluster) == [("ADDED", "a"), ("MODIFIED", "a")]
    assert told(unassigned, cluster) == []


def test_what_ceases_to_match_is_shown_as_it_was() -> None:
    cluster = Cluster()
    unassigned = watch(cluster, fieldSelector="spec.nodeName=")
    cluster.create("pods", pod("a"))
    cluster.bind("a")
    last = lines(unassigned, cluster)[-1]["object"]
    assert "nodeName" not in last["spec"]
    assert last["metadata"]["resourceVersion"] == str(cluster.api.state.store.revision)


def test_initial_events_end_with_a_marked_bookmark() -> None:
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


def test_initial_events_of_the_future_are_refused() -> None:
    query = {"sendInitialEvents": "true", "resourceVersionMatch": "NotOlderThan", "resourceVersion": "9999"}
    assert refused(lambda: watch(Cluster(), **query)).code == 504


def test_without_initial_events_only_news_is_shown() -> None:
    cluster = Cluster()
    cluster.create("pods", pod("a"))
    opened = watch(cluster, sendInitialEvents="false", resourceVersionMatch="NotOlderThan")
    cluster.create("pods", pod("b"))
    assert told(opened, cluster) == [("ADDED", "b")]


def test_a_closed_watch_hears_nothing_more() -> None:
    cluster = Cluster()
    opened = watch(cluster)
    opened.close()
    cluster.create("pods", pod("a"))
    assert opened.ended
    assert opened.idle


def test_events_have_two_faces() -> None:
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
