"""Builders of ResourceSlices, DeviceClasses, ResourceClaims and pods that use them."""

from __future__ import annotations

from typing import Any

from pyscheduler.testing import Harness

API = "resource.k8s.io/v1"
DRIVER = "gpu.example.com"
Json = dict[str, Any]


def resource_slice(node: str, *devices: str | Json, driver: str = DRIVER) -> Json:
    """Return the slice of a node's devices; a string is the name of one without attributes."""
    described = [{"name": each} if isinstance(each, str) else each for each in devices]
    pool = {"name": node, "generation": 1, "resourceSliceCount": 1}
    spec = {"driver": driver, "nodeName": node, "pool": pool, "devices": described}
    return {"apiVersion": API, "kind": "ResourceSlice", "metadata": {"name": f"{node}-{driver}"}, "spec": spec}


def device(name: str, model: str = "a100", **more: Any) -> Json:
    """Return a device with a model."""
    return {"name": name, "attributes": {"model": {"string": model}}, **more}


def device_class(name: str = "gpu", driver: str = DRIVER, **spec: Any) -> Json:
    """Return the class of all devices of a driver."""
    selectors = [{"cel": {"expression": f'device.driver == "{driver}"'}}]
    return {
        "apiVersion": API,
        "kind": "DeviceClass",
        "metadata": {"name": name},
        "spec": {"selectors": selectors, **spec},
    }


def exactly(class_name: str = "gpu", count: int = 1, model: str = "", **more: Any) -> Json:
    """Return a request for devices of a class, of one model only if it is given."""
    request = {"deviceClassName": class_name, "allocationMode": "ExactCount", "count": count, **more}
    if model:
        expression = f'device.attributes["{DRIVER}"].model == "{model}"'
        request["selectors"] = [{"cel": {"expression": expression}}]
    return request


def claim(name: str, request: Json | None = None, **meta: Any) -> Json:
    """Return a claim with one request."""
    requests = [{"name": "r", "exactly": request or exactly()}]
    if request is not None and "firstAvailable" in request:
        requests = [{"name": "r", **request}]
    return {
        "apiVersion": API,
        "kind": "ResourceClaim",
        "metadata": {"name": name, "namespace": "default", **meta},
        "spec": {"devices": {"requests": requests}},
    }


def user(name: str, claim_name: str, **spec: Any) -> Json:
    """Return a pod that uses a claim."""
    claims = [{"name": "device", "resourceClaimName": claim_name}]
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": name},
        "spec": {"containers": [{"name": "main"}], "resourceClaims": claims, **spec},
    }


def stored(harness: Harness, name: str) -> Json:
    """Return a claim as it is in the API server."""
    found = harness.object(harness.kinds["resourceclaims"], name, "default")
    assert found is not None, f"no claim {name}"
    return found


def devices_of(harness: Harness, name: str) -> list[str]:
    """Return the devices that a claim has got, as `pool/device`."""
    allocation = stored(harness, name).get("status", {}).get("allocation") or {}
    results = allocation.get("devices", {}).get("results", [])
    return [f"{result['pool']}/{result['device']}" for result in results]


def users_of(harness: Harness, name: str) -> list[str]:
    """Return the pods for which a claim is reserved."""
    return [each["name"] for each in stored(harness, name).get("status", {}).get("reservedFor") or []]


def message(harness: Harness, name: str) -> str:
    """Return the message of a pod's PodScheduled condition."""
    condition = harness.condition("Pod", f"default/{name}", "PodScheduled")
    return "" if condition is None else str(condition["message"])
