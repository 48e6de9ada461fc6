"""Snapshots and dumps: objects keep their uid, status and owners, and what cannot be kept is counted."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest

from pyscheduler.embedded.snapshot import PlacedObject, RestoreError, RestoreSummary, restore_objects, snapshot
from tests.unit.embedded.builders import Cluster

Json = dict[str, Any]
READY = [{"type": "Ready", "status": "True"}]
LOST = [{"type": "Ready", "status": "Unknown"}]


def pod(name: str, namespace: str = "default", **meta: Any) -> Json:
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": name, "namespace": namespace, "uid": f"uid-of-{name}", **meta},
        "spec": {"nodeName": "n", "containers": [{"name": "c", "image": "i"}]},
        "status": {"phase": "Running", "podIP": "10.1.2.3"},
    }


def node(name: str, conditions: list[Json]) -> Json:
    status = {"conditions": conditions, "allocatable": {"cpu": "4"}, "capacity": {"cpu": "4"}}
    return {"apiVersion": "v1", "kind": "Node", "metadata": {"name": name}, "status": status}


def restore(cluster: Cluster, *objects: Json) -> RestoreSummary:
    return restore_objects(cluster.api, [PlacedObject(f"file: items[{i}]", obj) for i, obj in enumerate(objects)])


def stored(cluster: Cluster, plural: str, name: str, namespace: str = "default", group: str = "") -> Json:
    return cluster.api.get(cluster.api.resource(plural, group), namespace, name).object


def test_assigned_pod_keeps_its_node_uid_status_and_creation_time() -> None:
    cluster = Cluster()
    restore(cluster, pod("p", creationTimestamp="2020-01-01T00:00:00Z", resourceVersion="9"))
    found = stored(cluster, "pods", "p")
    assert found["spec"]["nodeName"] == "n"
    assert found["status"] == {"phase": "Running", "podIP": "10.1.2.3"}
    assert (found["metadata"]["uid"], found["metadata"]["creationTimestamp"]) == ("uid-of-p", "2020-01-01T00:00:00Z")
    assert found["metadata"]["resourceVersion"] != "9"


def test_namespace_that_the_dump_lacks_is_created_with_its_service_account() -> None:
    cluster = Cluster()
    restore(cluster, pod("p", "team"))
    assert stored(cluster, "namespaces", "team", "")["status"]["phase"] == "Active"
    assert stored(cluster, "serviceaccounts", "default", "team")


def test_pod_is_not_garbage_collected_if_the_dump_lacks_its_owner() -> None:
    cluster = Cluster()
    owner = {"apiVersion": "apps/v1", "kind": "ReplicaSet", "name": "r", "uid": "gone", "controller": True}
    summary = restore(cluster, pod("p", ownerReferences=[owner]))
    assert summary.without_owner == 1
    assert not stored(cluster, "pods", "p")["metadata"].get("ownerReferences")


def test_pod_keeps_an_owner_that_follows_it_in_the_dump() -> None:
    cluster = Cluster()
    owner = {"apiVersion": "v1", "kind": "ConfigMap", "name": "c", "uid": "uid-of-c"}
    config_map = {
        "apiVersion": "v1",
        "kind": "ConfigMap",
        "metadata": {"name": "c", "namespace": "default", "uid": "uid-of-c"},
    }
    assert restore(cluster, pod("p", ownerReferences=[owner]), config_map).without_owner == 0
    assert stored(cluster, "pods", "p")["metadata"]["ownerReferences"] == [owner]


@pytest.mark.parametrize(("conditions", "stopped"), [(READY, None), (LOST, "stopped"), ([], None)])
def test_node_that_is_not_ready_gets_no_heartbeats(conditions: list[Json], stopped: str | None) -> None:
    cluster = Cluster()
    restore(cluster, node("n", conditions))
    annotations = stored(cluster, "nodes", "n", "")["metadata"].get("annotations") or {}
    assert annotations.get("pyscheduler.io/heartbeats") == stopped


def test_kinds_that_are_not_served_and_events_are_left_out() -> None:
    cluster = Cluster()
    unserved = {"apiVersion": "example.com/v1", "kind": "Widget", "metadata": {"name": "w"}}
    event = {"apiVersion": "v1", "kind": "Event", "metadata": {"name": "e", "namespace": "default"}}
    summary = restore(cluster, unserved, event, pod("p"))
    assert summary.not_served == {"Widget (example.com/v1)": 1}
    assert summary.stored == {"Pod": 1}


def test_object_that_is_listed_twice_counts_once() -> None:
    unserved = {"apiVersion": "example.com/v1", "kind": "Widget", "metadata": {"name": "w"}}
    owner = {"apiVersion": "apps/v1", "kind": "ReplicaSet", "name": "r", "uid": "gone", "controller": True}
    objects = [unserved, pod("p", ownerReferences=[owner]), pod("p", "team")]
    summary = restore(Cluster(), *msgspec.json.decode(msgspec.json.encode([*objects, *objects])))
    assert summary.stored == {"Namespace": 1, "Pod": 2}
    assert summary.not_served == {"Widget (example.com/v1)": 1}
    assert summary.without_owner == 1


BAD: list[tuple[Json, str]] = [
    (pod("p", ownerReferences="x"), "file: items[0]: "),
    (pod("p", uid=["x"]), "file: items[0]: "),
    (pod("P_"), "metadata.name: Invalid value"),
    (pod("p") | {"spec": {"containers": 3}}, "spec.containers"),
    (node("n", [3]), "file: items[0]: "),  # type: ignore[list-item]
    (pod("p") | {"metadata": {"name": "p", "namespace": 7}}, "file: items[0]: "),
]


@pytest.mark.parametrize(("obj", "message"), BAD, ids=[message or str(i) for i, (_, message) in enumerate(BAD)])
def test_invalid_object_is_reported_with_its_place(obj: Json, message: str) -> None:
    with pytest.raises(RestoreError, match=r"file: items\[0\]") as error:
        restore(Cluster(), obj)
    assert message in str(error.value)


def test_restored_snapshot_equals_its_origin() -> None:
    """Custom resources and their definition, owners and the server's own objects included."""
    names = {"plural": "widgets", "kind": "Widget"}
    version = {"name": "v1", "served": True, "storage": True}
    version |= {"schema": {"openAPIV3Schema": {"type": "object", "x-kubernetes-preserve-unknown-fields": True}}}
    crd = {
        "apiVersion": "apiextensions.k8s.io/v1",
        "kind": "CustomResourceDefinition",
        "metadata": {"name": "widgets.example.com"},
        "spec": {"group": "example.com", "scope": "Namespaced", "names": names, "versions": [version]},
    }
    origin = Cluster()
    origin.create("customresourcedefinitions.apiextensions.k8s.io", crd)
    widget = {"apiVersion": "example.com/v1", "kind": "Widget", "metadata": {"name": "w"}, "spec": {"size": 3}}
    origin.create("widgets.example.com", widget)
    restore(origin, pod("p", "team"), node("n", READY))
    items = msgspec.json.decode(snapshot(origin.api))["items"]
    copy = Cluster()
    summary = restore(copy, *msgspec.json.decode(msgspec.json.encode(items)))
    assert not summary.not_served
    assert summary.without_owner == 0
    again = msgspec.json.decode(snapshot(copy.api))["items"]
    assert [without_version(obj) for obj in again] == [without_version(obj) for obj in items]


def without_version(obj: Json) -> Json:
    return {**obj, "metadata": {key: value for key, value in obj["metadata"].items() if key != "resourceVersion"}}
