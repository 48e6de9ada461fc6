"""Pods that need devices (dynamic resource allocation): by claims from a template, or by an extended resource."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from functools import partial
from itertools import count

import msgspec

from bench.decide.cluster import Actions, Cluster
from bench.decide.objects import pod
from bench.decide.scenario import Row
from bench.pod_features import Json
from pyscheduler.api.objects import PodObject
from pyscheduler.core.commands import Command
from pyscheduler.intree import DynamicResources
from pyscheduler.intree.resource_claims.claim_cache import ClaimCache

DRIVER, RESOURCE = "gpu.example.com", "example.com/gpu"
PER_NODE = 8
"""Devices of each node, of two models in turn."""
Created = tuple[PodObject, Json | None]
"""A pod and its claim."""


def devices(cluster: Cluster) -> Iterator[Row]:
    """Yield a row for each way to request one device of eight, then one for a cluster with half of them in use."""
    cluster.populate(cluster.size.per_node)
    expression = f'device.driver == "{DRIVER}"'
    for name, resource in (("gpu", None), ("node-gpu", RESOURCE)):
        spec: Json = {"selectors": [{"cel": {"expression": expression}}]}
        spec |= {"extendedResourceName": resource} if resource else {}
        cluster.apply("DeviceClass", {"metadata": {"name": name, "resourceVersion": "1"}, "spec": spec})
    for i in range(cluster.size.nodes):
        cluster.apply("ResourceSlice", _slice(f"node-{i}"))
    numbers = count()
    most = max(1, min(cluster.size.pods, cluster.size.nodes * PER_NODE // (32 * cluster.size.rounds)))
    finish = partial(_write_allocations, cluster)
    selected = {"selectors": [{"cel": {"expression": f'device.attributes["{DRIVER}"].model == "b"'}}]}
    for name, create in (
        ("claims", partial(_with_claim, {})),
        ("claims with a selector", partial(_with_claim, selected)),
        ("extended resource", _with_resource),
    ):
        yield Row(name, partial(_prepare, cluster, create, numbers), finish, 2, most)
    for i in range(cluster.size.nodes * PER_NODE // 2):
        node, device = f"node-{i % cluster.size.nodes}", PER_NODE - 1 - i // cluster.size.nodes
        cluster.apply("ResourceClaim", _claim(f"other-{i}", {}, _allocation(node, f"device-{device}")))
    yield Row("half in use", partial(_prepare, cluster, partial(_with_claim, {}), numbers), finish, 2, most)


def _slice(node: str) -> Json:
    described = [
        {"name": f"device-{i}", "attributes": {"model": {"string": "ab"[i % 2]}, "index": {"int": i}}}
        for i in range(PER_NODE)
    ]
    pool = {"name": node, "generation": 1, "resourceSliceCount": 1}
    spec = {"driver": DRIVER, "nodeName": node, "pool": pool, "devices": described}
    return {"metadata": {"name": f"slice-{node}", "resourceVersion": "1"}, "spec": spec}


def _claim(name: str, request: Json, allocation: Json | None = None, owner: str = "") -> Json:
    exactly = {"deviceClassName": "gpu", "allocationMode": "ExactCount", "count": 1, **request}
    meta: Json = {"name": name, "namespace": "default", "uid": name, "resourceVersion": "2" if allocation else "1"}
    if owner:
        reference = {"apiVersion": "v1", "kind": "Pod", "name": owner, "uid": owner, "controller": True}
        meta["ownerReferences"] = [reference]
    status = {"allocation": allocation, "reservedFor": [{"resource": "pods", "name": name, "uid": name}]}
    spec = {"devices": {"requests": [{"name": "device", "exactly": exactly}]}}
    return {"metadata": meta, "spec": spec, "status": status if allocation else {}}


def _allocation(node: str, device: str) -> Json:
    return {"devices": {"results": [{"request": "device", "driver": DRIVER, "pool": node, "device": device}]}}


def _with_claim(request: Json, cluster: Cluster, number: int) -> Created:
    name = f"claim-{number}"
    source = pod({"resourceClaims": [{"name": "device", "resourceClaimTemplateName": "device"}]}, 0, {"app": "web"})
    source["status"] = {"resourceClaimStatuses": [{"name": "device", "resourceClaimName": name}]}
    consumer = cluster.new(source)
    return consumer, _claim(name, request, owner=consumer.metadata.uid)


def _with_resource(cluster: Cluster, _: int) -> Created:
    source = pod({}, 0, {"app": "web"})
    [container] = source["spec"]["containers"]
    container["resources"]["requests"][RESOURCE] = "1"
    container["resources"]["limits"] = {RESOURCE: "1"}
    return cluster.new(source), None


def _prepare(cluster: Cluster, create: Callable[[Cluster, int], Created], numbers: Iterator[int], n: int) -> Actions:
    return [partial(_create_and_schedule, cluster, *create(cluster, next(numbers))) for _ in range(n)]


def _create_and_schedule(cluster: Cluster, consumer: PodObject, claim: Json | None) -> list[Command]:
    created = cluster.apply("ResourceClaim", claim) if claim is not None else []
    return created + cluster.submit(consumer) + cluster.schedule()


def _write_allocations(cluster: Cluster, commands: Sequence[Command]) -> int:
    """Store the allocations that are in flight as PreBind does, then confirm the bindings of the pods."""
    cache = _claims(cluster)
    for uid in list(cache._in_flight):
        allocation = msgspec.to_builtins(cache.in_flight(uid))
        cluster.apply("ResourceClaim", _claim(uid, {}, allocation))
        cache.remove_in_flight(uid, is_written=True)
    return cluster.confirm(commands)


def _claims(cluster: Cluster) -> ClaimCache:
    [profile] = cluster.machine.context.profiles.values()
    [plugin] = [each for each in profile.plugins if isinstance(each, DynamicResources)]
    return plugin._claims
