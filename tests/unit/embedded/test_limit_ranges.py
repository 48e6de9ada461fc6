"""LimitRanges set defaults and reject pods and claims outside of their limits."""

from __future__ import annotations

from typing import Any

import pytest

from .builders import Cluster, Json, api_error, pod


@pytest.fixture
def cluster() -> Cluster:
    return Cluster()


def limits(kind: str = "Container", **limit: Any) -> Json:
    return {"metadata": {"name": "l"}, "spec": {"limits": [{"type": kind, **limit}]}}


def sized(requests: Json | None = None, limit: Json | None = None) -> Json:
    resources = {"requests": requests or {}, "limits": limit or {}}
    return pod("a", containers=[{"name": "c", "image": "i", "resources": resources}])


def test_defaults_are_set_and_noted(cluster: Cluster) -> None:
    cluster.create("limitranges", limits(default={"cpu": "500m"}, defaultRequest={"cpu": "0.25", "memory": "64Mi"}))
    made = cluster.create("pods", pod("a"))
    assert made["spec"]["containers"][0]["resources"] == {
        "limits": {"cpu": "500m"},
        "requests": {"cpu": "250m", "memory": "64Mi"},
    }
    assert made["status"]["qosClass"] == "Burstable"
    assert made["metadata"]["annotations"] == {
        "kubernetes.io/limit-ranger": (
            "LimitRanger plugin set: cpu, memory request for container c; cpu limit for container c"
        )
    }


def test_defaults_of_init_containers_are_noted_as_such(cluster: Cluster) -> None:
    cluster.create("limitranges", limits(default={"cpu": "1"}, defaultRequest={"cpu": "1"}))
    containers = [{"name": "i", "image": "i", "resources": {"requests": {"cpu": "1"}}}]
    made = cluster.create("pods", pod("a", initContainers=containers))
    assert made["metadata"]["annotations"]["kubernetes.io/limit-ranger"] == (
        "LimitRanger plugin set: cpu request for container c; cpu limit for container c; cpu limit for init container i"
    )


def test_maximum_is_the_default_limit_and_request(cluster: Cluster) -> None:
    stored = cluster.create("limitranges", limits(max={"cpu": "2"}))["spec"]["limits"][0]
    assert (stored["default"], stored["defaultRequest"]) == ({"cpu": "2"}, {"cpu": "2"})


@pytest.mark.parametrize(
    ("limit", "body", "problem"),
    [
        pytest.param(
            limits(max={"cpu": "1"}),
            sized({"cpu": "2"}, {"cpu": "2"}),
            "maximum cpu usage per Container is 1, but limit is 2",
            id="above the maximum",
        ),
        pytest.param(
            limits(min={"memory": "1Gi"}),
            sized({"memory": "512Mi"}),
            "minimum memory usage per Container is 1Gi, but request is 512Mi",
            id="below the minimum",
        ),
        pytest.param(
            limits("Pod", min={"cpu": "1"}),
            sized(),
            "minimum cpu usage per Pod is 1.  No request is specified",
            id="nothing requested",
        ),
        pytest.param(
            limits("Pod", max={"cpu": "1"}),
            sized(),
            "maximum cpu usage per Pod is 1.  No limit is specified",
            id="not limited",
        ),
        pytest.param(
            limits(maxLimitRequestRatio={"cpu": "2"}),
            sized({"cpu": "1"}, {"cpu": "3"}),
            "cpu max limit to request ratio per Container is 2, but provided ratio is 3.000000",
            id="above the ratio",
        ),
        pytest.param(
            limits("Pod", max={"example.com/gpu": "4"}),
            sized(limit={"example.com/gpu": "8"}),
            "maximum example.com/gpu usage per Pod is 4, but limit is 8",
            id="above the maximum of an extended resource",
        ),
        pytest.param(
            limits("Pod", max={"memory": "1Gi"}),
            sized({"memory": "2Gi"}, {"memory": "1Gi"}),
            "maximum memory usage per Pod is 1Gi, but request is 2Gi",
            id="requests above the maximum",
        ),
        pytest.param(
            limits("Pod", max={"cpu": "1"}),
            {**sized(), "spec": {**sized()["spec"], "resources": {"limits": {"cpu": "2"}}}},
            "maximum cpu usage per Pod is 1, but limit is 2",
            id="pod-level limit above the maximum",
        ),
        pytest.param(
            limits("Pod", maxLimitRequestRatio={"cpu": "2"}),
            sized({"cpu": "1"}),
            "cpu max limit to request ratio per Pod is 2, but no limit is specified or limit is 0",
            id="ratio without a limit",
        ),
    ],
)
def test_pod_outside_of_the_limits_is_forbidden(cluster: Cluster, limit: Json, body: Json, problem: str) -> None:
    cluster.create("limitranges", limit)
    error = api_error(lambda: cluster.create("pods", body))
    assert (error.code, error.message) == (403, f'pods "a" is forbidden: {problem}')


def test_pod_within_the_limits_of_an_extended_resource_is_created(cluster: Cluster) -> None:
    cluster.create("limitranges", limits("Pod", max={"example.com/gpu": "4"}))
    cluster.create("pods", sized(limit={"example.com/gpu": "2"}))


def test_all_problems_are_listed(cluster: Cluster) -> None:
    cluster.create("limitranges", limits("Pod", min={"cpu": "1", "memory": "1"}))
    message = api_error(lambda: cluster.create("pods", sized())).message
    assert "[minimum cpu usage per Pod is 1.  No request is specified, minimum memory" in message


def test_claim_outside_of_the_limits_is_forbidden(cluster: Cluster) -> None:
    cluster.create("limitranges", limits("PersistentVolumeClaim", max={"storage": "1Gi"}))
    spec = {"accessModes": ["ReadWriteOnce"], "resources": {"requests": {"storage": "2Gi"}}}
    claim = {"metadata": {"name": "c"}, "spec": spec}
    error = api_error(lambda: cluster.create("persistentvolumeclaims", claim))
    assert "maximum storage usage per PersistentVolumeClaim is 1Gi, but request is 2Gi" in error.message
