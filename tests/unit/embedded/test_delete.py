"""Deletes: grace, finalizers, preconditions, owners and namespaces."""

from __future__ import annotations

import pytest

from pyscheduler.embedded.server_state import DeleteOptions
from pyscheduler.embedded.verbs.read import list_options

from .builders import START_TEXT, Cluster, Json, config_map, owned, pod, refused, workload


def delete(cluster: Cluster, plural: str, name: str, namespace: str = "default", **options: object) -> bool:
    resource = cluster.api.resource(*plural.split(".", 1))
    where = namespace if resource.namespaced else ""
    return cluster.api.delete(resource, where, name, DeleteOptions(**options))[1]  # type: ignore[arg-type]


def test_an_unbound_pod_goes_at_once() -> None:
    cluster = Cluster()
    cluster.create("pods", pod())
    assert delete(cluster, "pods", "p")
    assert not cluster.there("pods", "p")


def test_a_bound_pod_stays_until_its_kubelet_is_done() -> None:
    cluster = Cluster()
    cluster.create("pods", pod())
    cluster.bind("p")
    assert not delete(cluster, "pods", "p")
    meta = cluster.get("pods", "p")["metadata"]
    assert meta["deletionTimestamp"] == "2023-11-14T22:13:50Z"
    assert (meta["deletionGracePeriodSeconds"], meta["generation"]) == (30, 2)
    assert delete(cluster, "pods", "p", grace_seconds=0)
    assert not cluster.there("pods", "p")


def test_grace_can_only_be_shortened() -> None:
    cluster = Cluster()
    cluster.create("pods", pod())
    cluster.bind("p")
    delete(cluster, "pods", "p", grace_seconds=10)
    delete(cluster, "pods", "p", grace_seconds=60)
    assert cluster.get("pods", "p")["metadata"]["deletionGracePeriodSeconds"] == 10
    delete(cluster, "pods", "p", grace_seconds=5)
    assert cluster.get("pods", "p")["metadata"]["deletionTimestamp"] == "2023-11-14T22:13:25Z"


def test_a_finished_pod_goes_at_once() -> None:
    cluster = Cluster()
    cluster.create("pods", pod())
    cluster.bind("p")
    cluster.patch("pods", "p", {"status": {"phase": "Succeeded"}}, subresource="status")
    assert delete(cluster, "pods", "p")


@pytest.mark.parametrize("options", [{"uid": "other"}, {"resource_version": "1"}])
def test_preconditions_guard_a_delete(options: dict[str, str]) -> None:
    cluster = Cluster()
    cluster.create("pods", pod())
    error = refused(lambda: delete(cluster, "pods", "p", **options))
    assert (error.code, error.reason) == (409, "Conflict")
    assert "precondition" in error.message
    assert cluster.there("pods", "p")


def test_finalizers_hold_an_object_until_the_last_is_gone() -> None:
    cluster = Cluster()
    made = config_map()
    made["metadata"]["finalizers"] = ["example.com/a", "example.com/b"]
    cluster.create("configmaps", made)
    assert not delete(cluster, "configmaps", "settings")
    assert cluster.get("configmaps", "settings")["metadata"]["deletionTimestamp"] == START_TEXT
    error = refused(lambda: cluster.patch("configmaps", "settings", {"metadata": {"finalizers": ["example.com/c"]}}))
    assert error.code == 422
    replace = [{"op": "replace", "path": "/metadata/finalizers", "value": ["example.com/b"]}]
    cluster.patch("configmaps", "settings", replace, "application/json-patch+json")
    assert cluster.there("configmaps", "settings")
    remove = [{"op": "remove", "path": "/metadata/finalizers"}]
    cluster.patch("configmaps", "settings", remove, "application/json-patch+json")
    assert not cluster.there("configmaps", "settings")


def family(cluster: Cluster, **reference: object) -> tuple[Json, Json, Json]:
    """A deployment, its replica set and a pod of that."""
    top = cluster.create("deployments.apps", workload("Deployment"))
    middle = cluster.create("replicasets.apps", owned(workload("ReplicaSet", "web-1"), top, **reference))
    return top, middle, cluster.create("pods", owned(pod("web-1-a"), middle, **reference))


def test_background_deletion_takes_the_dependents_along() -> None:
    cluster = Cluster()
    family(cluster)
    delete(cluster, "deployments.apps", "web")
    assert cluster.names("replicasets.apps") == []
    assert cluster.names("pods") == []


def test_orphans_stay_and_forget_their_owner() -> None:
    cluster = Cluster()
    family(cluster)
    delete(cluster, "deployments.apps", "web", propagation="Orphan")
    assert "ownerReferences" not in cluster.get("replicasets.apps", "web-1")["metadata"]
    assert cluster.there("pods", "web-1-a")


def test_foreground_deletion_waits_for_the_dependents() -> None:
    cluster = Cluster()
    family(cluster, blockOwnerDeletion=True)
    cluster.bind("web-1-a")
    assert not delete(cluster, "deployments.apps", "web", propagation="Foreground")
    assert cluster.get("deployments.apps", "web")["metadata"]["finalizers"] == ["foregroundDeletion"]
    assert "deletionTimestamp" in cluster.get("pods", "web-1-a")["metadata"]
    delete(cluster, "pods", "web-1-a", grace_seconds=0)
    assert not cluster.there("replicasets.apps", "web-1")
    assert not cluster.there("deployments.apps", "web")


def test_one_living_owner_is_enough() -> None:
    cluster = Cluster()
    first, second = (cluster.create("configmaps", config_map(name)) for name in ("a", "b"))
    child = owned(pod("child"), first)
    child["metadata"]["ownerReferences"] += owned(pod(), second)["metadata"]["ownerReferences"]
    cluster.create("pods", child)
    delete(cluster, "configmaps", "a")
    assert [o["name"] for o in cluster.get("pods", "child")["metadata"]["ownerReferences"]] == ["b"]
    delete(cluster, "configmaps", "b")
    assert not cluster.there("pods", "child")


def test_what_is_born_without_a_living_owner_is_collected() -> None:
    cluster = Cluster()
    gone = {"apiVersion": "apps/v1", "kind": "ReplicaSet", "metadata": {"name": "gone", "uid": "never"}}
    cluster.create("pods", owned(pod("late"), gone))
    assert not cluster.there("pods", "late")


def test_delete_collection_takes_what_the_selector_matches() -> None:
    cluster = Cluster()
    for name, label in (("a", "x"), ("b", "y"), ("c", "x")):
        cluster.create("pods", pod(name, labels={"app": label}))
    resource = cluster.api.resource("pods")
    selection = list_options(resource, {"labelSelector": "app=x"})
    page = cluster.api.delete_collection(resource, "default", selection, DeleteOptions())
    assert [v.key[1] for v in page.items] == ["a", "c"]
    assert cluster.names("pods") == ["b"]


def new_namespace(cluster: Cluster, name: str = "team") -> None:
    cluster.create("namespaces", {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": name}})


def test_a_namespace_starts_with_a_service_account() -> None:
    cluster = Cluster()
    new_namespace(cluster)
    assert cluster.names("serviceaccounts", "team") == ["default"]
    assert cluster.get("namespaces", "team")["metadata"]["labels"] == {"kubernetes.io/metadata.name": "team"}
    assert cluster.names("namespaces") == ["default", "kube-node-lease", "kube-public", "kube-system", "team"]


def test_a_namespace_takes_its_contents_along() -> None:
    cluster = Cluster()
    new_namespace(cluster)
    cluster.create("configmaps", config_map(), namespace="team")
    assert delete(cluster, "namespaces", "team")
    assert cluster.names("configmaps", "team") == []
    assert not cluster.there("namespaces", "team")


def test_a_namespace_waits_for_pods_that_stop() -> None:
    cluster = Cluster()
    new_namespace(cluster)
    cluster.create("pods", pod(nodeName="n1"), namespace="team")
    assert not delete(cluster, "namespaces", "team")
    assert cluster.get("namespaces", "team")["status"]["phase"] == "Terminating"
    error = refused(lambda: cluster.create("configmaps", config_map(), namespace="team"))
    assert (error.code, "is being terminated" in error.message) == (403, True)
    delete(cluster, "pods", "p", "team", grace_seconds=0)
    assert not cluster.there("namespaces", "team")


@pytest.mark.parametrize("name", ["default", "kube-system"])
def test_some_namespaces_may_not_be_deleted(name: str) -> None:
    error = refused(lambda: delete(Cluster(), "namespaces", name))
    assert (error.code, error.reason) == (403, "Forbidden")
