"""Hard topology spread constraints with maxSkew 1 over zones and hosts: the first pod, and the later ones."""

from __future__ import annotations

from collections.abc import Iterator

from bench.decide.cluster import Cluster, decisions
from bench.decide.objects import pod
from bench.decide.scenario import Row

KEYS = ("topology.kubernetes.io/zone", "kubernetes.io/hostname")
LABELS = {"app": "hard-spread"}
CONSTRAINTS = [
    {
        "maxSkew": 1,
        "topologyKey": key,
        "whenUnsatisfiable": "DoNotSchedule",
        "labelSelector": {"matchLabels": LABELS},
    }
    for key in KEYS
]


def hard_spread(cluster: Cluster) -> Iterator[Row]:
    """Yield the rows of the first pod, without warm-up, and of the later pods."""
    cluster.populate(cluster.size.per_node)
    prepare = decisions(cluster, lambda _: pod({"topologySpreadConstraints": CONSTRAINTS}, 0, LABELS))
    yield Row("first pod", prepare, cluster.confirm, warm_up=0, per_round=1, rounds=1)
    yield Row("later pods", prepare, cluster.confirm)
