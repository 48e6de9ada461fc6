"""Deployments: pods of ReplicaSets in turn, with the default topology spread constraints."""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial

from bench.decide.cluster import Cluster, decisions
from bench.decide.objects import pod
from bench.decide.scenario import Row
from bench.pod_features import Json

COUNTS = (2000, 200, 20)


def deployments(cluster: Cluster) -> Iterator[Row]:
    """Yield a row for each number of ReplicaSets."""
    cluster.populate(cluster.size.per_node)
    for number in cluster.scaled_all(COUNTS):
        for i in range(number):
            selector = {"matchLabels": {"app": f"{number}-{i}"}}
            meta = {"name": f"{number}-{i}", "namespace": "default", "uid": f"{number}-{i}"}
            cluster.apply("ReplicaSet", {"metadata": meta, "spec": {"selector": selector}})
        prepare = decisions(cluster, partial(_pod_of, number))
        yield Row(f"{number} ReplicaSets", prepare, cluster.confirm, warm_up=2 * number)


def _pod_of(number: int, i: int) -> Json:
    name = f"{number}-{i % number}"
    source = pod({}, i % number % 100, {"app": name})
    owner = {"apiVersion": "apps/v1", "kind": "ReplicaSet", "name": name, "uid": name, "controller": True}
    source["metadata"]["ownerReferences"] = [owner]
    return source
