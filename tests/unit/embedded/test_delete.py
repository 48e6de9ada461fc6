"""Delete: grace periods, finalizers, preconditions, owners and namespaces."""

from __future__ import annotations

import pytest

from pyscheduler.embedded.server_state import DeleteOptions
from pyscheduler.embedded.verbs.read import list_options

from .builders import START_TEXT, Cluster, Json, api_error, config_map, owned, pod, workload


def delete(cluster: Cluster, plural: str, name: str, namespace: str = "default", **options: object) -> bool:
    resource = cluster.api.resource(*plural.split(".", 1))
    where = namespace if resource.namespaced else ""
    return cluster.api.delete(resource, where, name, DeleteOptions(**options))[1]  # type: ignore[arg-type]


def test_unbound_pod_is_deleted_at_once() -> None:
    cluster = Cluster()
    cluster.create("pods", pod())
    assert delete(cluster, "pods", "p")
    assert not cluster.exists("pods", "p")


def test_bound_pod_remains_until_its_kubelet_deletes_it() -> None:
    cluster = Cluster()
    cluster.create("pods", pod())
    cluster.bind("p")
    assert not delete(cluster, "pods", "p")
    meta = cluster.get("pods", "p")["metadata"]
    assert meta["deletionTimestamp"] == "2023-11-14T22:13:50Z"
    assert (meta["deletionGracePeriodSeconds"], meta["generation"]) == (30, 2)
    assert delete(cluster, "pods", "p", grace_seconds=0)
    assert not cluster.exists("pods", "p")


def test_grace_period_can_only_be_shortened() -> None:
    cluster = Cluster()
    cluster.create("pods", pod())
    cluster.bind("p")
    delete(cluster, "pods", "p", grace_seconds=10)
    delete(cluster, "pods", "p", grace_seconds=60)
    assert cluster.get("pods", "p")["metadata"]["deletionGracePeriodSeconds"] == 10
    delete(cluster, "pods", "p", grace_seconds=5)
    assert cluster.get("pods", "p")["metadata"]["deletionTimestamp"] == "2023-11-14T22:13:25Z"


def test_finished_pod_is_deleted_at_once() -> None:
    cluster = Cluster()
    cluster.create("pods", pod())
    cluster.bind("p")
    cluster.patch("pods", "p", {"status": {"phase": "Succeeded"}}, subresource="status")
    assert delete(cluster, "pods", "p")


@pytest.mark.parametrize("options", [{"uid": "other"}, {"resource_version": "1"}])
def test_delete_with_wrong_precondition_conflicts(options: dict[str, str]) -> None:
    cluster = Cluster()
    cluster.create("pods", pod())
    error = api_error(lambda: delete(cluster, "pods", "p", **options))
    assert (error.code, error.reason) == (409, "Conflict")
    assert "precondition" in error.message
    assert cluster.exists("pods", "p")


def test_object_is_removed_with_its_last_finalizer() -> None:
    cluster = Cluster()
    obj = config_map()
    obj["metadata"]["finalizers"] = ["example.com/a", "example.com/b"]
    cluster.create("configmaps", obj)
    assert not delete(cluster, "configmaps", "settings")
    assert cluster.get("configmaps", "settings")["metadata"]["deletionTimestamp"] == START_TEXT
    error = api_error(lambda: cluster.patch("configmaps", "settings", {"metadata": {"finalizers": ["example.com/c"]}}))
    assert error.code == 422
    replace = [{"op": "replace", "path": "/metadata/finalizers", "value": ["example.com/b"]}]
    cluster.patch("configmaps", "settings", replace, "application/json-patch+json")
    assert cluster.exists("configmaps", "settings")
    remove = [{"op": "remove", "path": "/metadata/finalizers"}]
    cluster.patch("configmaps", "settings", remove, "application/json-patch+json")
    assert not cluster.exists("configmaps", "settings")


def owner_chain(cluster: Cluster, **reference: object) -> tuple[Json, Json, Json]:
    """Create a Deployment, its ReplicaSet and a pod of that."""
    top = cluster.create("deployments.apps", workload("Deployment"))
    middle = cluster.create("replicasets.apps", owned(workload("ReplicaSet", "web-1"), top, **reference))
    return top, middle, cluster.create("pods", owned(pod("web-1-a"), middle, **reference))


def test_background_deletion_deletes_dependents() -> None:
    cluster = Cluster()
    owner_chain(cluster)
    delete(cluster, "deployments.apps", "web")
    assert cluster.names("replicasets.apps") == []
    assert cluster.names("pods") == []


def test_orphans_remain_without_owner_reference() -> None:
    cluster = Cluster()
    owner_chain(cluster)
    delete(cluster, "deployments.apps", "web", propagation="Orphan")
    assert "ownerReferences" not in cluster.get("replicasets.apps", "web-1")["metadata"]
    assert cluster.exists("pods", "web-1-a")


def test_foreground_deletion_waits_for_dependents() -> None:
    cluster = Cluster()
    owner_chain(cluster, blockOwnerDeletion=True)
    cluster.bind("web-1-a")
    assert not delete(cluster, "deployments.apps", "web", propagation="Foreground")
    assert cluster.get("deployments.apps", "web")["metadata"]["finalizers"] == ["foregroundDeletion"]
    assert "deletionTimestamp" in cluster.get("pods", "web-1-a")["metadata"]
    delete(cluster, "pods", "web-1-a", grace_seconds=0)
    assert not cluster.exists("replicasets.apps", "web-1")
    assert not cluster.exists("deployments.apps", "web")


def test_dependent_is_deleted_with_its_last_owner() -> None:
    cluster = Cluster()
    first, second = (cluster.create("configmaps", config_map(name)) for name in ("a", "b"))
    child = owned(pod("child"), first)
    child["metadata"]["ownerReferences"] += owned(pod(), second)["metadata"]["ownerReferences"]
    cluster.create("pods", child)
    delete(cluster, "configmaps", "a")
    assert [o["name"] for o in cluster.get("pods", "child")["metadata"]["ownerReferences"]] == ["b"]
    delete(cluster, "configmaps", "b")
    assert not cluster.exists("pods", "child")


def test_object_created_with_a_missing_owner_is_collected() -> None:
    cluster = Cluster()
    gone = {"apiVersion": "apps/v1", "kind": "ReplicaSet", "metadata": {"name": "gone", "uid": "never"}}
    cluster.create("pods", owned(pod("late"), gone))
    assert not cluster.exists("pods", "late")


def test_delete_collection_deletes_what_the_selector_matches() -> None:
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


def test_new_namespace_has_a_service_account() -> None:
    cluster = Cluster()
    new_namespace(cluster)
    assert cluster.names("serviceaccounts", "team") == ["default"]
    assert cluster.get("namespaces", "team")["metadata"]["labels"] == {"kubernetes.io/metadata.name": "team"}
    assert cluster.names("namespaces") == ["default", "kube-node-lease", "kube-public", "kube-system", "team"]


def test_objects_are_deleted_with_their_namespace() -> None:
    cluster = Cluster()
    new_namespace(cluster)
    cluster.create("configmaps", config_map(), namespace="team")
    assert delete(cluster, "namespaces", "team")
    assert cluster.names("configmaps", "team") == []
    assert not cluster.exists("namespaces", "team")


def test_namespace_waits_for_terminating_pods() -> None:
    cluster = Cluster()
    new_namespace(cluster)
    cluster.create("pods", pod(nodeName="n1"), namespace="team")
    assert not delete(cluster, "namespaces", "team")
    assert cluster.get("namespaces", "team")["status"]["phase"] == "Terminating"
    error = api_error(lambda: cluster.create("configmaps", config_map(), namespace="team"))
    assert (error.code, "is being terminated" in error.message) == (403, True)
    delete(cluster, "pods", "p", "team", grace_seconds=0)
    assert not cluster.exists("namespaces", "team")


@pytest.mark.parametrize("name", ["default", "kube-system"])
def test_system_namespaces_cannot_be_deleted(name: str) -> None:
    error = api_error(lambda: delete(Cluster(), "namespaces", name))
    assert (error.code, error.reason) == (403, "Forbidden")
