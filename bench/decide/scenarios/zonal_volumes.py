"""Bound volumes that are accessible from one zone each, of a CSI driver with limits; every pod has a claim of its own.

The volumes of neighbouring pods are in different zones, as those of a StatefulSet are.
"""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial
from itertools import count

from bench.decide.cluster import Actions, Cluster
from bench.decide.objects import ZONES, pod
from bench.decide.scenario import Row
from bench.pod_features import Json
from pyscheduler.api.objects import PodObject
from pyscheduler.core.commands import Command

DRIVER = "csi.example.com"
LIMIT = 25
SETS = 200
TEMPLATES = 100


def zonal_volumes(cluster: Cluster) -> Iterator[Row]:
    """Yield the rows of pods without an owner, and of StatefulSets with the default spreading in turn."""
    cluster.populate(cluster.size.per_node)
    for i in range(cluster.size.nodes):
        driver = {"name": DRIVER, "nodeID": f"node-{i}", "allocatable": {"count": LIMIT}}
        cluster.apply("CSINode", {"metadata": {"name": f"node-{i}"}, "spec": {"drivers": [driver]}})
    per_round, numbers = min(100, cluster.size.pods), count()
    yield Row("pods", partial(_prepare, cluster, numbers, 0), cluster.confirm, per_round, per_round)
    sets = cluster.scaled(SETS)
    for i in range(sets):
        meta = {"name": f"set-{i}", "namespace": "default", "uid": f"set-{i}"}
        cluster.apply("StatefulSet", {"metadata": meta, "spec": {"selector": {"matchLabels": {"app": f"set-{i}"}}}})
    prepare = partial(_prepare, cluster, numbers, sets)
    yield Row("StatefulSets", prepare, cluster.confirm, 2 * sets, per_round)


def _prepare(cluster: Cluster, numbers: Iterator[int], sets: int, number: int) -> Actions:
    """Create bound claims; return the attempts of the pods that use them, of some sets in turn unless that is 0."""
    actions = []
    for i in (next(numbers) for _ in range(number)):
        _create_volume(cluster, i)
        consumer = cluster.new(_pod_of_set(i, sets) if sets else pod(_volumes(i), 0, {"app": "web"}))
        actions.append(partial(_schedule, cluster, consumer))
    return actions


def _schedule(cluster: Cluster, consumer: PodObject) -> list[Command]:
    return cluster.submit(consumer) + cluster.schedule()


def _create_volume(cluster: Cluster, i: int) -> None:
    name, zones = f"data-{i}", min(ZONES, cluster.size.nodes)
    zone = {"key": "topology.kubernetes.io/zone", "operator": "In", "values": [f"zone-{(i + i // TEMPLATES) % zones}"]}
    volume = {
        "capacity": {"storage": "1Gi"},
        "csi": {"driver": DRIVER, "volumeHandle": name},
        "claimRef": {"kind": "PersistentVolumeClaim", "namespace": "default", "name": name, "uid": name},
        "nodeAffinity": {"required": {"nodeSelectorTerms": [{"matchExpressions": [zone]}]}},
    }
    cluster.apply("PersistentVolume", {"metadata": {"name": f"pv-{i}"}, "spec": volume})
    bound = {"pv.kubernetes.io/bind-completed": "yes"}
    meta = {"name": name, "namespace": "default", "uid": name, "annotations": bound}
    cluster.apply("PersistentVolumeClaim", {"metadata": meta, "spec": {"volumeName": f"pv-{i}"}})


def _pod_of_set(i: int, sets: int) -> Json:
    name, index = f"set-{i % sets}", str(i // sets)
    labels = {
        "app": name,
        "apps.kubernetes.io/pod-index": index,
        "statefulset.kubernetes.io/pod-name": f"{name}-{index}",
    }
    source = pod(_volumes(i), i % sets % TEMPLATES, labels)
    owner = {"apiVersion": "apps/v1", "kind": "StatefulSet", "name": name, "uid": name, "controller": True}
    source["metadata"]["ownerReferences"] = [owner]
    return source


def _volumes(i: int) -> Json:
    return {"volumes": [{"name": "data", "persistentVolumeClaim": {"claimName": f"data-{i}"}}]}
