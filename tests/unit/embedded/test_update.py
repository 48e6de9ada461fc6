"""Update: optimistic concurrency, generations, the status subresource, and immutable fields."""

from __future__ import annotations

import copy
from typing import Any

import pytest

from .builders import Cluster, Json, api_error, config_map, fields_of, pod, workload


def changed(obj: Json, *path: str, to: Any) -> Json:
    result = copy.deepcopy(obj)
    here: Any = result
    for step in path[:-1]:
        here = here.setdefault(step, {})
    here[path[-1]] = to
    return result


def test_stale_update_conflicts() -> None:
    cluster = Cluster()
    first = cluster.create("configmaps", config_map(a="1"))
    cluster.update("configmaps", changed(first, "data", "a", to="2"))
    error = api_error(lambda: cluster.update("configmaps", changed(first, "data", "a", to="3")))
    assert (error.code, error.reason) == (409, "Conflict")
    assert error.message == (
        'Operation cannot be fulfilled on configmaps "settings": the object has been modified; '
        "please apply your changes to the latest version and try again"
    )
    assert cluster.get("configmaps", "settings")["data"] == {"a": "2"}


def test_update_without_resource_version_succeeds_if_the_kind_allows_it() -> None:
    cluster = Cluster()
    cluster.create("configmaps", config_map(a="1"))
    assert cluster.update("configmaps", config_map(a="2"))["data"] == {"a": "2"}
    lease = {"apiVersion": "coordination.k8s.io/v1", "kind": "Lease", "metadata": {"name": "l"}}
    cluster.create("leases.coordination.k8s.io", copy.deepcopy(lease))
    error = api_error(lambda: cluster.update("leases.coordination.k8s.io", lease))
    assert fields_of(error) == ["metadata.resourceVersion"]


def test_update_with_wrong_uid_conflicts() -> None:
    cluster = Cluster()
    obj = cluster.create("configmaps", config_map())
    assert api_error(lambda: cluster.update("configmaps", changed(obj, "metadata", "uid", to="other"))).code == 409


def test_update_without_changes_preserves_the_resource_version() -> None:
    cluster = Cluster()
    obj = cluster.create("deployments.apps", workload("Deployment"))
    again = cluster.update("deployments.apps", copy.deepcopy(obj))
    assert again["metadata"]["resourceVersion"] == obj["metadata"]["resourceVersion"]


def test_generation_counts_spec_changes_only() -> None:
    cluster = Cluster()
    obj = cluster.create("deployments.apps", workload("Deployment"))
    labelled = cluster.update("deployments.apps", changed(obj, "metadata", "labels", to={"a": "b"}))
    assert labelled["metadata"]["generation"] == 1
    scaled = cluster.update("deployments.apps", changed(labelled, "spec", "replicas", to=3))
    assert scaled["metadata"]["generation"] == 2
    status = cluster.update("deployments.apps", changed(scaled, "status", "replicas", to=3), "status")
    assert status["metadata"]["generation"] == 2


def test_status_is_written_through_its_subresource_only() -> None:
    cluster = Cluster()
    obj = cluster.create("pods", pod())
    ignored = cluster.update("pods", changed(obj, "status", "phase", to="Running"))
    assert ignored["status"]["phase"] == "Pending"
    both = changed(changed(obj, "status", "phase", to="Running"), "spec", "nodeName", to="n1")
    written = cluster.update("pods", both, "status")
    assert written["status"]["phase"] == "Running"
    assert "nodeName" not in written["spec"]


@pytest.mark.parametrize(
    ("path", "value"),
    [
        (("nodeName",), "n1"),
        (("schedulerName",), "other"),
        (("nodeSelector",), {"a": "b"}),
        (("priority",), 5),
        (("containers",), [{"name": "c", "image": "i", "command": ["x"]}]),
    ],
)
def test_pod_spec_is_immutable(path: tuple[str, ...], value: Any) -> None:
    cluster = Cluster()
    obj = cluster.create("pods", pod())
    error = api_error(lambda: cluster.update("pods", changed(obj, "spec", *path, to=value)))
    assert fields_of(error) == ["spec"]
    assert "pod updates may not change fields other than" in error.message


def test_mutable_fields_of_a_pod_can_change() -> None:
    cluster = Cluster()
    obj = cluster.create("pods", pod(schedulingGates=[{"name": "a"}, {"name": "b"}]))
    new = copy.deepcopy(obj)
    new["spec"]["containers"][0]["image"] = "image:2"
    new["spec"]["tolerations"].append({"key": "extra", "operator": "Exists"})
    new["spec"]["schedulingGates"] = [{"name": "b"}]
    new["spec"]["nodeSelector"] = {"zone": "a"}  # allowed while gated
    stored = cluster.update("pods", new)
    assert stored["spec"]["containers"][0]["image"] == "image:2"
    assert stored["metadata"]["generation"] == 2


def test_gates_cannot_be_added_nor_tolerations_removed() -> None:
    cluster = Cluster()
    obj = cluster.create("pods", pod(schedulingGates=[{"name": "a"}]))
    new = changed(obj, "spec", "schedulingGates", to=[{"name": "a"}, {"name": "b"}])
    new["spec"]["tolerations"] = []
    assert fields_of(api_error(lambda: cluster.update("pods", new))) == ["spec.tolerations", "spec.schedulingGates"]


def test_selector_of_a_workload_is_immutable() -> None:
    cluster = Cluster()
    obj = cluster.create("deployments.apps", workload("Deployment"))
    new = changed(obj, "spec", "selector", to={"matchLabels": {"app": "web", "b": "c"}})
    new["spec"]["template"]["metadata"]["labels"] = {"app": "web", "b": "c"}
    assert fields_of(api_error(lambda: cluster.update("deployments.apps", new))) == ["spec.selector"]


def test_names_of_object_and_url_must_match() -> None:
    cluster = Cluster()
    obj = cluster.create("configmaps", config_map("a"))
    resource = cluster.api.resource("configmaps")
    error = api_error(
        lambda: cluster.api.update(resource, ("default", "a", ""), changed(obj, "metadata", "name", to="b"))
    )
    assert error.code == 400


def test_update_of_a_missing_object_is_not_found() -> None:
    assert api_error(lambda: Cluster().update("configmaps", config_map("none"))).code == 404


def test_update_creates_a_missing_lease() -> None:
    cluster = Cluster()
    lease = {"apiVersion": "coordination.k8s.io/v1", "kind": "Lease", "metadata": {"name": "l"}}
    resource = cluster.api.resource("leases", "coordination.k8s.io")
    _, created = cluster.api.update(resource, ("default", "l", ""), lease)
    assert created
    assert cluster.exists("leases.coordination.k8s.io", "l")


def test_node_quantities_are_canonicalized_in_status_too() -> None:
    cluster = Cluster()
    node = {"apiVersion": "v1", "kind": "Node", "metadata": {"name": "n"}, "status": {"capacity": {"cpu": 4}}}
    obj = cluster.create("nodes", node)
    assert obj["status"] == {"capacity": {"cpu": "4"}, "allocatable": {"cpu": "4"}}
    new = changed(obj, "status", "allocatable", to={"memory": "1024Mi"})
    assert cluster.update("nodes", new, "status")["status"]["allocatable"] == {"memory": "1Gi"}


def test_scale_changes_only_the_replicas() -> None:
    cluster = Cluster()
    obj = cluster.create("deployments.apps", workload("Deployment"))
    resource = cluster.api.resource("deployments", "apps")
    scale = cluster.api.update_scale(resource, ("default", "web"), {"spec": {"replicas": 5}})
    assert scale["kind"] == "Scale"
    assert scale["spec"] == {"replicas": 5}
    assert scale["status"]["selector"] == "app=web"
    after = cluster.get("deployments.apps", "web")
    assert after["spec"] == {**obj["spec"], "replicas": 5}
    assert after["metadata"]["generation"] == 2
    error = api_error(lambda: cluster.api.update_scale(resource, ("default", "web"), {"spec": {"replicas": -1}}))
    assert fields_of(error) == ["spec.replicas"]
