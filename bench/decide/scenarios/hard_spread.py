"""Hard topology spread constraints with maxSkew 1 over zones and hosts: the first pod, and the later ones."""

from __future__ import annotations

from collections.abc import Iterator

from bench.decide.cluster import Cluster, decisions
from bench.decide.objects import pod
from bench.decide.scenario import Row
from bench.pod_features import Json

KEYS = ("topology.kubernetes.io/zone", "kubernetes.io/hostname")
LABELS = {"app": "hard-spread"}


def constraints(labels: dict[str, str], *keys: str) -> list[Json]:
    """Return hard constraints with maxSkew 1 over domains of these keys for the pods with the labels."""
    selected = {"maxSkew": 1, "whenUnsatisfiable": "DoNotSchedule", "labelSelector": {"matchLabels": labels}}
    return [{**selected, "topologyKey": key} for key in keys]


def hard_spread(cluster: Cluster) -> Iterator[Row]:
    """Yield the rows of the first pod, without warm-up, and of the later pods."""
    cluster.populate(cluster.size.per_node)
    fields = {"topologySpreadConstraints": constraints(LABELS, *KEYS)}
    prepare = decisions(cluster, lambda _: pod(fields, 0, LABELS))
    yield Row("first pod", prepare, cluster.confirm, warm_up=0, per_round=1, rounds=1)
    yield Row("later pods", prepare, cluster.confirm)
