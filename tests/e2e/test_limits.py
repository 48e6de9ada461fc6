"""ResourceQuotas, LimitRanges and addresses of Services: the same decisions and messages on both API servers."""

from __future__ import annotations

from typing import Any

import pytest

from tests.e2e.client import ApiError, Json
from tests.e2e.kubectl import kubectl
from tests.e2e.plane import Plane

pytestmark = pytest.mark.asyncio(loop_scope="session")


def pod(name: str, requests: Json | None = None, limits: Json | None = None, **spec: Any) -> Json:
    resources = {"requests": requests or {}, "limits": limits or {}}
    container = {"name": "main", "image": "i", "resources": resources}
    return {"metadata": {"name": name}, "spec": {"schedulerName": "nobody", "containers": [container], **spec}}


async def rejection(plane: Plane, path: str, body: Json) -> str:
    with pytest.raises(ApiError) as rejected:
        await plane.api.create(path, body)
    return str(rejected.value)


async def with_quota(plane: Plane, namespace: str, hard: Json, **spec: Any) -> str:
    """Create a quota, wait until it is enforced, and return the path of the namespace."""
    root = f"/api/v1/namespaces/{namespace}"
    await plane.api.create(f"{root}/resourcequotas", {"metadata": {"name": "q"}, "spec": {"hard": hard, **spec}})
    await plane.api.until(f"{root}/resourcequotas/q", lambda found: bool(found.get("status", {}).get("used")))
    return root


async def test_pods_beyond_the_quota_are_rejected(control_plane: Plane, namespace: str) -> None:
    hard = {"pods": "2", "requests.cpu": "1500m", "requests.memory": "1Gi"}
    root = await with_quota(control_plane, namespace, hard)
    size = {"cpu": "1", "memory": "256Mi"}
    await control_plane.api.create(f"{root}/pods", pod("a", size))
    exceeded = await rejection(control_plane, f"{root}/pods", pod("b", size))
    assert (
        'pods "b" is forbidden: exceeded quota: q, requested: requests.cpu=1, used: requests.cpu=1, '
        "limited: requests.cpu=1500m" in exceeded
    )
    missing = await rejection(control_plane, f"{root}/pods", pod("c"))
    assert "failed quota: q: must specify requests.cpu for: main; requests.memory for: main" in missing
    used = {"pods": "1", "requests.cpu": "1", "requests.memory": "256Mi"}
    await control_plane.api.until(f"{root}/resourcequotas/q", lambda found: found["status"]["used"] == used)
    await control_plane.api.delete(f"{root}/pods/a", {"gracePeriodSeconds": 0})
    none = {"pods": "0", "requests.cpu": "0", "requests.memory": "0"}
    await control_plane.api.until(f"{root}/resourcequotas/q", lambda found: found["status"]["used"] == none)


async def test_objects_are_counted(control_plane: Plane, namespace: str) -> None:
    root = await with_quota(control_plane, namespace, {"count/secrets": "1", "services.nodeports": "1"})
    await control_plane.api.create(f"{root}/secrets", {"metadata": {"name": "a"}})
    exceeded = await rejection(control_plane, f"{root}/secrets", {"metadata": {"name": "b"}})
    assert (
        'secrets "b" is forbidden: exceeded quota: q, requested: count/secrets=1, used: count/secrets=1, '
        "limited: count/secrets=1" in exceeded
    )
    ports = [{"name": name, "port": number} for number, name in enumerate("xy", 1)]
    service = {"metadata": {"name": "s"}, "spec": {"type": "NodePort", "ports": ports}}
    exceeded = await rejection(control_plane, f"{root}/services", service)
    assert "requested: services.nodeports=2, used: services.nodeports=0, limited: services.nodeports=1" in exceeded


async def test_quota_with_a_scope_counts_pods_of_that_scope(control_plane: Plane, namespace: str) -> None:
    root = await with_quota(control_plane, namespace, {"pods": "0"}, scopes=["BestEffort"])
    await control_plane.api.create(f"{root}/pods", pod("a", {"cpu": "1"}))
    assert "exceeded quota: q, requested: pods=1" in await rejection(control_plane, f"{root}/pods", pod("b"))


async def test_limit_range_sets_defaults_and_rejects_pods(control_plane: Plane, namespace: str) -> None:
    root = f"/api/v1/namespaces/{namespace}"
    limit = {
        "type": "Container",
        "max": {"cpu": "2"},
        "min": {"cpu": "100m"},
        "default": {"cpu": "1"},
        "defaultRequest": {"cpu": "500m", "memory": "64Mi"},
        "maxLimitRequestRatio": {"cpu": "4"},
    }
    await control_plane.api.create(f"{root}/limitranges", {"metadata": {"name": "l"}, "spec": {"limits": [limit]}})
    made = await control_plane.api.create(f"{root}/pods", pod("a"))
    assert made["spec"]["containers"][0]["resources"] == {
        "limits": {"cpu": "1"},
        "requests": {"cpu": "500m", "memory": "64Mi"},
    }
    assert made["metadata"]["annotations"]["kubernetes.io/limit-ranger"] == (
        "LimitRanger plugin set: cpu, memory request for container main; cpu limit for container main"
    )
    above = await rejection(control_plane, f"{root}/pods", pod("b", {"cpu": "1"}, {"cpu": "3"}))
    assert 'pods "b" is forbidden: maximum cpu usage per Container is 2, but limit is 3' in above
    below = await rejection(control_plane, f"{root}/pods", pod("c", {"cpu": "50m"}, {"cpu": "100m"}))
    assert "minimum cpu usage per Container is 100m, but request is 50m" in below
    ratio = await rejection(control_plane, f"{root}/pods", pod("d", {"cpu": "250m"}, {"cpu": "2"}))
    assert "cpu max limit to request ratio per Container is 4, but provided ratio is 8.000000" in ratio


@pytest.mark.parametrize(
    ("spec", "message"),
    [
        ({"ports": []}, "spec.ports: Required value"),
        ({"ports": [{"port": 1}, {"port": 2, "name": "b"}]}, "spec.ports[0].name: Required value"),
        ({"ports": [{"port": 1}], "clusterIP": "10.96.0.1"}, "provided IP is already allocated"),
        ({"ports": [{"port": 1, "nodePort": 80}], "type": "NodePort"}, "provided port is not in the valid range"),
    ],
)
async def test_invalid_services_are_rejected(control_plane: Plane, namespace: str, spec: Json, message: str) -> None:
    body = {"metadata": {"name": "s"}, "spec": spec}
    assert message in await rejection(control_plane, f"/api/v1/namespaces/{namespace}/services", body)


async def test_service_keeps_its_address_and_ports_over_changes(control_plane: Plane, namespace: str) -> None:
    services = f"/api/v1/namespaces/{namespace}/services"
    body = {"metadata": {"name": "s"}, "spec": {"type": "NodePort", "ports": [{"port": 80, "name": "a"}]}}
    before = (await control_plane.api.create(services, body))["spec"]
    ports = [{"port": 8080, "name": "a"}, {"port": 81, "name": "b"}]
    after = (await control_plane.api.patch(f"{services}/s", {"spec": {"ports": ports}}))["spec"]
    assert after["clusterIP"] == before["clusterIP"]
    assert after["ports"][0]["nodePort"] == before["ports"][0]["nodePort"]
    assert 30000 <= after["ports"][1]["nodePort"] < 32768
    plain = (await control_plane.api.patch(f"{services}/s", {"spec": {"type": "ClusterIP"}}))["spec"]
    assert ["nodePort" in port for port in plain["ports"]] == [False, False]
    moved = {"spec": {"clusterIP": "10.96.99.99", "clusterIPs": ["10.96.99.99"]}}
    with pytest.raises(ApiError, match="may not change once set"):
        await control_plane.api.patch(f"{services}/s", moved)


@pytest.mark.parametrize(
    ("kind", "columns"),
    [
        ("ingress", "NAME CLASS HOSTS ADDRESS PORTS AGE"),
        ("hpa", "NAME REFERENCE TARGETS MINPODS MAXPODS REPLICAS AGE"),
        ("netpol", "NAME POD-SELECTOR AGE"),
        ("quota", "NAME REQUEST LIMIT AGE"),
        ("service", "NAME TYPE CLUSTER-IP EXTERNAL-IP PORT(S) AGE SELECTOR"),
        ("rolebinding", "NAME ROLE AGE USERS GROUPS SERVICEACCOUNTS"),
    ],
)
async def test_kubectl_prints_the_usual_columns(control_plane: Plane, namespace: str, kind: str, columns: str) -> None:
    words = ("-n", namespace)
    await kubectl(control_plane, *words, "create", "ingress", "x", "--rule=a.example.com/=s:80")
    await kubectl(control_plane, *words, "create", "quota", "x", "--hard=pods=3")
    await kubectl(control_plane, *words, "create", "deployment", "x", "--image=i", "--replicas=0")
    await kubectl(control_plane, *words, "autoscale", "deployment", "x", "--max=3")
    await kubectl(control_plane, *words, "create", "service", "clusterip", "x", "--tcp=80")
    await kubectl(control_plane, *words, "create", "rolebinding", "x", "--clusterrole=view", "--user=u")
    policy = {"metadata": {"name": "x"}, "spec": {"podSelector": {}}}
    await control_plane.api.create(f"/apis/networking.k8s.io/v1/namespaces/{namespace}/networkpolicies", policy)
    header, *_ = (await kubectl(control_plane, *words, "get", kind, "-o", "wide")).splitlines()
    assert header.split() == columns.split()
