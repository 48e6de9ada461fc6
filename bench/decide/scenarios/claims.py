"""Claims with volumeBindingMode WaitForFirstConsumer: a claim and its pod are created, and the pod is scheduled."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from functools import partial
from itertools import count

from bench.decide.cluster import Actions, Cluster
from bench.decide.objects import pod
from bench.decide.scenario import Row
from bench.pod_features import Json
from pyscheduler.api.objects import PodObject
from pyscheduler.core.commands import Bind, Command

STORAGE_CLASS: Json = {
    "metadata": {"name": "fast"},
    "provisioner": "csi.example.com",
    "volumeBindingMode": "WaitForFirstConsumer",
}


def claims(cluster: Cluster) -> Iterator[Row]:
    """Yield the row of pods with one claim each."""
    cluster.populate(cluster.size.per_node)
    cluster.apply("StorageClass", STORAGE_CLASS)
    per_round = min(100, cluster.size.pods)
    yield Row("", partial(_prepare, cluster, count(1)), partial(_provision, cluster), 20, per_round)


def _prepare(cluster: Cluster, numbers: Iterator[int], number: int) -> Actions:
    actions = []
    for i in (next(numbers) for _ in range(number)):
        volume = {"name": "data", "persistentVolumeClaim": {"claimName": f"claim-{i}"}}
        consumer = cluster.new(pod({"volumes": [volume]}, 0, {"app": "web"}))
        actions.append(partial(_create_and_schedule, cluster, _claim(f"claim-{i}"), consumer))
    return actions


def _create_and_schedule(cluster: Cluster, claim: Json, consumer: PodObject) -> list[Command]:
    return cluster.apply("PersistentVolumeClaim", claim) + cluster.submit(consumer) + cluster.schedule()


def _provision(cluster: Cluster, commands: Sequence[Command]) -> int:
    """Bind each claim to a new volume, then confirm the bindings of the pods."""
    for bind in (command for command in commands if isinstance(command, Bind)):
        [volume] = cluster.pods[bind.pod.uid].spec.volumes or ()
        name = volume["persistentVolumeClaim"]["claimName"]
        claim_ref = {"kind": "PersistentVolumeClaim", "namespace": "default", "name": name, "uid": name}
        spec = {"claimRef": claim_ref, "storageClassName": "fast", "accessModes": ["ReadWriteOnce"]}
        meta = {"name": f"pv-{name}", "resourceVersion": "1"}
        capacity = {"storage": "1Gi"}
        cluster.apply("PersistentVolume", {"metadata": meta, "spec": {**spec, "capacity": capacity}})
        cluster.apply("PersistentVolumeClaim", _claim(name, f"pv-{name}"))
    return cluster.confirm(commands)


def _claim(name: str, volume: str = "") -> Json:
    done = {"pv.kubernetes.io/bind-completed": "yes"} if volume else {}
    meta = {"name": name, "namespace": "default", "uid": name, "annotations": done}
    spec = {"storageClassName": "fast", "accessModes": ["ReadWriteOnce"], "volumeName": volume}
    version = "2" if volume else "1"
    requests = {"resources": {"requests": {"storage": "1Gi"}}}
    return {"metadata": {**meta, "resourceVersion": version}, "spec": {**spec, **requests}}
