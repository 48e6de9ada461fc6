"""Kubernetes' specs of extended resources that devices serve.

docs/specs.md maps specs to tests.
"""

from __future__ import annotations

from collections.abc import Mapping

import pytest

from tests.e2e.client import Json
from tests.e2e.devices import Driver
from tests.e2e.story import NAME, Story

pytestmark = pytest.mark.asyncio(loop_scope="session")

IMPLICIT = "deviceclass.resource.kubernetes.io/"
Requests = Mapping[str, str]
NOT_HELPFUL = "preemption: 0/1 nodes are available: 1 Preemption is not helpful for scheduling."


def resource(story: Story, name: str) -> str:
    """Return the name of a resource of the story."""
    return f"{story.namespace}.example.com/{name}"


async def devices(story: Story, *resources: str, count: int = 10) -> Driver:
    """Create a node with devices, and a class for each of these resources."""
    driver = Driver(story)
    await story.node("a")
    await driver.publish("a", *(f"gpu-{i}" for i in range(count)))
    for name in resources:
        await driver.device_class(f"for-{name}", extendedResourceName=resource(story, name))
    return driver


def container(name: str, requests: Requests, **fields: object) -> Json:
    """Return a container with requests and equal limits."""
    resources = {"requests": dict(requests), "limits": dict(requests)}
    return {"name": name, "image": "pause:1", "resources": resources, **fields}


async def run(story: Story, name: str, *containers: Json, initial: tuple[Json, ...] = ()) -> None:
    """Create a pod with these containers."""
    spec = {**story.spec(), "containers": list(containers)}
    await story.pod(name, {**spec, "initContainers": list(initial)} if initial else spec)


async def claimed(story: Story, driver: Driver, name: str) -> list[tuple[str, str]]:
    """Return (request, device) of the claim that was made for a pod, after checks of its form."""
    pod = await story.api.get(f"{story.pods}/{name}")
    claim = await story.api.get(f"{driver.claims}/{pod['status']['extendedResourceClaimStatus']['resourceClaimName']}")
    meta = claim["metadata"]
    assert meta["name"].startswith(f"{name}-extended-resources-")
    assert meta["annotations"] == {"resource.kubernetes.io/extended-resource-claim": "true"}
    [owner] = meta["ownerReferences"]
    assert (owner["kind"], owner["name"], owner["controller"]) == ("Pod", name, True)
    assert [each["name"] for each in claim["status"]["reservedFor"]] == [name]
    return [(each["request"], each["device"]) for each in claim["status"]["allocation"]["devices"]["results"]]


async def mappings(story: Story, name: str) -> list[tuple[str, str, str]]:
    """Return (container, resource, request) of each mapping in a pod's status."""
    status = (await story.api.get(f"{story.pods}/{name}"))["status"]["extendedResourceClaimStatus"]
    return [
        (each["containerName"], each["resourceName"].rpartition("/")[2], each["requestName"])
        for each in status["requestMappings"]
    ]


async def test_extended_resource_of_a_class_is_served_by_devices(story: Story) -> None:
    driver = await devices(story, "gpu")
    await run(story, "p", container("main", {resource(story, "gpu"): "2"}))
    assert await story.bound("p") == "a"
    assert await claimed(story, driver, "p") == [("container-0-request-0", f"gpu-{i}") for i in range(2)]
    assert await mappings(story, "p") == [("main", "gpu", "container-0-request-0")]


async def test_every_class_has_an_implicit_extended_resource(story: Story) -> None:
    driver = await devices(story)
    of = await driver.device_class()
    await run(story, "p", container("main", {f"{IMPLICIT}{of}": "1"}))
    assert await story.bound("p") == "a"
    assert await claimed(story, driver, "p") == [("container-0-request-0", "gpu-0")]


async def test_implicit_and_explicit_names_are_used_by_init_containers_and_sidecars(story: Story) -> None:
    driver = await devices(story, "gpu")
    names = (f"{IMPLICIT}{story.full_name('for-gpu')}", resource(story, "gpu"))
    one, two = dict.fromkeys(names, "1"), dict.fromkeys(names, "2")
    initial = (
        container("init", two),
        container("sidecar", one, restartPolicy="Always"),
        container("init-1", one),
    )
    await run(story, "p", container("main", one), initial=initial)
    assert await story.bound("p") == "a"
    requests = [f"container-{i}-request-{j}" for i in (1, 3) for j in (0, 1)]
    assert await claimed(story, driver, "p") == list(zip(requests, [f"gpu-{i}" for i in range(4)], strict=True))
    expected = [
        (name, of, request)
        for of, pair in ((story.full_name("for-gpu"), requests[::2]), ("gpu", requests[1::2]))
        for name, request in uses(pair)
    ]
    assert await mappings(story, "p") == expected


def uses(requests: list[str]) -> list[tuple[str, str]]:
    """Return which container uses which of a resource's two requests: the sidecar's and that of the main container.

    Init containers use devices of containers that start later.
    """
    sidecar, main = requests
    return [("sidecar", sidecar), ("main", main), ("init", sidecar), ("init", main), ("init-1", main)]


async def test_containers_with_a_resource_each(story: Story) -> None:
    driver = await devices(story, "r0", "r1", "r2")
    await run(story, "p", *(container(f"c{i}", {resource(story, f"r{i}"): "1"}) for i in range(3)))
    assert await story.bound("p") == "a"
    assert [request for request, _ in await claimed(story, driver, "p")] == [
        f"container-{i}-request-0" for i in range(3)
    ]
    assert await mappings(story, "p") == [(f"c{i}", f"r{i}", f"container-{i}-request-0") for i in range(3)]


async def test_containers_with_several_resources_each(story: Story) -> None:
    names = [f"r{i}" for i in range(6)]
    driver = await devices(story, *names)
    shares = (names[:1], names[1:3], names[3:])
    await run(
        story,
        "p",
        *(container(f"c{i}", {resource(story, name): "1" for name in share}) for i, share in enumerate(shares)),
    )
    assert await story.bound("p") == "a"
    expected = [(i, j) for i, share in enumerate(shares) for j in range(len(share))]
    assert [request for request, _ in await claimed(story, driver, "p")] == [
        f"container-{i}-request-{j}" for i, j in expected
    ]
    assert await mappings(story, "p") == [(f"c{i}", shares[i][j], f"container-{i}-request-{j}") for i, j in expected]


async def test_claim_for_extended_resources_ends_with_its_pod(story: Story) -> None:
    driver = await devices(story, "gpu")
    spec = {**story.spec(), "containers": [container("main", {resource(story, "gpu"): "1"})], "restartPolicy": "Never"}
    meta = {"name": "p", "annotations": {"pyscheduler.io/run-seconds": "1"}}
    await story.api.create(story.pods, {"apiVersion": "v1", "kind": "Pod", "metadata": meta, "spec": spec})
    await story.until(f"{story.pods}/p", lambda found: found["status"]["phase"] == "Succeeded")
    await story.until(driver.claims, lambda found: not found["items"])


async def test_extended_resource_is_not_overcommitted(story: Story) -> None:
    driver = await devices(story, "gpu", count=3)
    for name in ("p1", "p2"):
        await run(story, name, container("main", {resource(story, "gpu"): "3"}))
        if name == "p1":
            await story.bound(name)
    await story.unschedulable_with("p2", f"0/1 nodes are available: 1 cannot allocate all claims. {NOT_HELPFUL}")
    await story.delete_pod("p1")
    assert await story.bound("p2") == "a"
    assert len(await claimed(story, driver, "p2")) == 3


async def test_request_of_zero_needs_no_claim(story: Story) -> None:
    driver = await devices(story, "gpu")
    await run(story, "p", container("main", {resource(story, "gpu"): "0"}))
    assert await story.bound("p") == "a"
    assert "extendedResourceClaimStatus" not in (await story.api.get(f"{story.pods}/p"))["status"]
    assert (await story.api.get(driver.claims))["items"] == []


async def test_pod_is_retried_after_the_class_of_its_resource_is_created(story: Story) -> None:
    driver = await devices(story)
    name = resource(story, "late")
    await run(story, "p", container("main", {name: "1"}))
    await story.unschedulable_with("p", f"0/1 nodes are available: 1 Insufficient {name}. {NOT_HELPFUL}")
    await driver.device_class("late", extendedResourceName=name)
    assert await story.bound("p") == "a"
    assert await claimed(story, driver, "p") == [("container-0-request-0", "gpu-0")]


async def test_device_plugin_is_preferred_on_its_node(story: Story) -> None:
    driver = Driver(story)
    name = resource(story, "gpu")
    await story.node("a", extra={name: "2"})
    await driver.publish("a", "gpu-0", "gpu-1")
    await driver.device_class(extendedResourceName=name)
    await run(story, "p", container("main", {name: "1"}))
    assert await story.bound("p") == "a"
    assert "extendedResourceClaimStatus" not in (await story.api.get(f"{story.pods}/p"))["status"]
    assert (await story.api.get(driver.claims))["items"] == []


async def test_nodes_with_devices_and_nodes_with_a_device_plugin(story: Story) -> None:
    driver = Driver(story)
    name = resource(story, "gpu")
    await story.node("plugin", extra={name: "2"})
    await story.node("a")
    await driver.publish("a", "gpu-0", "gpu-1")
    await driver.device_class(extendedResourceName=name)
    for pod in ("p1", "p2"):
        await run(story, pod, container("main", {name: "2"}))
    nodes = {await story.bound(pod): pod for pod in ("p1", "p2")}
    assert set(nodes) == {"a", "plugin"}
    assert len(await claimed(story, driver, nodes["a"])) == 2
    found = await story.api.get(f"{story.pods}/{nodes['plugin']}")
    assert "extendedResourceClaimStatus" not in found["status"]


async def test_extended_resource_and_a_claim_of_one_pod(story: Story) -> None:
    driver = await devices(story, "gpu")
    of = await driver.device_class()
    await driver.claim("c", {"name": "r", "exactly": {"deviceClassName": of}})
    spec = story.spec()
    spec["containers"] = [container("main", {resource(story, "gpu"): "1"})]
    spec["containers"][0]["resources"]["claims"] = [{"name": "c"}]
    await story.pod("p", {**spec, "resourceClaims": [{"name": "c", "resourceClaimName": "c"}]})
    assert await story.bound("p") == "a"
    assert await driver.results("c") == [("r", "a", "gpu-0")]
    assert await claimed(story, driver, "p") == [("container-0-request-0", "gpu-1")]


async def test_daemon_pods_use_an_extended_resource(story: Story) -> None:
    driver = Driver(story)
    for name in ("a", "b"):
        await story.node(name)
        await driver.publish(name, "gpu")
    await driver.device_class(extendedResourceName=resource(story, "gpu"))
    labels = {"app": "daemon"}
    spec = {**story.spec(), "containers": [container("main", {resource(story, "gpu"): "1"})], "schedulerName": NAME}
    template = {"metadata": {"labels": labels}, "spec": spec}
    body = {"metadata": {"name": "daemon"}, "spec": {"selector": {"matchLabels": labels}, "template": template}}
    await story.api.create(story.at("apps/v1", "daemonsets"), body)
    assert await story.places(2, "app=daemon") == {"a": 1, "b": 1}
    claims = (await story.api.get(driver.claims))["items"]
    assert len({each["status"]["allocation"]["devices"]["results"][0]["pool"] for each in claims}) == 2
