"""Binding and eviction."""

from __future__ import annotations

from typing import Any

import pytest

from .builders import START_TEXT, Cluster, Json, pod, refused, workload


def test_binding_assigns_the_pod() -> None:
    cluster = Cluster()
    cluster.create("pods", pod())
    cluster.patch("pods", "p", {"status": {"nominatedNodeName": "n9"}}, subresource="status")
    cluster.bind("p", annotations={"by": "me"}, labels={"zone": "a"})
    bound = cluster.get("pods", "p")
    assert bound["spec"]["nodeName"] == "n1"
    assert "nominatedNodeName" not in bound["status"]
    assert bound["status"]["conditions"] == [
        {"type": "PodScheduled", "status": "True", "lastProbeTime": None, "lastTransitionTime": START_TEXT}
    ]
    assert (bound["metadata"]["annotations"], bound["metadata"]["labels"]) == ({"by": "me"}, {"zone": "a"})


def test_a_bound_pod_is_not_bound_again() -> None:
    cluster = Cluster()
    cluster.create("pods", pod())
    cluster.bind("p")
    error = refused(lambda: cluster.bind("p", "n2"))
    assert (error.code, error.reason) == (409, "Conflict")
    assert 'pod p is already assigned to node "n1"' in error.message
    assert cluster.get("pods", "p")["spec"]["nodeName"] == "n1"


def test_a_pod_that_is_being_deleted_is_not_bound() -> None:
    cluster = Cluster()
    made = pod()
    made["metadata"]["finalizers"] = ["example.com/hold"]
    cluster.create("pods", made)
    cluster.api.delete(cluster.api.resource("pods"), "default", "p")
    error = refused(lambda: cluster.bind("p"))
    assert "is being deleted, cannot be assigned to a host" in error.message


def test_a_gated_pod_is_not_bound() -> None:
    cluster = Cluster()
    cluster.create("pods", pod(schedulingGates=[{"name": "g"}]))
    assert "non-empty .spec.schedulingGates" in refused(lambda: cluster.bind("p")).message


@pytest.mark.parametrize("meta", [{"uid": "another"}, {"resourceVersion": "1"}])
def test_binding_has_preconditions(meta: Json) -> None:
    cluster = Cluster()
    cluster.create("pods", pod())
    error = refused(lambda: cluster.bind("p", **meta))
    assert (error.code, "Precondition failed" in error.message) == (409, True)


@pytest.mark.parametrize(
    ("binding", "code"),
    [
        ({"metadata": {"name": "p"}, "target": {"kind": "Pod", "name": "x"}}, 422),
        ({"metadata": {"name": "p"}, "target": {"kind": "Node"}}, 422),
        ({"metadata": {"name": "other"}, "target": {"name": "n"}}, 400),
        ({"metadata": {"name": "p"}}, 400),
        ("n1", 400),
    ],
)
def test_a_malformed_binding_is_refused(binding: Any, code: int) -> None:
    cluster = Cluster()
    cluster.create("pods", pod())
    assert refused(lambda: cluster.api.bind("default", "p", binding)).code == code


def test_binding_what_is_not_there() -> None:
    assert refused(lambda: Cluster().bind("none")).message == 'pods "none" not found'


def running(cluster: Cluster, *names: str) -> None:
    for name in names:
        cluster.create("pods", pod(name, labels={"app": "web"}))
        cluster.bind(name)
        ready = {"phase": "Running", "conditions": [{"type": "Ready", "status": "True"}]}
        cluster.patch("pods", name, {"status": ready}, subresource="status")


def budget(cluster: Cluster, name: str = "keep", **spec: Any) -> None:
    head: Json = {"apiVersion": "policy/v1", "kind": "PodDisruptionBudget", "metadata": {"name": name}}
    selector = {"matchLabels": {"app": "web"}}
    cluster.create("poddisruptionbudgets.policy", {**head, "spec": {"selector": selector, **spec}})


def evict(cluster: Cluster, name: str, **options: Any) -> None:
    cluster.api.evict("default", name, {"metadata": {"name": name}, "deleteOptions": options or None})


def test_eviction_deletes_where_no_budget_speaks() -> None:
    cluster = Cluster()
    running(cluster, "a")
    evict(cluster, "a")
    evicted = cluster.get("pods", "a")
    assert "deletionTimestamp" in evicted["metadata"]
    assert evicted["status"]["conditions"][-1]["reason"] == "EvictionByEvictionAPI"


def test_a_spent_budget_refuses() -> None:
    cluster = Cluster()
    running(cluster, "a", "b")
    budget(cluster, minAvailable=1)
    evict(cluster, "a")
    error = refused(lambda: evict(cluster, "b"))
    assert (error.code, error.reason) == (429, "TooManyRequests")
    assert error.message == "Cannot evict pod as it would violate the pod's disruption budget."
    causes = error.body()["details"]["causes"]
    assert causes[0]["message"] == "The disruption budget keep needs 1 healthy pods and has 1 currently"
    assert "deletionTimestamp" not in cluster.get("pods", "b")["metadata"]


def test_pending_pods_may_always_be_evicted() -> None:
    cluster = Cluster()
    running(cluster, "a")
    budget(cluster, minAvailable=1)
    cluster.create("pods", pod("waiting", labels={"app": "web"}))
    evict(cluster, "waiting")
    assert not cluster.there("pods", "waiting")


def test_two_budgets_for_one_pod_are_an_error() -> None:
    cluster = Cluster()
    running(cluster, "a")
    budget(cluster, "one", minAvailable=0)
    budget(cluster, "two", minAvailable=0)
    assert refused(lambda: evict(cluster, "a")).code == 500


@pytest.mark.parametrize(
    ("spec", "pods", "allowed"),
    [
        ({"minAvailable": 1}, 3, 2),
        ({"minAvailable": 5}, 3, 0),
        ({"maxUnavailable": 1}, 3, 1),
        ({"minAvailable": "50%"}, 3, 1),
        ({"maxUnavailable": "34%"}, 3, 2),
        ({"maxUnavailable": 1}, 0, 0),
    ],
)
def test_budget_figures(spec: Json, pods: int, allowed: int) -> None:
    cluster = Cluster()
    running(cluster, *(f"p{i}" for i in range(pods)))
    budget(cluster, **spec)
    assert cluster.get("poddisruptionbudgets.policy", "keep")["status"]["disruptionsAllowed"] == allowed


def test_a_controller_says_how_many_pods_are_expected() -> None:
    cluster = Cluster()
    owner = cluster.create("replicasets.apps", workload("ReplicaSet", replicas=4))
    reference = {"apiVersion": "apps/v1", "kind": "ReplicaSet", "name": "web", "uid": owner["metadata"]["uid"]}
    made = pod("a", labels={"app": "web"})
    made["metadata"]["ownerReferences"] = [{**reference, "controller": True}]
    cluster.create("pods", made)
    budget(cluster, maxUnavailable=1)
    status = cluster.get("poddisruptionbudgets.policy", "keep")["status"]
    assert (status["expectedPods"], status["desiredHealthy"]) == (4, 3)
