"""Kinds of pod specs: pods of one signature, then pods with own labels, then pods with own templates."""

from __future__ import annotations

from collections.abc import Callable, Iterator

from bench.decide.cluster import Actions, Cluster, decisions
from bench.decide.objects import pod
from bench.decide.scenario import Row
from bench.decide.scenarios.node_changes import ChangingNodes, changing, pull_image
from bench.pod_features import POD_SPECS, Json

TEMPLATES = 200
"""Templates of the mixed pods."""
LABELS = {"app": "web"}


def pods_of_kind(cluster: Cluster, kind: str) -> Iterator[Row]:
    """Yield the rows of one kind of POD_SPECS."""
    cluster.populate(cluster.size.per_node)
    fields, few = POD_SPECS[kind], min(cluster.size.pods, max(20, cluster.size.pods // 20))
    templates = cluster.scaled(TEMPLATES) if kind == "mixed" else 1
    nodes = ChangingNodes(cluster) if cluster.size.churn else None

    def attempts(source: Callable[[int], Json]) -> Callable[[int], Actions]:
        prepare = decisions(cluster, source)
        return changing(nodes, pull_image, prepare) if nodes else prepare

    same = attempts(lambda i: pod(fields, i % templates, LABELS))
    yield Row("", same, cluster.confirm, warm_up=2 * templates)
    labelled = attempts(lambda i: pod(fields, 0, {**LABELS, "turn": str(i)}))
    yield Row("own labels", labelled, cluster.confirm, per_round=few)
    new = attempts(lambda i: pod(fields, TEMPLATES + i, LABELS))
    yield Row("new template", new, cluster.confirm, per_round=few)
