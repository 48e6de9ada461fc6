"""Binding, eviction and disruption budgets."""

from __future__ import annotations

from typing import Any

import pytest

from .builders import START_TEXT, Cluster, Json, api_error, pod, workload


def test_binding_sets_node_condition_labels_and_annotations() -> None:
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


def test_binding_a_bound_pod_conflicts() -> None:
    cluster = Cluster()
    cluster.create("pods", pod())
    cluster.bind("p")
    error = api_error(lambda: cluster.bind("p", "n2"))
    assert (error.code, error.reason) == (409, "Conflict")
    assert 'pod p is already assigned to node "n1"' in error.message
    assert cluster.get("pods", "p")["spec"]["nodeName"] == "n1"


def test_binding_a_terminating_pod_conflicts() -> None:
    cluster = Cluster()
    obj = pod()
    obj["metadata"]["finalizers"] = ["example.com/hold"]
    cluster.create("pods", obj)
    cluster.api.delete(cluster.api.resource("pods"), "default", "p")
    error = api_error(lambda: cluster.bind("p"))
    assert "is being deleted, cannot be assigned to a host" in error.message


def test_binding_a_gated_pod_conflicts() -> None:
    cluster = Cluster()
    cluster.create("pods", pod(schedulingGates=[{"name": "g"}]))
    assert "non-empty .spec.schedulingGates" in api_error(lambda: cluster.bind("p")).message


@pytest.mark.parametrize("meta", [{"uid": "another"}, {"resourceVersion": "1"}])
def test_binding_with_wrong_precondition_conflicts(meta: Json) -> None:
    cluster = Cluster()
    cluster.create("pods", pod())
    error = api_error(lambda: cluster.bind("p", **meta))
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
def test_malformed_binding_is_rejected(binding: Any, code: int) -> None:
    cluster = Cluster()
    cluster.create("pods", pod())
    assert api_error(lambda: cluster.api.bind("default", "p", binding)).code == code


def test_binding_a_missing_pod_is_not_found() -> None:
    assert api_error(lambda: Cluster().bind("none")).message == 'pods "none" not found'


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


def test_eviction_without_budget_deletes_the_pod() -> None:
    cluster = Cluster()
    running(cluster, "a")
    evict(cluster, "a")
    evicted = cluster.get("pods", "a")
    assert "deletionTimestamp" in evicted["metadata"]
    assert evicted["status"]["conditions"][-1]["reason"] == "EvictionByEvictionAPI"


def test_eviction_beyond_the_budget_is_rejected() -> None:
    cluster = Cluster()
    running(cluster, "a", "b")
    budget(cluster, minAvailable=1)
    evict(cluster, "a")
    error = api_error(lambda: evict(cluster, "b"))
    assert (error.code, error.reason) == (429, "TooManyRequests")
    assert error.message == "Cannot evict pod as it would violate the pod's disruption budget."
    causes = error.body()["details"]["causes"]
    assert causes[0]["message"] == "The disruption budget keep needs 1 healthy pods and has 1 currently"
    assert "deletionTimestamp" not in cluster.get("pods", "b")["metadata"]


def test_pending_pod_can_always_be_evicted() -> None:
    cluster = Cluster()
    running(cluster, "a")
    budget(cluster, minAvailable=1)
    cluster.create("pods", pod("waiting", labels={"app": "web"}))
    evict(cluster, "waiting")
    assert not cluster.exists("pods", "waiting")


def test_two_budgets_for_one_pod_are_an_internal_error() -> None:
    cluster = Cluster()
    running(cluster, "a")
    budget(cluster, "one", minAvailable=0)
    budget(cluster, "two", minAvailable=0)
    assert api_error(lambda: evict(cluster, "a")).code == 500


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
def test_disruptions_allowed(spec: Json, pods: int, allowed: int) -> None:
    cluster = Cluster()
    running(cluster, *(f"p{i}" for i in range(pods)))
    budget(cluster, **spec)
    assert cluster.get("poddisruptionbudgets.policy", "keep")["status"]["disruptionsAllowed"] == allowed


def test_expected_pods_are_the_replicas_of_the_controller() -> None:
    cluster = Cluster()
    owner = cluster.create("replicasets.apps", workload("ReplicaSet", replicas=4))
    reference = {"apiVersion": "apps/v1", "kind": "ReplicaSet", "name": "web", "uid": owner["metadata"]["uid"]}
    obj = pod("a", labels={"app": "web"})
    obj["metadata"]["ownerReferences"] = [{**reference, "controller": True}]
    cluster.create("pods", obj)
    budget(cluster, maxUnavailable=1)
    status = cluster.get("poddisruptionbudgets.policy", "keep")["status"]
    assert (status["expectedPods"], status["desiredHealthy"]) == (4, 3)
