"""Kubernetes' sig-storage specs: pods run where their volumes are, or can be provisioned.

The hands of a provisioner are played here; claims and volumes are bound to each other by the real controllers.
docs/specs.md maps specs to tests.
"""

from __future__ import annotations

import pytest

from tests.e2e.client import Json
from tests.e2e.story import HOSTNAME, ZONE, Story, condition, on_nodes_with, pod_affinity, pod_anti_affinity
from tests.e2e.volumes import CLASSES, VOLUMES, selected_node
from tests.e2e.workloads import placed

pytestmark = pytest.mark.asyncio(loop_scope="session")

ONCE, BY_ONE_POD = "ReadWriteOnce", "ReadWriteOncePod"
NO_PROVISIONER = "kubernetes.io/no-provisioner"
LABELS = {"app": "web"}
DRIVERS, CSI_NODES = "/apis/storage.k8s.io/v1/csidrivers", "/apis/storage.k8s.io/v1/csinodes"


async def late(story: Story, provisioner: str = NO_PROVISIONER, **fields: object) -> str:
    """Create a StorageClass with WaitForFirstConsumer; return its full name."""
    mode = {"volumeBindingMode": "WaitForFirstConsumer"}
    return await story.create(CLASSES, "late", {"provisioner": provisioner, **mode, **fields})


def volume(story: Story, name: str, storage_class: str, node: str = "", size: str = "1Gi", mode: str = ONCE) -> Json:
    """Return a volume, local to a node if one is named."""
    spec: Json = {"accessModes": [mode], "capacity": {"storage": size}, "storageClassName": storage_class}
    if node:
        affinity = on_nodes_with({"key": HOSTNAME, "operator": "In", "values": [story.full_name(node)]})["nodeAffinity"]
        needs = {"required": affinity["requiredDuringSchedulingIgnoredDuringExecution"]}
        return {"spec": {**spec, "local": {"path": f"/mnt/{name}"}, "nodeAffinity": needs}}
    return {"spec": {**spec, "csi": {"driver": story.full_name("driver"), "volumeHandle": story.full_name(name)}}}


async def local(story: Story, name: str, storage_class: str, node: str, size: str = "1Gi") -> str:
    """Create a volume that is local to one node."""
    return await story.create(VOLUMES, name, volume(story, name, storage_class, node, size))


def wanting(storage_class: str, mode: str = ONCE) -> Json:
    """Return a claim's spec."""
    return {"accessModes": [mode], "resources": {"requests": {"storage": "1Gi"}}, "storageClassName": storage_class}


async def claim(story: Story, name: str, storage_class: str, mode: str = ONCE) -> str:
    """Create a claim and return its path."""
    claims = story.at("v1", "persistentvolumeclaims")
    await story.api.create(claims, {"metadata": {"name": name}, "spec": wanting(storage_class, mode)})
    return f"{claims}/{name}"


async def bound_claim(story: Story, name: str, mode: str = ONCE, node: str = "", **metadata: object) -> str:
    """Create a volume and a claim of an immediate class, bound to each other; return the claim's path."""
    made = volume(story, name, story.full_name("at-once"), node, mode=mode)
    whole = await story.create(VOLUMES, name, {"metadata": metadata, **made})
    await story.until(f"{VOLUMES}/{whole}", lambda found: found["status"].get("phase") == "Available")
    path = await claim(story, name, story.full_name("at-once"), mode)
    await story.until(path, lambda found: found["status"].get("phase") == "Bound")
    return path


def uses(*claims: str) -> list[Json]:
    """Return a pod's volumes."""
    return [{"name": name, "persistentVolumeClaim": {"claimName": name}} for name in claims]


async def provision(story: Story, name: str, wanted: Json) -> None:
    """Create a volume for a claim, as a provisioner does."""
    made = volume(story, name, wanted["spec"]["storageClassName"])
    made["spec"]["claimRef"] = {key: wanted["metadata"][key] for key in ("namespace", "name", "uid")}
    await story.create(VOLUMES, name, made)


# Existing volumes.


@pytest.mark.parametrize("by", ["node selector", "node affinity"])
async def test_pod_excluded_from_the_node_of_its_local_volume_waits(story: Story, by: str) -> None:
    for node in ("a", "b"):
        await story.node(node)
    await bound_claim(story, "data", node="a")
    elsewhere = on_nodes_with({"key": HOSTNAME, "operator": "In", "values": [story.full_name("b")]})
    sent: Json = {"on": "b"} if by == "node selector" else {"affinity": elsewhere}
    await story.pod("astray", story.spec(volumes=uses("data"), **sent))
    message = await story.unschedulable("astray")
    assert message.startswith("0/2 nodes are available: ")
    assert "didn't match Pod's node affinity/selector" in message
    await story.pod("home", story.spec(volumes=uses("data")))
    assert await story.bound("home") == "a"


async def test_waiting_claim_is_bound_to_a_volume_of_the_pods_node(story: Story) -> None:
    await story.node("small", cpu="1")
    await story.node("large", cpu="4")
    waiting = await late(story)
    for name, node, size in (("on-small", "small", "1Gi"), ("on-large", "large", "1Gi"), ("more", "large", "5Gi")):
        await local(story, name, waiting, node, size)
    data = await claim(story, "data", waiting)
    await story.pod("web", story.spec({"cpu": "2"}, volumes=uses("data")))
    assert await story.bound("web") == "large"
    bound = await story.until(data, lambda found: found["status"].get("phase") == "Bound")
    assert bound["spec"]["volumeName"] == story.full_name("on-large"), "the smallest that is large enough"
    for name in ("on-small", "more"):
        left = await story.api.get(f"{VOLUMES}/{story.full_name(name)}")
        assert "claimRef" not in left["spec"]


async def test_two_claims_of_one_pod_are_bound_on_one_node(story: Story) -> None:
    for node in ("a", "b"):
        await story.node(node)
    waiting = await late(story)
    for name, node in (("a-1", "a"), ("b-1", "b"), ("b-2", "b")):
        await local(story, name, waiting, node)
    for name in ("data", "log"):
        await claim(story, name, waiting)
    await story.pod("web", story.spec(volumes=uses("data", "log")))
    assert await story.bound("web") == "b"
    await claim(story, "more", waiting)
    await claim(story, "too-much", waiting)
    await story.pod("second", story.spec(volumes=uses("more", "too-much")))
    assert "2 node(s) didn't find available persistent volumes to bind" in await story.unschedulable("second")
    await local(story, "a-2", waiting, "a")
    assert await story.bound("second") == "a"


@pytest.mark.parametrize("term", ["anti-affinity", "affinity"])
async def test_stateful_set_uses_local_volumes(story: Story, term: str) -> None:
    waiting = await late(story)
    for node in ("a", "b", "c"):
        await story.node(node)
        for number in range(3):
            await local(story, f"{node}-{number}", waiting, node)
    spec = story.spec(affinity=pod_anti_affinity(LABELS) if term == "anti-affinity" else pod_affinity(LABELS))
    body = {
        "serviceName": "web",
        "replicas": 3,
        "podManagementPolicy": "Parallel",
        "selector": {"matchLabels": LABELS},
        "template": {"metadata": {"labels": LABELS}, "spec": spec},
        "volumeClaimTemplates": [{"metadata": {"name": "data"}, "spec": wanting(waiting)}],
    }
    await story.api.create(story.at("apps/v1", "statefulsets"), {"metadata": {"name": "web"}, "spec": body})
    places = await story.places(3)
    assert sorted(places.values()) == ([1, 1, 1] if term == "anti-affinity" else [3])


async def test_pods_with_a_shared_claim_run_on_the_node_of_its_volume(story: Story) -> None:
    for node in ("a", "b"):
        await story.node(node)
    waiting = await late(story)
    await local(story, "shared", waiting, "b")
    await claim(story, "shared", waiting)
    template = {"metadata": {"labels": LABELS}, "spec": story.spec(volumes=uses("shared"))}
    body = {"replicas": 4, "selector": {"matchLabels": LABELS}, "template": template}
    await story.api.create(story.at("apps/v1", "deployments"), {"metadata": {"name": "web"}, "spec": body})
    assert await story.places(4) == {"b": 4}


async def test_pod_runs_in_the_zone_of_its_volume(story: Story) -> None:
    zones = {node: story.full_name(f"zone-{node}") for node in ("a", "b")}
    for node, zone in zones.items():
        await story.node(node, labels={ZONE: zone})
    await bound_claim(story, "data", labels={ZONE: zones["b"]})
    await story.pod("web", story.spec(volumes=uses("data")))
    assert await story.bound("web") == "b"
    await story.pod("astray", story.spec(volumes=uses("data"), on="a"))
    assert "1 node(s) had no available volume zone" in await story.unschedulable("astray")


async def test_pod_waits_for_its_immediate_claim_to_be_bound(story: Story) -> None:
    await story.node("a")
    data = await claim(story, "data", story.full_name("at-once"))
    await story.pod("web", story.spec(volumes=uses("data")))
    await story.unschedulable("web", "pod has unbound immediate PersistentVolumeClaims")
    await provision(story, "data", await story.api.get(data))
    assert await story.bound("web") == "a"


async def test_pod_with_a_terminating_claim_waits(story: Story) -> None:
    await story.node("a")
    data = await bound_claim(story, "data")
    await story.pod("first", story.spec(volumes=uses("data")))
    assert await story.bound("first") == "a"
    await story.api.delete(data)
    await story.pod("second", story.spec(volumes=uses("data")))
    assert 'persistentvolumeclaim "data" is being deleted' in await story.unschedulable("second")


async def test_stateful_set_recreates_a_deleted_claim_while_its_pod_waits(story: Story) -> None:
    waiting = await late(story)
    body = {
        "serviceName": "web",
        "selector": {"matchLabels": LABELS},
        "template": {"metadata": {"labels": LABELS}, "spec": story.spec()},
        "volumeClaimTemplates": [{"metadata": {"name": "data"}, "spec": wanting(waiting)}],
    }
    await story.node("a")
    await story.api.create(story.at("apps/v1", "statefulsets"), {"metadata": {"name": "web"}, "spec": body})
    await story.unschedulable("web-0", "1 node(s) didn't find available persistent volumes to bind")
    claims = story.at("v1", "persistentvolumeclaims")
    lost = (await story.api.get(f"{claims}/data-web-0"))["metadata"]["uid"]

    def is_gone(found: Json) -> bool:
        return lost not in {item["metadata"]["uid"] for item in found["items"]}

    await story.api.delete(f"{claims}/data-web-0")
    await story.until(claims, is_gone)
    await story.api.patch(f"{story.pods}/web-0", {"metadata": {"annotations": {"look": "again"}}})
    await story.until(f"{claims}/data-web-0", lambda found: found["metadata"]["uid"] != lost)
    await local(story, "there", waiting, "a")
    assert await story.bound("web-0") == "a"


# Volumes to be provisioned.


async def test_claim_names_the_selected_node_for_its_provisioner(story: Story) -> None:
    await story.node("a", cpu="1")
    node = await story.node("b", cpu="4")
    data = await claim(story, "data", await late(story, story.full_name("driver")))
    await story.pod("web", story.spec({"cpu": "2"}, volumes=uses("data")))
    wanted = await story.until(data, selected_node)
    assert selected_node(wanted) == node
    assert "nodeName" not in (await story.api.get(f"{story.pods}/web"))["spec"], "not before there is a volume"
    await provision(story, "data", wanted)
    assert await story.bound("web") == "b"


async def test_allowed_topologies_of_a_class_restrict_nodes(story: Story) -> None:
    zones = {node: story.full_name(f"zone-{node}") for node in ("a", "b")}
    for node, zone in zones.items():
        await story.node(node, labels={ZONE: zone})
    only_b = [{"matchLabelExpressions": [{"key": ZONE, "values": [zones["b"]]}]}]
    waiting = await late(story, story.full_name("driver"), allowedTopologies=only_b)
    data = await claim(story, "data", waiting)
    await story.pod("astray", story.spec(volumes=uses("data"), on="a"))
    await story.unschedulable("astray", "1 node(s) didn't find available persistent volumes to bind")
    await story.pod("web", story.spec(volumes=uses("data")))
    wanted = await story.until(data, selected_node)
    assert selected_node(wanted) == story.full_name("b")
    await provision(story, "data", wanted)
    assert await story.bound("web") == "b"


async def driver(story: Story, **fields: object) -> str:
    """Create a CSIDriver and a StorageClass with WaitForFirstConsumer; return the class's name."""
    await story.create(DRIVERS, "driver", {"spec": {"attachRequired": True, **fields}})
    return await late(story, story.full_name("driver"))


async def room(story: Story, name: str, storage_class: str, amount: str, node: str) -> str:
    """Create the CSIStorageCapacity of a node; return the object's path."""
    topology = {"nodeTopology": {"matchLabels": {HOSTNAME: story.full_name(node)}}}
    path = story.at("storage.k8s.io/v1", "csistoragecapacities")
    body = {"metadata": {"name": name}, "storageClassName": storage_class, "capacity": amount, **topology}
    await story.api.create(path, body)
    return f"{path}/{name}"


async def test_pod_waits_for_storage_capacity(story: Story) -> None:
    for node in ("a", "b"):
        await story.node(node)
    waiting = await driver(story, storageCapacity=True)
    data = await claim(story, "data", waiting)
    await story.pod("web", story.spec(volumes=uses("data")))
    await story.unschedulable("web", "2 node(s) did not have enough free storage")
    little = await room(story, "little", waiting, "1Mi", "a")
    await room(story, "enough", waiting, "10Gi", "b")
    wanted = await story.until(data, selected_node)
    assert selected_node(wanted) == story.full_name("b")
    assert (await story.api.get(little))["capacity"] == "1Mi"
    await provision(story, "data", wanted)
    assert await story.bound("web") == "b"


@pytest.mark.parametrize("fields", [{"storageCapacity": False}, {}], ids=["disabled", "unused"])
async def test_capacity_of_a_driver_without_storage_capacity_is_ignored(story: Story, fields: Json) -> None:
    await story.node("a")
    data = await claim(story, "data", await driver(story, **fields))
    await story.pod("web", story.spec(volumes=uses("data")))
    wanted = await story.until(data, selected_node)
    await provision(story, "data", wanted)
    assert await story.bound("web") == "a"


async def test_pod_is_rescheduled_when_provisioning_finds_no_capacity(story: Story) -> None:
    for node in ("a", "b"):
        await story.node(node)
    waiting = await driver(story, storageCapacity=True)
    there = await room(story, "there", waiting, "10Gi", "a")
    data = await claim(story, "data", waiting)
    await story.pod("web", story.spec(volumes=uses("data")))
    assert selected_node(await story.until(data, selected_node)) == story.full_name("a")
    await story.api.delete(there)
    await room(story, "elsewhere", waiting, "10Gi", "b")
    await story.api.patch(data, {"metadata": {"annotations": {"volume.kubernetes.io/selected-node": None}}})
    wanted = await story.until(data, lambda found: selected_node(found) == story.full_name("b"))
    await provision(story, "data", wanted)
    assert await story.bound("web") == "b"


# Limits and access modes.


def csi_node(story: Story, node: str, count: int) -> Json:
    """Set the driver's volume limit of a node."""
    drivers = [{"name": story.full_name("driver"), "nodeID": node, "topologyKeys": [], "allocatable": {"count": count}}]
    return {"spec": {"drivers": drivers}}


async def limit(story: Story, node: str, count: int) -> None:
    """Create the CSINode's first limit."""
    await story.create(CSI_NODES, node, csi_node(story, node, count))


async def test_volumes_on_a_node_are_limited_by_its_driver(story: Story) -> None:
    await story.node("a")
    await limit(story, "a", 1)
    for name in ("first", "second"):
        await bound_claim(story, name)
    await story.pod("first", story.spec(volumes=uses("first")))
    assert await story.bound("first") == "a"
    await story.pod("sharing", story.spec(volumes=uses("first")))
    assert await story.bound("sharing") == "a", "the same volume is counted once"
    await story.pod("second", story.spec(volumes=uses("second")))
    assert "1 node(s) exceed max volume count" in await story.unschedulable("second")
    await story.delete_pod("first")
    await story.delete_pod("sharing")
    assert await story.bound("second") == "a"


async def test_pod_is_requeued_when_a_volume_limit_is_raised(story: Story) -> None:
    await story.node("a")
    await limit(story, "a", 1)
    for name in ("first", "second"):
        await bound_claim(story, name)
    await story.pod("first", story.spec(volumes=uses("first")))
    assert await story.bound("first") == "a"
    await story.pod("second", story.spec(volumes=uses("second")))
    assert "1 node(s) exceed max volume count" in await story.unschedulable("second")
    await story.api.patch(f"{CSI_NODES}/{story.full_name('a')}", csi_node(story, "a", 2))
    assert await story.places(2) == {"a": 2}


async def test_ephemeral_volumes_are_claimed_and_counted(story: Story) -> None:
    await story.node("a")
    await limit(story, "a", 1)
    waiting = await late(story, story.full_name("driver"))
    own = [{"name": "scratch", "ephemeral": {"volumeClaimTemplate": {"spec": wanting(waiting)}}}]
    made = await story.pod("first", story.spec(volumes=own))
    claims = story.at("v1", "persistentvolumeclaims")
    wanted = await story.until(f"{claims}/first-scratch", selected_node)
    assert wanted["metadata"]["ownerReferences"][0]["uid"] == made["metadata"]["uid"]
    await provision(story, "scratch", wanted)
    assert await story.bound("first") == "a"
    await story.pod("second", story.spec(volumes=own))
    await story.until(
        f"{story.pods}/second",
        lambda found: "1 node(s) exceed max volume count" in condition(found, "PodScheduled").get("message", ""),
    )


async def test_read_write_once_pod_claim_blocks_a_second_pod(story: Story) -> None:
    for node in ("a", "b"):
        await story.node(node)
    await bound_claim(story, "data", BY_ONE_POD)
    await story.pod("first", story.spec(volumes=uses("data")))
    await story.bound("first")
    await story.pod("second", story.spec(volumes=uses("data")))
    message = await story.unschedulable("second")
    taken = "PersistentVolumeClaim with ReadWriteOncePod access mode already in-use by another pod"
    assert f"2 node(s) unavailable due to {taken}" in message
    await story.delete_pod("first")
    await story.bound("second")


async def test_pod_of_higher_priority_preempts_for_a_read_write_once_pod_claim(story: Story) -> None:
    for node in ("a", "b"):
        await story.node(node)
    await bound_claim(story, "data", BY_ONE_POD)
    await story.pod("low", story.spec(volumes=uses("data"), priorityClassName=await story.priority("low", 1)))
    taken = await story.bound("low")
    await story.pod("high", story.spec(volumes=uses("data"), priorityClassName=await story.priority("high", 1000)))
    assert await story.bound("high") == taken
    found = await story.until(story.pods, lambda found: "low" not in placed(found))
    assert set(placed(found)) == {"high"}
