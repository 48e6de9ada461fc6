"""Required anti-affinity of each app to itself by hostname, many apps in turn."""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial

from bench.decide.cluster import Cluster, decisions
from bench.decide.objects import pod
from bench.decide.scenario import Row
from bench.pod_features import Json

COUNTS = (200, 20)


def anti_affinity(cluster: Cluster) -> Iterator[Row]:
    """Yield a row for each number of apps."""
    cluster.populate(cluster.size.per_node)
    for number in cluster.scaled_all(COUNTS):
        prepare = decisions(cluster, partial(_pod_of, number))
        # An app has room for one pod on each node.
        room = number * (cluster.size.nodes - 2) // cluster.size.rounds
        yield Row(
            f"{number} apps",
            prepare,
            cluster.confirm,
            warm_up=2 * number,
            per_round=max(1, min(room, cluster.size.pods)),
        )


def _pod_of(number: int, i: int) -> Json:
    labels = {"app": f"{number}-{i % number}"}
    term = {"labelSelector": {"matchLabels": labels}, "topologyKey": "kubernetes.io/hostname"}
    affinity = {"podAntiAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": [term]}}
    return pod({"affinity": affinity}, 0, labels)
