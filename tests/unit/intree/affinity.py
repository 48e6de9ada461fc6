"""Shared parts of the pod affinity tests: terms, a plugin with namespaces, filter results for all nodes."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from pyscheduler.api import Skip
from pyscheduler.core.framework.handle import CoreHandle, empty_handle
from pyscheduler.intree import InterPodAffinity
from pyscheduler.intree.affinity.namespaces import NAMESPACE
from pyscheduler.testing import NodeBuilder, PodBuilder, node, pod
from pyscheduler.testing.conformance import assert_filters_agree, assert_scores_agree

from .cluster import cycle, table

ZONE, HOST = "topology.kubernetes.io/zone", "kubernetes.io/hostname"
NODES = [node("a1").zone("a"), node("a2").zone("a"), node("b1").zone("b"), node("none")]
"""Two nodes in one zone, one in another, one without a zone."""
WEB, DB = pod("web").label("app", "web"), pod("db").label("app", "db")
IS_WEB = {"matchLabels": {"app": "web"}}
IS_DB = {"matchLabels": {"app": "db"}}
NEAR, APART, OFF = "match pod affinity rules", "match pod anti-affinity rules", "existing pods anti-affinity rules"
ANSWERS = {
    "node(s) didn't match pod affinity rules": NEAR,
    "node(s) didn't match pod anti-affinity rules": APART,
    "node(s) didn't satisfy existing pods anti-affinity rules": OFF,
}


def term(selector: Mapping[str, Any] | None = IS_WEB, key: str = ZONE, **fields: Any) -> dict[str, Any]:
    """Return a podAffinityTerm; `namespaces` and `namespaceSelector` are fields."""
    named = {} if selector is None else {"labelSelector": dict(selector)}
    return {"topologyKey": key, **named, **fields}


def has(key: str, operator: str, *values: str) -> dict[str, Any]:
    """Return a label selector with one expression."""
    expression: dict[str, Any] = {"key": key, "operator": operator}
    if values:
        expression["values"] = list(values)
    return {"matchExpressions": [expression]}


def plugin(namespaces: Mapping[str, Mapping[str, str]] | None = None, **args: Any) -> InterPodAffinity:
    """Return the plugin with these namespaces, each with its labels."""
    handle = empty_handle()
    for name, labels in (namespaces or {}).items():
        label_namespace(handle, name, labels)
    return InterPodAffinity(InterPodAffinity.Args(**args), handle)


def label_namespace(handle: CoreHandle, name: str, labels: Mapping[str, str]) -> None:
    """Create a namespace or replace its labels."""
    handle.objects.set(NAMESPACE, {"metadata": {"name": name, "labels": dict(labels)}})


def rejected_nodes(
    subject: InterPodAffinity, of: PodBuilder, running: Sequence[PodBuilder], nodes: Sequence[NodeBuilder] = NODES
) -> dict[str, str]:
    """Return short reasons by the names of the nodes that reject the pod."""
    cluster, attempt = table(nodes, running), cycle()
    assert_filters_agree(subject, attempt, of.build(), cluster)
    if isinstance(subject.pre_filter(attempt, of.build(), cluster), Skip):
        return {}
    results = {n.name: subject.filter(attempt, of.build(), n) for n in cluster}
    return {name: ANSWERS[result.message] for name, result in results.items() if result}


def raw_scores(
    subject: InterPodAffinity, of: PodBuilder, running: Sequence[PodBuilder], nodes: Sequence[NodeBuilder] = NODES
) -> list[int] | None:
    """Return the raw score of every node; None if the plugin returns Skip."""
    cluster, attempt = table(nodes, running), cycle()
    if isinstance(subject.pre_score(attempt, of.build(), cluster), Skip):
        return None
    assert_scores_agree(subject, attempt, of.build(), cluster)
    scores: list[int] = subject.score_all(attempt, of.build(), cluster).tolist()
    return scores
