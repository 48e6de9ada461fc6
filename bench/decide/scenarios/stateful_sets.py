"""StatefulSets: every pod has labels of its own, and required anti-affinity to the pods of its set."""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial

from bench.decide.cluster import Cluster, decisions
from bench.decide.objects import pod
from bench.decide.scenario import Row
from bench.pod_features import Json

SETS = 200


def stateful_sets(cluster: Cluster) -> Iterator[Row]:
    """Yield the row of the sets in turn."""
    cluster.populate(cluster.size.per_node)
    number = cluster.scaled(SETS)
    yield Row("", decisions(cluster, partial(_pod_of, number)), cluster.confirm, warm_up=2 * number)


def _pod_of(number: int, i: int) -> Json:
    name, index = f"set-{i % number}", str(i // number)
    labels = {
        "app": name,
        "apps.kubernetes.io/pod-index": index,
        "statefulset.kubernetes.io/pod-name": f"{name}-{index}",
    }
    term = {"labelSelector": {"matchLabels": {"app": name}}, "topologyKey": "kubernetes.io/hostname"}
    affinity = {"podAntiAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": [term]}}
    source = pod({"affinity": affinity}, i % number % 100, labels)
    owner = {"apiVersion": "apps/v1", "kind": "StatefulSet", "name": name, "uid": name, "controller": True}
    source["metadata"]["ownerReferences"] = [owner]
    return source
