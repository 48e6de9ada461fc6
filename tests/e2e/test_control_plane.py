"""Smoke tests of the cluster itself: if one fails, the other end-to-end tests are meaningless."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from tests.controlplane.build import kubernetes_version
from tests.controlplane.cluster import ControlPlane
from tests.controlplane.nodes import NodeShape, create_nodes
from tests.e2e.client import ApiClient, ApiError, Json
from tests.e2e.plane import Plane

pytestmark = pytest.mark.asyncio(loop_scope="session")


def deployment(name: str, replicas: int, scheduler: str) -> Json:
    """Return a Deployment with pods for `scheduler`."""
    labels = {"app": name}
    container = {"name": "main", "image": "pause", "resources": {"requests": {"cpu": "10m"}}}
    pod = {"metadata": {"labels": labels}, "spec": {"schedulerName": scheduler, "containers": [container]}}
    return {
        "apiVersion": "apps/v1",
        "kind": "Deployment",
        "metadata": {"name": name},
        "spec": {"replicas": replicas, "selector": {"matchLabels": labels}, "template": pod},
    }


async def test_real_api_server_has_the_version_of_the_module(real_control_plane: ControlPlane) -> None:
    version = await real_control_plane.api.get("/version")

    assert version["gitVersion"] == kubernetes_version()
    assert (version["major"], version["minor"]) == ("1", "37")


async def test_namespace_gets_its_default_service_account(control_plane: Plane, namespace: str) -> None:
    path = f"/api/v1/namespaces/{namespace}/serviceaccounts/default"

    account = await control_plane.api.until(path, lambda found: True)

    assert account["metadata"]["namespace"] == namespace


async def test_pods_of_a_deployment_wait_for_their_scheduler(control_plane: Plane, namespace: str) -> None:
    api = control_plane.api
    await api.create(f"/apis/apps/v1/namespaces/{namespace}/deployments", deployment("web", 2, "no-scheduler"))

    pods = await api.until(f"/api/v1/namespaces/{namespace}/pods", lambda found: len(found["items"]) == 2)

    assert [pod["status"]["phase"] for pod in pods["items"]] == ["Pending", "Pending"]
    assert not any(pod["spec"].get("nodeName") for pod in pods["items"])


async def test_user_without_a_role_is_forbidden(real_control_plane: ControlPlane) -> None:
    async with ApiClient(real_control_plane.kubeconfig_for("mallory", ["visitors"])) as visitor:
        with pytest.raises(ApiError, match='User "mallory" cannot list resource "pods"') as refused:
            await visitor.list("/api/v1/pods")

    assert (refused.value.status, refused.value.reason) == (403, "Forbidden")


async def test_service_account_is_authenticated_by_its_token(real_control_plane: ControlPlane, namespace: str) -> None:
    await real_control_plane.api.until(f"/api/v1/namespaces/{namespace}/serviceaccounts/default", lambda found: True)
    kubeconfig = await real_control_plane.kubeconfig_for_service_account(namespace, "default")
    review = {"apiVersion": "authentication.k8s.io/v1", "kind": "SelfSubjectReview"}

    async with ApiClient(kubeconfig) as account:
        answer = await account.create("/apis/authentication.k8s.io/v1/selfsubjectreviews", review)

    assert answer["status"]["userInfo"]["username"] == f"system:serviceaccount:{namespace}:default"


async def test_kube_scheduler_binds_pods_to_ready_nodes(real_control_plane: ControlPlane, namespace: str) -> None:
    api = real_control_plane.api
    names = await create_nodes(api, 3, NodeShape(prefix=f"{namespace}-", zones=2))
    nodes = [await api.get(f"/api/v1/nodes/{name}") for name in names]
    assert [node["spec"].get("taints", []) for node in nodes] == [[], [], []]
    await api.create(f"/apis/apps/v1/namespaces/{namespace}/deployments", deployment("web", 3, "default-scheduler"))

    async with real_control_plane.kube_scheduler() as rival:
        pods = await api.until(f"/api/v1/namespaces/{namespace}/pods", all_bound(3))
        await rival.metrics_with('scheduler_schedule_attempts_total{profile="default-scheduler",result="scheduled"} 3')
        seconds = rival.cpu_seconds()

    assert {pod["spec"]["nodeName"] for pod in pods["items"]} == set(names)
    assert seconds > 0
    for name in names:
        await api.delete(f"/api/v1/nodes/{name}")


def all_bound(count: int) -> Callable[[Json], bool]:
    """Return a predicate: the list has `count` pods, all bound."""
    return lambda found: sum("nodeName" in pod["spec"] for pod in found["items"]) == count
