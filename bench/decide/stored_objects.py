"""Nodes and running pods with all fields that an API server returns, for memory: most fields must not be stored."""

from __future__ import annotations

import random
from collections.abc import Iterator

from bench.pod_features import Json

NAMESPACES = 100
NODE_POOLS = 8
IMAGES = 50
_CONDITIONS = ("PodReadyToStartContainers", "Initialized", "Ready", "ContainersReady", "PodScheduled")
_PRESSURES = ("MemoryPressure", "DiskPressure", "PIDPressure")


def node_name(i: int) -> str:
    """Return the name of a node of a cloud."""
    return f"ip-10-{i >> 16}-{i >> 8 & 255}-{i & 255}.eu-west-1.compute.internal"


def stored_nodes(count: int, rng: random.Random) -> Iterator[Json]:
    """Yield nodes of a few pools; those of a pool differ in name, zone, addresses and annotations."""
    for i in range(count):
        pool, zone = i % NODE_POOLS, f"eu-west-1{'abc'[i % 3]}"
        yield {
            "metadata": {
                "name": node_name(i),
                "uid": _uid(rng),
                "resourceVersion": str(100_000_000 + i),
                "creationTimestamp": _timestamp(rng),
                "labels": {
                    "kubernetes.io/hostname": node_name(i),
                    "kubernetes.io/arch": "amd64",
                    "kubernetes.io/os": "linux",
                    "beta.kubernetes.io/arch": "amd64",
                    "beta.kubernetes.io/os": "linux",
                    "topology.kubernetes.io/region": "eu-west-1",
                    "topology.kubernetes.io/zone": zone,
                    "topology.ebs.csi.aws.com/zone": zone,
                    "failure-domain.beta.kubernetes.io/zone": zone,
                    "node.kubernetes.io/instance-type": f"m6i.{2**pool}xlarge",
                    "beta.kubernetes.io/instance-type": f"m6i.{2**pool}xlarge",
                    "eks.amazonaws.com/nodegroup": f"pool-{pool}",
                },
                "annotations": {
                    "node.alpha.kubernetes.io/ttl": "0",
                    "volumes.kubernetes.io/controller-managed-attach-detach": "true",
                    "csi.volume.kubernetes.io/nodeid": f'{{"ebs.csi.aws.com":"i-{i:017x}"}}',
                },
            },
            "spec": {"podCIDR": "10.0.0.0/24", "providerID": f"aws:///{zone}/i-{i:017x}"},
            "status": {
                "allocatable": {
                    "cpu": "63770m",
                    "memory": f"{252_435_840 + 4 * (i % 64)}Ki",
                    "pods": "110",
                    "ephemeral-storage": "95551679124",
                    "hugepages-1Gi": "0",
                    "hugepages-2Mi": "0",
                },
                "conditions": [_condition(type, "False") for type in _PRESSURES] + [_condition("Ready", "True")],
                "images": [_image(pool, j) for j in range(IMAGES)],
                "nodeInfo": {"kubeletVersion": "v1.37.2"},
            },
        }


def stored_pods(count: int, nodes: int, templates: int, rng: random.Random) -> Iterator[Json]:
    """Yield running pods of Deployments on random nodes."""
    for i in range(count):
        template = i % templates
        owner, created = f"service-{template}-{template * 7919:010x}", _timestamp(rng)
        requests = {"cpu": f"{100 + template % 50}m", "memory": "256Mi"}
        container = {"name": "main", "image": f"registry.example.com/service-{template}:1"}
        resources = {"requests": requests, "limits": {"memory": "256Mi"}}
        yield {
            "metadata": {
                "name": f"{owner}-{i:05x}",
                "generateName": f"{owner}-",
                "namespace": f"team-{template % NAMESPACES}",
                "uid": _uid(rng),
                "resourceVersion": str(200_000_000 + i),
                "generation": 1,
                "creationTimestamp": created,
                "labels": {"app": f"service-{template}", "pod-template-hash": f"{template * 7919:010x}"},
                "ownerReferences": [_controller(owner, template)],
            },
            "spec": {
                "containers": [{**container, "resources": resources, "ports": [{"containerPort": 8080}]}],
                "volumes": [{"name": f"kube-api-access-{i:05x}", "projected": {"defaultMode": 420, "sources": []}}],
                "nodeName": node_name(rng.randrange(nodes)),
                "schedulerName": "default-scheduler",
                "priority": 0,
                "serviceAccountName": "default",
                "tolerations": [_toleration("not-ready"), _toleration("unreachable")],
            },
            "status": {
                "phase": "Running",
                "startTime": created,
                "podIP": "10.0.0.1",
                "conditions": [{"type": type, "status": "True", "lastTransitionTime": created} for type in _CONDITIONS],
                "containerStatuses": [
                    {**container, "resources": resources, "allocatedResources": requests, "ready": True}
                ],
            },
        }


def _condition(type: str, status: str) -> Json:
    return {"type": type, "status": status, "reason": "KubeletReady", "lastHeartbeatTime": "2026-01-01T00:00:00Z"}


def _image(pool: int, number: int) -> Json:
    repository = f"registry.example.com/service-{10 * pool + number}"
    return {"names": [f"{repository}@sha256:{number:064x}", f"{repository}:1"], "sizeBytes": 10_000_000 + number}


def _controller(name: str, template: int) -> Json:
    return {"apiVersion": "apps/v1", "kind": "ReplicaSet", "name": name, "uid": f"{template:036x}", "controller": True}


def _toleration(condition: str) -> Json:
    return {"key": f"node.kubernetes.io/{condition}", "operator": "Exists", "effect": "NoExecute"}


def _uid(rng: random.Random) -> str:
    digits = f"{rng.getrandbits(128):032x}"
    return "-".join((digits[:8], digits[8:12], digits[12:16], digits[16:20], digits[20:]))


def _timestamp(rng: random.Random) -> str:
    day, second = rng.randrange(1, 29), rng.randrange(86_400)
    return f"2026-{rng.randrange(1, 13):02}-{day:02}T{second // 3600:02}:{second // 60 % 60:02}:{second % 60:02}Z"
