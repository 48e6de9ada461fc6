"""ResourceQuotas reject what exceeds them, and their status follows every change."""

from __future__ import annotations

from typing import Any

import pytest

from .builders import Cluster, Json, api_error, config_map, pod


@pytest.fixture
def cluster() -> Cluster:
    return Cluster()


def quota(hard: Json, **spec: Any) -> Json:
    return {"metadata": {"name": "q"}, "spec": {"hard": hard, **spec}}


def sized(name: str, cpu: str = "1", memory: str = "1Gi", **spec: Any) -> Json:
    resources = {"requests": {"cpu": cpu, "memory": memory}, "limits": {"cpu": cpu, "memory": memory}}
    return pod(name, **{"containers": [{"name": "c", "image": "i", "resources": resources}], **spec})


def used(cluster: Cluster, name: str = "q") -> Json:
    found: Json = cluster.get("resourcequotas", name)["status"]["used"]
    return found


def test_pod_beyond_the_quota_is_forbidden_with_the_amounts(cluster: Cluster) -> None:
    cluster.create("resourcequotas", quota({"requests.cpu": "1500m", "pods": "2"}))
    cluster.create("pods", sized("a"))
    error = api_error(lambda: cluster.create("pods", sized("b")))
    assert error.code == 403
    assert error.message == (
        'pods "b" is forbidden: exceeded quota: q, requested: requests.cpu=1, used: requests.cpu=1, '
        "limited: requests.cpu=1500m"
    )
    assert used(cluster) == {"requests.cpu": "1", "pods": "1"}


def test_pod_must_specify_what_the_quota_limits(cluster: Cluster) -> None:
    cluster.create("resourcequotas", quota({"limits.memory": "1Gi", "cpu": "1"}))
    error = api_error(lambda: cluster.create("pods", pod("a")))
    assert error.message == ('pods "a" is forbidden: failed quota: q: must specify cpu for: c; limits.memory for: c')


def test_finished_and_deleted_pods_are_not_counted(cluster: Cluster) -> None:
    cluster.create("resourcequotas", quota({"pods": "1", "count/pods": "9"}))
    cluster.create("pods", pod("a"))
    assert api_error(lambda: cluster.create("pods", pod("b"))).code == 403
    cluster.patch("pods", "a", {"status": {"phase": "Succeeded"}}, subresource="status")
    cluster.create("pods", pod("b"))
    assert used(cluster) == {"pods": "1", "count/pods": "2"}
    for name in ("a", "b"):
        cluster.api.delete(cluster.api.resource("pods"), "default", name)
    assert used(cluster) == {"pods": "0", "count/pods": "0"}


def test_quota_counts_what_is_there_already(cluster: Cluster) -> None:
    cluster.create("pods", sized("a", memory="512Mi"))
    cluster.create("resourcequotas", quota({"requests.memory": "1Gi", "resourcequotas": "1"}))
    assert used(cluster) == {"requests.memory": "512Mi", "resourcequotas": "1"}
    cluster.patch("resourcequotas", "q", {"spec": {"hard": {"pods": "7"}}})
    assert used(cluster) == {"requests.memory": "512Mi", "resourcequotas": "1", "pods": "1"}


@pytest.mark.parametrize(
    ("hard", "plural", "body"),
    [
        pytest.param("configmaps", "configmaps", config_map("a"), id="by kind"),
        pytest.param("count/configmaps", "configmaps", config_map("a"), id="by count"),
        pytest.param(
            "count/leases.coordination.k8s.io",
            "leases.coordination.k8s.io",
            {"metadata": {"name": "l"}},
            id="of a group",
        ),
        pytest.param(
            "services.loadbalancers",
            "services",
            {"metadata": {"name": "s"}, "spec": {"type": "LoadBalancer", "ports": [{"port": 1}]}},
            id="load balancers",
        ),
        pytest.param(
            "gold.storageclass.storage.k8s.io/requests.storage",
            "persistentvolumeclaims",
            {
                "metadata": {"name": "c"},
                "spec": {
                    "accessModes": ["ReadWriteOnce"],
                    "storageClassName": "gold",
                    "resources": {"requests": {"storage": "1Gi"}},
                },
            },
            id="storage of a class",
        ),
    ],
)
def test_objects_are_counted(cluster: Cluster, hard: str, plural: str, body: Json) -> None:
    cluster.create("resourcequotas", quota({hard: "0"}))
    error = api_error(lambda: cluster.create(plural, body))
    assert (error.code, f"exceeded quota: q, requested: {hard}=" in error.message) == (403, True)


@pytest.mark.parametrize(
    ("spec", "body", "counted"),
    [
        pytest.param({"scopes": ["BestEffort"]}, pod("a"), True, id="best effort"),
        pytest.param({"scopes": ["BestEffort"]}, sized("a"), False, id="guaranteed"),
        pytest.param({"scopes": ["Terminating"]}, pod("a", activeDeadlineSeconds=5), True, id="terminating"),
        pytest.param({"scopes": ["Terminating"]}, pod("a"), False, id="not terminating"),
        pytest.param(
            {
                "scopeSelector": {
                    "matchExpressions": [{"scopeName": "PriorityClass", "operator": "In", "values": ["high"]}]
                }
            },
            pod("a"),
            False,
            id="other priority class",
        ),
    ],
)
def test_quota_with_scopes_counts_some_pods(cluster: Cluster, spec: Json, body: Json, counted: bool) -> None:
    cluster.create("resourcequotas", quota({"pods": "0"}, **spec))
    if counted:
        assert api_error(lambda: cluster.create("pods", body)).code == 403
    else:
        cluster.create("pods", body)
        assert used(cluster) == {"pods": "0"}


def test_init_containers_and_overhead_count(cluster: Cluster) -> None:
    def container(name: str, cpu: str, **more: Any) -> Json:
        return {"name": name, "image": "i", "resources": {"requests": {"cpu": cpu}}, **more}

    cluster.create("resourcequotas", quota({"requests.cpu": "10"}))
    body = pod(
        "a",
        containers=[container("c", "1")],
        initContainers=[container("s", "2", restartPolicy="Always"), container("i", "4")],
        overhead={"cpu": "250m"},
    )
    cluster.create("pods", body)
    assert used(cluster) == {"requests.cpu": "6250m"}


POD_LEVEL: Json = {"requests": {"cpu": "3"}, "limits": {"cpu": "4", "hugepages-2Mi": "6Mi"}}


def test_pod_level_resources_replace_those_of_the_containers(cluster: Cluster) -> None:
    hard = {"cpu": "9", "requests.cpu": "9", "requests.memory": "9Gi", "limits.cpu": "9"}
    cluster.create("resourcequotas", quota(hard))
    cluster.create("pods", sized("a", resources=POD_LEVEL))
    assert used(cluster) == {"cpu": "3", "requests.cpu": "3", "requests.memory": "1Gi", "limits.cpu": "4"}


def test_containers_need_not_specify_what_a_pod_with_resources_of_its_own_uses(cluster: Cluster) -> None:
    cluster.create("resourcequotas", quota({"limits.cpu": "4", "requests.cpu": "4"}))
    cluster.create("pods", pod("a", resources=POD_LEVEL))
    assert api_error(lambda: cluster.create("pods", pod("b", resources=POD_LEVEL))).message == (
        'pods "b" is forbidden: exceeded quota: q, requested: limits.cpu=4,requests.cpu=3, '
        "used: limits.cpu=4,requests.cpu=3, limited: limits.cpu=4,requests.cpu=4"
    )


def test_huge_pages_are_counted(cluster: Cluster) -> None:
    cluster.create("resourcequotas", quota({"hugepages-2Mi": "8Mi", "requests.hugepages-2Mi": "8Mi"}))
    pages = {"cpu": "1", "hugepages-2Mi": "6Mi"}
    container = {"name": "c", "image": "i", "resources": {"requests": pages, "limits": pages}}
    cluster.create("pods", pod("a", containers=[container]))
    assert used(cluster) == {"hugepages-2Mi": "6Mi", "requests.hugepages-2Mi": "6Mi"}
    assert api_error(lambda: cluster.create("pods", pod("b", containers=[container]))).code == 403


def test_quota_of_another_namespace_does_not_matter(cluster: Cluster) -> None:
    cluster.create("namespaces", {"metadata": {"name": "other"}})
    cluster.create("resourcequotas", quota({"pods": "0"}), "other")
    cluster.create("pods", pod("a"))
    assert api_error(lambda: cluster.create("pods", pod("a"), "other")).code == 403
