"""Updates: optimistic concurrency, generations, status apart from spec, and what may not change."""

from __future__ import annotations

import copy
from typing import Any

import pytest

from .builders import Cluster, Json, config_map, fields_of, pod, refused, workload


def changed(obj: Json, *path: str, to: Any) -> Json:
    result = copy.deepcopy(obj)
    here: Any = result
    for step in path[:-1]:
        here = here.setdefault(step, {})
    here[path[-1]] = to
    return result


def test_a_stale_update_conflicts() -> None:
    cluster = Cluster()
    first = cluster.create("configmaps", config_map(a="1"))
    cluster.update("configmaps", changed(first, "data", "a", to="2"))
    error = refused(lambda: cluster.update("configmaps", changed(first, "data", "a", to="3")))
    assert (error.code, error.reason) == (409, "Conflict")
    assert error.message == (
        'Operation cannot be fulfilled on configmaps "settings": the object has been modified; '
        "please apply your changes to the latest version and try again"
    )
    assert cluster.get("configmaps", "settings")["data"] == {"a": "2"}


def test_an_update_without_revision_wins_where_the_kind_allows_it() -> None:
    cluster = Cluster()
    cluster.create("configmaps", config_map(a="1"))
    assert cluster.update("configmaps", config_map(a="2"))["data"] == {"a": "2"}
    lease = {"apiVersion": "coordination.k8s.io/v1", "kind": "Lease", "metadata": {"name": "l"}}
    cluster.create("leases.coordination.k8s.io", copy.deepcopy(lease))
    error = refused(lambda: cluster.update("leases.coordination.k8s.io", lease))
    assert fields_of(error) == ["metadata.resourceVersion"]


def test_a_wrong_uid_conflicts() -> None:
    cluster = Cluster()
    made = cluster.create("configmaps", config_map())
    assert refused(lambda: cluster.update("configmaps", changed(made, "metadata", "uid", to="other"))).code == 409


def test_an_update_that_changes_nothing_keeps_the_revision() -> None:
    cluster = Cluster()
    made = cluster.create("deployments.apps", workload("Deployment"))
    again = cluster.update("deployments.apps", copy.deepcopy(made))
    assert again["metadata"]["resourceVersion"] == made["metadata"]["resourceVersion"]


def test_generation_counts_changes_of_the_spec_only() -> None:
    cluster = Cluster()
    made = cluster.create("deployments.apps", workload("Deployment"))
    labelled = cluster.update("deployments.apps", changed(made, "metadata", "labels", to={"a": "b"}))
    assert labelled["metadata"]["generation"] == 1
    scaled = cluster.update("deployments.apps", changed(labelled, "spec", "replicas", to=3))
    assert scaled["metadata"]["generation"] == 2
    status = cluster.update("deployments.apps", changed(scaled, "status", "replicas", to=3), "status")
    assert status["metadata"]["generation"] == 2


def test_status_is_written_through_its_subresource_only() -> None:
    cluster = Cluster()
    made = cluster.create("pods", pod())
    ignored = cluster.update("pods", changed(made, "status", "phase", to="Running"))
    assert ignored["status"]["phase"] == "Pending"
    both = changed(changed(made, "status", "phase", to="Running"), "spec", "nodeName", to="n1")
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
def test_the_spec_of_a_pod_is_fixed(path: tuple[str, ...], value: Any) -> None:
    cluster = Cluster()
    made = cluster.create("pods", pod())
    error = refused(lambda: cluster.update("pods", changed(made, "spec", *path, to=value)))
    assert fields_of(error) == ["spec"]
    assert "pod updates may not change fields other than" in error.message


def test_what_of_a_pod_may_change() -> None:
    cluster = Cluster()
    made = cluster.create("pods", pod(schedulingGates=[{"name": "a"}, {"name": "b"}]))
    new = copy.deepcopy(made)
    new["spec"]["containers"][0]["image"] = "image:2"
    new["spec"]["tolerations"].append({"key": "extra", "operator": "Exists"})
    new["spec"]["schedulingGates"] = [{"name": "b"}]
    new["spec"]["nodeSelector"] = {"zone": "a"}  # allowed while gated
    stored = cluster.update("pods", new)
    assert stored["spec"]["containers"][0]["image"] == "image:2"
    assert stored["metadata"]["generation"] == 2


def test_gates_and_tolerations_go_one_way() -> None:
    cluster = Cluster()
    made = cluster.create("pods", pod(schedulingGates=[{"name": "a"}]))
    new = changed(made, "spec", "schedulingGates", to=[{"name": "a"}, {"name": "b"}])
    new["spec"]["tolerations"] = []
    assert fields_of(refused(lambda: cluster.update("pods", new))) == ["spec.tolerations", "spec.schedulingGates"]


def test_the_selector_of_a_workload_is_fixed() -> None:
    cluster = Cluster()
    made = cluster.create("deployments.apps", workload("Deployment"))
    new = changed(made, "spec", "selector", to={"matchLabels": {"app": "web", "b": "c"}})
    new["spec"]["template"]["metadata"]["labels"] = {"app": "web", "b": "c"}
    assert fields_of(refused(lambda: cluster.update("deployments.apps", new))) == ["spec.selector"]


def test_name_and_url_must_agree() -> None:
    cluster = Cluster()
    made = cluster.create("configmaps", config_map("a"))
    resource = cluster.api.resource("configmaps")
    error = refused(
        lambda: cluster.api.update(resource, ("default", "a", ""), changed(made, "metadata", "name", to="b"))
    )
    assert error.code == 400


def test_updating_what_is_not_there() -> None:
    assert refused(lambda: Cluster().update("configmaps", config_map("none"))).code == 404


def test_a_lease_is_created_by_an_update() -> None:
    cluster = Cluster()
    lease = {"apiVersion": "coordination.k8s.io/v1", "kind": "Lease", "metadata": {"name": "l"}}
    resource = cluster.api.resource("leases", "coordination.k8s.io")
    _, created = cluster.api.update(resource, ("default", "l", ""), lease)
    assert created
    assert cluster.there("leases.coordination.k8s.io", "l")


def test_node_quantities_are_settled_in_status_too() -> None:
    cluster = Cluster()
    node = {"apiVersion": "v1", "kind": "Node", "metadata": {"name": "n"}, "status": {"capacity": {"cpu": 4}}}
    made = cluster.create("nodes", node)
    assert made["status"] == {"capacity": {"cpu": "4"}, "allocatable": {"cpu": "4"}}
    new = changed(made, "status", "allocatable", to={"memory": "1024Mi"})
    assert cluster.update("nodes", new, "status")["status"]["allocatable"] == {"memory": "1Gi"}


def test_scaling_changes_replicas_and_nothing_else() -> None:
    cluster = Cluster()
    made = cluster.create("deployments.apps", workload("Deployment"))
    resource = cluster.api.resource("deployments", "apps")
    scale = cluster.api.update_scale(resource, ("default", "web"), {"spec": {"replicas": 5}})
    assert scale["kind"] == "Scale"
    assert scale["spec"] == {"replicas": 5}
    assert scale["status"]["selector"] == "app=web"
    after = cluster.get("deployments.apps", "web")
    assert after["spec"] == {**made["spec"], "replicas": 5}
    assert after["metadata"]["generation"] == 2
    error = refused(lambda: cluster.api.update_scale(resource, ("default", "web"), {"spec": {"replicas": -1}}))
    assert fields_of(error) == ["spec.replicas"]
