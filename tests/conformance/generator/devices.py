"""Devices of dynamic resource allocation: slices, classes, claims in all states, taint rules, extended resources.

What one node publishes and what one claim requests is drawn by the generator of tests/devices.
"""

from __future__ import annotations

import json
from typing import Any

from pyscheduler.intree.resource_claims.device_classes import CLASS_PREFIX
from tests.conformance.generator.generated_cluster import GeneratedCluster, Manifest, is_assigned, put
from tests.conformance.generator.resources import FPGA, GPU
from tests.devices import ours
from tests.devices.generator.base import Draw
from tests.devices.generator.claims import draw_claims, draw_classes
from tests.devices.generator.document import FEATURES, RARE
from tests.devices.generator.rules import draw_rules
from tests.devices.generator.slices import draw_slices
from tests.devices.generator.usage import draw_usage

API = "resource.k8s.io/v1"
_MOST_NODES = 5
"""Nodes of a case that publish devices."""
_MOST_STEPS = 20_000
_KINDS = ("ResourceSlice", "DeviceClass", "ResourceClaim")


def after(cluster: GeneratedCluster) -> None:
    """Add devices to the first nodes, and claims to some pods."""
    add_devices(cluster, _MOST_NODES)


def add_devices(cluster: GeneratedCluster, most_nodes: int) -> None:
    """Add devices to that many nodes at most, and claims to some pods."""
    share = cluster.one(0.1, 0.25, 0.5)
    features = {name for name in FEATURES if cluster.chance(share * (0.3 if name in RARE else 1))}
    draw = Draw(cluster.rng, features)
    for feature in features:
        cluster.mark(f"devices:{feature}")
    _classes(cluster, draw)
    devices = [
        each for node in cluster.nodes[:most_nodes] if cluster.chance(0.85) for each in _slices(cluster, draw, node)
    ]
    for rule in draw_rules(draw):
        selector = rule["spec"].get("deviceSelector", {})
        if "pool" in selector and cluster.nodes:
            selector["pool"] = f"{cluster.one(*cluster.nodes)['metadata']['name']}-{selector['pool']}"
        cluster.add(API, "DeviceTaintRule", cluster.metadata(rule["metadata"]["name"]), spec=rule["spec"])
    shared = [_claim(cluster, draw, f"shared-{number}", "default") for number in range(cluster.one(0, 0, 1, 2))]
    for pod in cluster.pending:
        if cluster.chance(0.8):
            _request(cluster, draw, pod, shared, devices)
            if _takes_too_long(cluster, pod, most_nodes):
                del pod["spec"]["resourceClaims"]


def _takes_too_long(cluster: GeneratedCluster, pod: Manifest, most_nodes: int) -> bool:
    """Return True if kube-scheduler, which tries all combinations, would not decide about the claims in a second."""
    names = {each.get("resourceClaimName") for each in pod["spec"]["resourceClaims"]}
    names |= {each.get("resourceClaimName") for each in pod["status"].get("resourceClaimStatuses", ())}
    kinds = {kind: [each for each in cluster.others if each["kind"] == kind] for kind in _KINDS}
    claims = [each for each in kinds["ResourceClaim"] if each["metadata"]["name"] in names and not each["status"]]
    if not claims:
        return False
    document = {"slices": kinds["ResourceSlice"], "classes": kinds["DeviceClass"], "rules": [], "claims": claims}
    for node in cluster.nodes[: most_nodes + 1]:
        attempt = {**document, "node": node, "allocated": _allocated(kinds["ResourceClaim"])}
        if ours.allocate(attempt, prunes=False, steps=_MOST_STEPS).get("timedOut"):
            return True
    return False


def _allocated(claims: list[Manifest]) -> Manifest:
    """Return the devices in use in the form of tests/devices."""
    found: Manifest = {"devices": [], "shared": [], "capacity": []}
    for claim in claims:
        for result in claim["status"].get("allocation", {}).get("devices", {}).get("results", ()):
            device = [result["driver"], result["pool"], result["device"]]
            if "shareID" not in result:
                found["devices"].append(device)
                continue
            found["shared"].append([*device, result["shareID"]])
            found["capacity"].append({"device": device, "consumed": result.get("consumedCapacity", {})})
    return found


def _classes(cluster: GeneratedCluster, draw: Draw) -> None:
    for made in draw_classes(draw):
        name = made["metadata"]["name"]
        if cluster.chance(0.03):
            cluster.mark("devices:class-missing")
            continue
        if name in ("gpu", "any") and cluster.chance(0.4):
            made["spec"]["extendedResourceName"] = cluster.one(GPU, GPU, FPGA)
            cluster.mark("devices:extended")
        cluster.add(API, "DeviceClass", cluster.metadata(name), spec=made["spec"])


def _slices(cluster: GeneratedCluster, draw: Draw, node: Manifest) -> list[Manifest]:
    """Add the slices of a node, and claims that use its devices. Return the others, as results have them."""
    name = node["metadata"]["name"]
    other = cluster.one(*cluster.nodes)["metadata"]["name"]
    drawn = draw_slices(draw)
    usage = draw_usage(draw, drawn)
    used = {tuple(each[:3]) for each in (*usage["devices"], *usage["shared"])}
    devices = []
    for made in drawn:
        text = json.dumps(made["spec"]).replace('"node-1"', json.dumps(name)).replace('"node-2"', json.dumps(other))
        spec = json.loads(text.replace('"pool-', f'"{name}-pool-'))
        cluster.add(API, "ResourceSlice", cluster.metadata(f"{name}-{made['metadata']['name']}"), spec=spec)
        ids = {"driver": spec["driver"], "pool": spec["pool"]["name"]}
        pool = made["spec"]["pool"]["name"]
        free = (each["name"] for each in spec.get("devices", ()) if (spec["driver"], pool, each["name"]) not in used)
        devices += [{**ids, "device": device, "node": name} for device in free]
    _use(cluster, name, usage)
    return devices


def _use(cluster: GeneratedCluster, node: str, usage: dict[str, Any]) -> None:
    consumed = {tuple(each["device"]): each["consumed"] for each in usage["capacity"]}
    for number, (driver, pool, device, *share) in enumerate([*usage["devices"], *usage["shared"]]):
        result: Manifest = {"request": "r", "driver": driver, "pool": f"{node}-{pool}", "device": device}
        if share:
            result["shareID"] = f"00000000-0000-4000-8000-{cluster.serial():012d}"
            if (amounts := consumed.get((driver, pool, device))) is not None:
                result["consumedCapacity"] = amounts
        meta = cluster.metadata(f"used-{node}-{number}", "default")
        spec = {"devices": {"requests": [{"name": "r", "exactly": _exactly()}]}}
        status = {"allocation": {"devices": {"results": [result]}}, "reservedFor": [_consumer(cluster, "somebody")]}
        cluster.add(API, "ResourceClaim", meta, spec=spec, status=status)


def _exactly() -> Manifest:
    return {"deviceClassName": "any", "allocationMode": "ExactCount", "count": 1}


def _consumer(cluster: GeneratedCluster, name: str) -> Manifest:
    return {"resource": "pods", "name": name, "uid": f"uid-of-{name}-{cluster.serial()}"}


def _claim(cluster: GeneratedCluster, draw: Draw, name: str, namespace: str) -> Manifest:
    drawn = draw_claims(draw)[0]
    return cluster.add(API, "ResourceClaim", cluster.metadata(name, namespace), spec=drawn["spec"], status={})


def _request(
    cluster: GeneratedCluster, draw: Draw, pod: Manifest, shared: list[Manifest], devices: list[Manifest]
) -> None:
    """Let the pod use one or two claims: of its own, from a template, or shared."""
    entries: list[Manifest] = []
    statuses: list[Manifest] = []
    for number in range(cluster.one(1, 1, 1, 2)):
        entry: Manifest = {"name": f"devices-{number}"}
        kind = cluster.one("named", "template", "template", "shared")
        if kind == "shared" and shared and pod["metadata"]["namespace"] == "default":
            claim = shared.pop() if number else shared[-1]  # a pod names a claim only once
            entry["resourceClaimName"] = claim["metadata"]["name"]
        else:
            claim = _claim(cluster, draw, f"claim-{cluster.serial()}", pod["metadata"]["namespace"])
            (_use_template if kind == "template" else _use_by_name)(cluster, pod, claim, entry, statuses)
        if entry.get("resourceClaimName") in [each.get("resourceClaimName", "") for each in entries]:
            continue
        cluster.mark(f"devices:{kind}")
        entries.append(entry)
        _change_state(cluster, claim, pod, devices)
    pod["spec"]["resourceClaims"] = entries
    if statuses:
        pod["status"]["resourceClaimStatuses"] = statuses


def _use_by_name(
    cluster: GeneratedCluster, _pod: Manifest, claim: Manifest, entry: Manifest, _statuses: list[Manifest]
) -> None:
    entry["resourceClaimName"] = claim["metadata"]["name"] if cluster.chance(0.97) else "missing"


def _use_template(
    cluster: GeneratedCluster, pod: Manifest, claim: Manifest, entry: Manifest, statuses: list[Manifest]
) -> None:
    entry["resourceClaimTemplateName"] = "template"
    _own(claim, pod, is_owner=cluster.chance(0.97))
    if cluster.chance(0.96):
        # Without a name, no claim is needed.
        named = {"resourceClaimName": claim["metadata"]["name"]} if cluster.chance(0.97) else {}
        statuses.append({"name": entry["name"], **named})


def _own(claim: Manifest, pod: Manifest, *, is_owner: bool) -> None:
    owner = {"apiVersion": "v1", "kind": "Pod", "name": pod["metadata"]["name"], "controller": True}
    owner["uid"] = pod["metadata"]["uid"] if is_owner else "another"
    claim["metadata"]["ownerReferences"] = [owner]


def _change_state(cluster: GeneratedCluster, claim: Manifest, pod: Manifest, devices: list[Manifest]) -> None:
    """Allocate some claims, reserve some, and delete a few. Each device is taken once, from `devices`."""
    if claim["status"]:
        return
    if cluster.chance(0.02):
        claim["metadata"]["deletionTimestamp"] = claim["metadata"]["creationTimestamp"]
        claim["metadata"]["finalizers"] = ["resource.kubernetes.io/delete-protection"]
        cluster.mark("devices:deleted")
    if not devices or not cluster.chance(0.25):
        return
    cluster.mark("devices:allocated")
    device = devices.pop(cluster.number(0, len(devices) - 1))
    result = {"request": claim["spec"]["devices"]["requests"][0]["name"], **device}
    node = result.pop("node")
    allocation: Manifest = {"devices": {"results": [result]}}
    if cluster.chance(0.7):
        field = {"key": "metadata.name", "operator": "In", "values": [node]}
        label = {"key": "disk", "operator": cluster.one("Exists", "DoesNotExist")}
        term = {"matchFields": [field]} if cluster.chance(0.7) else {"matchExpressions": [label]}
        allocation["nodeSelector"] = {"nodeSelectorTerms": [term]}
    claim["status"] = {"allocation": allocation}
    users = cluster.one([], [_consumer(cluster, "other")], [_user(pod)], [_user(pod), _consumer(cluster, "other")])
    if users:
        claim["status"]["reservedFor"] = users


def _user(pod: Manifest) -> Manifest:
    return {"resource": "pods", "name": pod["metadata"]["name"], "uid": pod["metadata"]["uid"]}


def extended_in_pod(cluster: GeneratedCluster, pod: Manifest) -> None:
    """Request an extended resource that a DeviceClass may provide, by its name or by that of the class."""
    if is_assigned(pod) or cluster.chance(0.7):
        return
    resource = cluster.one(
        GPU, FPGA, "deviceclass.resource.kubernetes.io/gpu", "deviceclass.resource.kubernetes.io/nic"
    )
    for container in cluster.some([*pod["spec"].get("initContainers", ()), *pod["spec"]["containers"]], 1):
        amount = cluster.one("1", "1", "2")
        for side in ("requests", "limits"):
            put(container, f"resources.{side}", {**container.get("resources", {}).get(side, {}), resource: amount})
    cluster.mark("devices:resource-of-class" if CLASS_PREFIX in resource else "devices:resource")
