"""Pods with devices on the embedded and the real API server: claims, templates, extended resources.

A fake driver publishes the slices of hollow nodes, as in Kubernetes' own tests of the control plane's part. Written
objects are validated by the API server.
"""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest

from tests.e2e.client import ApiClient, Json
from tests.e2e.plane import Plane
from tests.e2e.scheduler import ROOT, scheduler_with
from tests.e2e.workloads import POOL, hollow_nodes, pod, pod_spec, unscheduled

pytestmark = pytest.mark.asyncio(loop_scope="session")

CONFIG = ROOT / "config" / "second-scheduler.yaml"
GROUP = "/apis/resource.k8s.io/v1"


@asynccontextmanager
async def devices(api: ApiClient, namespace: str, *described: Json, **class_spec: Any) -> AsyncIterator[str]:
    """Publish these devices for each node of the namespace's pool; yield the name of the driver and of its class."""
    driver = f"{namespace}.example.com"
    selectors = [{"cel": {"expression": f'device.driver == "{driver}"'}}]
    await api.create(
        f"{GROUP}/deviceclasses", {"metadata": {"name": driver}, "spec": {"selectors": selectors, **class_spec}}
    )
    pool = await api.list("/api/v1/nodes", labelSelector=f"{POOL}={namespace}")
    names = [node["metadata"]["name"] for node in pool]
    for name in names:
        of_node = {"name": name, "generation": 1, "resourceSliceCount": 1}
        spec = {"driver": driver, "nodeName": name, "pool": of_node, "devices": list(described)}
        await api.create(f"{GROUP}/resourceslices", {"metadata": {"name": name}, "spec": spec})
    try:
        yield driver
    finally:
        for name in names:
            await api.delete(f"{GROUP}/resourceslices/{name}")
        await api.delete(f"{GROUP}/deviceclasses/{driver}")


def requests(driver: str, **request: Any) -> Json:
    return {"devices": {"requests": [{"name": "r", "exactly": {"deviceClassName": driver, **request}}]}}


def using(namespace: str, claim: Json, name: str) -> Json:
    spec = pod_spec("pyscheduler", namespace, resourceClaims=[{"name": "device", **claim}])
    spec["containers"][0]["resources"]["claims"] = [{"name": "device"}]
    return pod(name, spec)


def is_bound(found: Json) -> bool:
    return bool(found["spec"].get("nodeName"))


async def test_pods_get_the_devices_of_their_claims_until_none_is_left(
    control_plane: Plane, namespace: str, tmp_path: Path
) -> None:
    api = control_plane.api
    pods, claims = f"/api/v1/namespaces/{namespace}/pods", f"{GROUP}/namespaces/{namespace}/resourceclaims"
    memory = {"memory": {"value": "80Gi"}}
    models = [{"name": f"gpu-{i}", "attributes": {"index": {"int": i}}, "capacity": memory} for i in range(2)]
    async with (
        hollow_nodes(control_plane, namespace, 1),
        devices(api, namespace, *models) as driver,
        scheduler_with(control_plane, CONFIG, tmp_path),
    ):
        expression = f'device.capacity["{driver}"].memory.compareTo(quantity("40Gi")) >= 0'
        for i in range(3):
            spec = requests(driver, selectors=[{"cel": {"expression": expression}}])
            await api.create(claims, {"metadata": {"name": f"c{i}"}, "spec": spec})
            await api.create(pods, using(namespace, {"resourceClaimName": f"c{i}"}, f"p{i}"))
        found = await api.until(pods, lambda found: sum(map(is_bound, found["items"])) == 2)
        waiting = next(each["metadata"]["name"] for each in found["items"] if not is_bound(each))
        shown = await api.until(f"{pods}/{waiting}", unscheduled)
        assert "cannot allocate all claims" in unscheduled(shown)
        bound = [each["metadata"]["name"] for each in found["items"] if is_bound(each)]
        written = [await api.get(f"{claims}/c{name[1:]}") for name in bound]
        results = [each["status"]["allocation"]["devices"]["results"][0] for each in written]
        assert sorted(each["device"] for each in results) == ["gpu-0", "gpu-1"]
        assert [each["status"]["reservedFor"][0]["name"] for each in written] == bound
        # The claim that is deleted with its pod frees the device for the pod that waits.
        await api.delete(f"{pods}/{bound[0]}", gracePeriodSeconds=0)
        await api.delete(f"{claims}/c{bound[0][1:]}")
        await api.until(f"{pods}/{waiting}", is_bound)


async def test_extended_resource_is_served_by_devices(control_plane: Plane, namespace: str, tmp_path: Path) -> None:
    api = control_plane.api
    pods, claims = f"/api/v1/namespaces/{namespace}/pods", f"{GROUP}/namespaces/{namespace}/resourceclaims"
    resource = f"{namespace}.example.com/gpu"
    async with (
        hollow_nodes(control_plane, namespace, 2),
        devices(api, namespace, {"name": "a"}, {"name": "b"}, extendedResourceName=resource),
        scheduler_with(control_plane, CONFIG, tmp_path),
    ):
        spec = pod_spec("pyscheduler", namespace)
        spec["containers"][0]["resources"] = {"requests": {resource: "2"}, "limits": {resource: "2"}}
        await api.create(pods, pod("p", spec))
        found = await api.until(f"{pods}/p", lambda found: found["status"].get("phase") == "Running")
        (claim,) = (await api.get(claims))["items"]
        results = claim["status"]["allocation"]["devices"]["results"]
        assert [(each["pool"], each["device"]) for each in results] == [
            (found["spec"]["nodeName"], name) for name in ("a", "b")
        ]
        shown = found["status"]["extendedResourceClaimStatus"]
        assert shown["resourceClaimName"] == claim["metadata"]["name"]
        assert shown["requestMappings"] == [
            {"containerName": "main", "resourceName": resource, "requestName": "container-0-request-0"}
        ]


async def test_claims_are_created_from_a_template_and_end_with_their_pods(
    control_plane: Plane, namespace: str, tmp_path: Path
) -> None:
    api = control_plane.api
    pods, claims = f"/api/v1/namespaces/{namespace}/pods", f"{GROUP}/namespaces/{namespace}/resourceclaims"
    async with (
        hollow_nodes(control_plane, namespace, 2),
        devices(api, namespace, {"name": "a"}) as driver,
        scheduler_with(control_plane, CONFIG, tmp_path),
    ):
        template = {"metadata": {"name": "gpu"}, "spec": {"spec": requests(driver)}}
        await api.create(f"{GROUP}/namespaces/{namespace}/resourceclaimtemplates", template)
        for i in range(3):
            await api.create(pods, using(namespace, {"resourceClaimTemplateName": "gpu"}, f"p{i}"))
        found = await api.until(pods, lambda found: sum(map(is_bound, found["items"])) == 2)
        names = {each["metadata"]["name"]: is_bound(each) for each in found["items"]}
        assert len({each["spec"].get("nodeName") for each in found["items"]}) == 3
        ended, waiting = next(n for n, b in names.items() if b), next(n for n, b in names.items() if not b)
        await api.delete(f"{pods}/{ended}", gracePeriodSeconds=0)
        await api.until(f"{pods}/{waiting}", is_bound)
        await api.until(claims, lambda found: len(found["items"]) == 2)


async def test_device_is_released_when_a_shared_claim_has_no_users(
    control_plane: Plane, namespace: str, tmp_path: Path
) -> None:
    api = control_plane.api
    pods, claims = f"/api/v1/namespaces/{namespace}/pods", f"{GROUP}/namespaces/{namespace}/resourceclaims"
    async with (
        hollow_nodes(control_plane, namespace, 2),
        devices(api, namespace, {"name": "a"}) as driver,
        scheduler_with(control_plane, CONFIG, tmp_path),
    ):
        await api.create(claims, {"metadata": {"name": "shared"}, "spec": requests(driver)})
        for i in range(3):
            await api.create(pods, using(namespace, {"resourceClaimName": "shared"}, f"p{i}"))
        found = await api.until(pods, lambda found: all(map(is_bound, found["items"])))
        assert len({each["spec"]["nodeName"] for each in found["items"]}) == 1
        shared = await api.get(f"{claims}/shared")
        assert sorted(each["name"] for each in shared["status"]["reservedFor"]) == ["p0", "p1", "p2"]
