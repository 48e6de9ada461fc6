"""Pods with many claims that are bound once a node is selected, where an administrator created many local volumes."""

from __future__ import annotations

from typing import Any

import pytest

from pyscheduler.intree.volumes import match, matcher, search
from pyscheduler.testing import Harness, PodBuilder, node, pod

Json = dict[str, Any]
NODES, VOLUMES = 10, 200
HOSTNAME = "kubernetes.io/hostname"


def volume(i: int) -> Json:
    on_node = {"matchExpressions": [{"key": HOSTNAME, "operator": "In", "values": [f"n{i % NODES}"]}]}
    spec = {
        "capacity": {"storage": f"{10 + i}Gi"},
        "accessModes": ["ReadWriteOnce"],
        "storageClassName": "local",
        "local": {"path": "/disk"},
        "nodeAffinity": {"required": {"nodeSelectorTerms": [on_node]}},
    }
    return _object("v1", "PersistentVolume", f"v{i}", spec=spec, status={"phase": "Available"})


def claim(i: int, **spec: Any) -> Json:
    """Return a claim with a size of its own."""
    amounts = {"requests": {"storage": f"{1000 + i}Mi"}}
    wanted = {"accessModes": ["ReadWriteOnce"], "storageClassName": "local", "resources": amounts, **spec}
    return {**_object("v1", "PersistentVolumeClaim", f"c{i}", spec=wanted), "status": {"phase": "Pending"}}


def _object(version: str, kind: str, name: str, **fields: Any) -> Json:
    return {"apiVersion": version, "kind": kind, "metadata": {"name": name}, **fields}


def user(claims: int) -> PodBuilder:
    """Return a pod that uses so many claims."""
    names = (f"c{i}" for i in range(claims))
    return pod("hostile").spec(volumes=[{"name": name, "persistentVolumeClaim": {"claimName": name}} for name in names])


def cluster(claims: int, **spec: Any) -> Harness:
    harness = Harness()
    for i in range(NODES):
        harness.add(node(f"n{i}"))
    delayed = {"provisioner": "kubernetes.io/no-provisioner", "volumeBindingMode": "WaitForFirstConsumer"}
    harness.apply(_object("storage.k8s.io/v1", "StorageClass", "local", **delayed))
    for i in range(VOLUMES):
        harness.apply(volume(i))
    for i in range(claims):
        harness.apply(claim(i, **spec))
    harness.add(user(claims), pod("neighbour"))
    return harness


def test_each_volume_is_looked_up_once_for_all_claims_of_a_pod(monkeypatch: pytest.MonkeyPatch) -> None:
    lookups = 0
    affinity_mask = match.affinity_mask

    def count(*arguments: Any) -> Any:
        nonlocal lookups
        lookups += 1
        return affinity_mask(*arguments)

    for module in (match, matcher, search):
        monkeypatch.setattr(module, "affinity_mask", count)
    harness = cluster(claims=VOLUMES // NODES + 1)
    harness.run()
    assert set(harness.assignments) == {"neighbour"}, "a node has one volume too few"
    assert "didn't find available persistent volumes to bind" in harness.pending_message("hostile")
    assert lookups <= VOLUMES + 2 * (VOLUMES // NODES + 1)


@pytest.mark.parametrize(
    ("claims", "spec"),
    [
        (64, {}),
        (2, {"selector": {"matchExpressions": [{"key": f"k{j}", "operator": "DoesNotExist"} for j in range(200)]}}),
    ],
    ids=["many claims", "long selectors"],
)
def test_matching_beyond_the_evaluation_limit_is_unschedulable(
    claims: int, spec: Json, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("pyscheduler.api.cycle.EVALUATION_LIMIT", 50_000)
    harness = cluster(claims, **spec)
    harness.run()
    assert set(harness.assignments) == {"neighbour"}
    assert f"over {VOLUMES} volumes exceeds the limit" in harness.pending_message("hostile")
    harness.advance(60)
    assert len(harness.machine.context.queue.active) == 0
