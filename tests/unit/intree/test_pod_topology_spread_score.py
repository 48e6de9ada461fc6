"""PodTopologySpread's score: domains with fewer matching pods score higher."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pytest

from pyscheduler.api import SKIP_SIGNATURE, SKIP_SIGNATURE_GROUP, Skip
from pyscheduler.core.state import ClusterState
from pyscheduler.intree import PodTopologySpread
from pyscheduler.testing import NodeBuilder, PodBuilder, node, pod

from .cluster import build, cycle, final_scores, scores, table
from .spreading import (
    EVERYTHING,
    HOSTNAME,
    IN_A,
    IN_A_TOO,
    IN_B,
    NOWHERE,
    SOFT,
    ZONES,
    Manifest,
    placed,
    spread,
    web,
)


def soft(key: str = "topology.kubernetes.io/zone", **fields: object) -> Manifest:
    return spread(key, when=SOFT, **fields)  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("of", "others", "raw", "final"),
    [
        # With two zones each pod weighs ln 4 = 1.39, with three hosts ln 5 = 1.61.
        pytest.param(web(soft()), placed("a1", "a1", "b1"), [3, 3, 1], [33, 33, 100], id="over zones"),
        pytest.param(web(soft(skew=3)), placed("a1", "a1", "b1"), [5, 5, 3], [60, 60, 100], id="a larger skew"),
        pytest.param(web(soft(HOSTNAME)), placed("a1", "a1", "b1"), [3, 0, 2], [0, 100, 33], id="over hosts"),
        pytest.param(
            web(soft(), soft(HOSTNAME)), placed("a1", "a1", "b1"), [6, 3, 3], [50, 100, 100], id="summed, then rounded"
        ),
        pytest.param(web(soft()), [], [0, 0, 0], [100, 100, 100], id="no pods yet"),
        pytest.param(web(soft(selector=EVERYTHING)), placed("a1"), [0, 0, 0], [100] * 3, id="empty selector"),
        pytest.param(web(soft(selector=None)), placed("a1"), [0, 0, 0], [100] * 3, id="no selector"),
        pytest.param(
            web(soft(HOSTNAME, selector=EVERYTHING)), placed("a1"), [0, 0, 0], [100] * 3, id="the same by host"
        ),
        pytest.param(
            web(soft()).label("app", "db"),
            placed("b1"),
            [0, 0, 1],
            [100, 100, 0],
            id="pod does not match its own selector",
        ),
        pytest.param(
            web(soft(), soft(HOSTNAME)),
            [p.deleting() for p in placed("a1", "a1")],
            [0, 0, 0],
            [100] * 3,
            id="terminating pods",
        ),
        pytest.param(
            web(soft(), soft(HOSTNAME)),
            [p.namespace("n") for p in placed("a1")],
            [0, 0, 0],
            [100] * 3,
            id="other namespace",
        ),
        pytest.param(web(spread(), soft(HOSTNAME)), placed("a1"), [2, 0, 0], [0, 100, 100], id="soft ones only"),
    ],
)
def test_domain_with_fewer_pods_scores_higher(
    of: PodBuilder, others: list[PodBuilder], raw: list[int], final: list[int]
) -> None:
    assert scores(build(PodTopologySpread), of, ZONES, others) == raw
    assert final_scores(build(PodTopologySpread), of, ZONES, others) == final


@pytest.mark.parametrize(
    ("of", "expected"),
    [
        pytest.param(web(), SKIP_SIGNATURE, id="not selected"),
        pytest.param(web(spread()), SKIP_SIGNATURE_GROUP, id="a hard one"),
        pytest.param(pod(), SKIP_SIGNATURE, id="no labels"),
    ],
)
def test_pre_score_skips_pod_without_soft_constraints(of: PodBuilder, expected: Skip) -> None:
    assert build(PodTopologySpread).pre_score(cycle(), of.build(), table(ZONES)) is expected


@pytest.mark.parametrize(
    ("nodes", "others", "raw", "final"),
    [
        pytest.param([IN_A, IN_B, NOWHERE], placed("b1"), [0, 1, -1], [100, 0, 0], id="node without the key scores 0"),
        pytest.param(
            [IN_A, IN_B, NOWHERE], placed("a1", "b1", "b1"), [1, 3, -1], [100, 33, 0], id="not among the others' scores"
        ),
        pytest.param([IN_A, IN_B, NOWHERE], placed("nowhere"), [0, 0, -1], [100, 100, 0], id="its pods do not count"),
        pytest.param([NOWHERE, node("nor-here")], [], [-1, -1], [0, 0], id="if there are no others either"),
    ],
)
def test_nodes_without_topology_key_score_lowest(
    nodes: list[NodeBuilder], others: list[PodBuilder], raw: list[int], final: list[int]
) -> None:
    assert scores(build(PodTopologySpread), web(soft()), nodes, others) == raw
    assert final_scores(build(PodTopologySpread), web(soft()), nodes, others) == final


def test_nodes_without_host_name_do_not_count_as_hosts() -> None:
    nameless = NodeBuilder({**NOWHERE.manifest, "metadata": {"name": "nameless"}})
    # With two hosts each pod weighs ln 4 = 1.39, with three ln 5 = 1.61.
    assert scores(build(PodTopologySpread), web(soft(HOSTNAME)), [IN_A, IN_B, nameless], placed("b1")) == [0, 1, -1]


def test_nodes_without_one_topology_key_score_lowest_and_are_not_counted() -> None:
    of = web(soft(), soft("rack"))
    nodes = [IN_A.label("rack", "1"), IN_A_TOO, IN_B.label("rack", "2")]
    # Zone a would have two pods more if a2 counted.
    assert scores(build(PodTopologySpread), of, nodes, placed("a1", "a2", "a2", "b1", "b1")) == [3, -1, 6]


def feasible_scores(
    of: PodBuilder, nodes: Sequence[NodeBuilder], others: Sequence[PodBuilder], fit: list[int]
) -> list[int]:
    """Return raw scores if only some nodes are feasible, from both forms."""
    plugin, state, attempt = build(PodTopologySpread), ClusterState(), cycle()
    for n in nodes:
        state.set_node(n.build())
    for other in others:
        state.add_pod(other.build())
    cluster = state.table(np.array(fit))
    assert plugin.pre_score(attempt, of.build(), cluster) is None
    results: list[int] = plugin.score_all(attempt, of.build(), cluster).tolist()
    assert results == [plugin.score(attempt, of.build(), n) for n in cluster]
    return results


def test_weights_use_feasible_domains_and_counts_use_all_nodes() -> None:
    others = placed("a1", "a1", "a2", "b1")
    # One feasible zone weighs ln 3 = 1.10 per pod, and counts those on a2, which is not feasible.
    assert feasible_scores(web(soft()), ZONES, others, [0]) == [3]
    # Two feasible hosts weigh ln 4 = 1.39.
    assert feasible_scores(web(soft(HOSTNAME)), ZONES, others, [0, 2]) == [3, 1]


@pytest.mark.parametrize(
    ("fit", "raw"),
    [
        pytest.param(None, [4, 4, 1], id="all nodes"),
        pytest.param([0], [3], id="one zone"),
        pytest.param([0, 2], [4, 1], id="both zones"),
    ],
)
def test_weights_follow_the_feasible_nodes_of_the_next_attempt(fit: list[int] | None, raw: list[int]) -> None:
    plugin, state, of = build(PodTopologySpread), ClusterState(), web(soft()).build()
    for n in ZONES:
        state.set_node(n.build())
    for other in placed("a1", "a1", "a2", "b1"):
        state.add_pod(other.build())
    for before in (None, [0], [0, 2]):
        for rows in (before, fit):
            attempt, cluster = cycle(), state.table(None if rows is None else np.array(rows))
            plugin.pre_score(attempt, of, cluster)
            results = plugin.score_all(attempt, of, cluster).tolist()
        assert results == raw


def test_weights_follow_the_zones_of_the_nodes() -> None:
    plugin, state, of = build(PodTopologySpread), ClusterState(), web(soft()).build()
    for n in ZONES:
        state.set_node(n.build())
    for other in placed("a1", "a1", "a2"):
        state.add_pod(other.build())
    for zone, raw in (("b", [4, 4, 0]), ("a", [3, 3, 3])):
        state.set_node(node("b1").zone(zone).build())
        attempt, cluster = cycle(), state.table()
        plugin.pre_score(attempt, of, cluster)
        assert plugin.score_all(attempt, of, cluster).tolist() == raw


@pytest.mark.parametrize(
    ("of", "raw"),
    [
        pytest.param(web(soft()), [4, 0], id="ignored"),
        pytest.param(web(soft(nodeTaintsPolicy="Honor")), [1, 0], id="honored"),
        pytest.param(web(soft(HOSTNAME, nodeTaintsPolicy="Honor")), [1, 0], id="by host name: the host's own pods"),
        pytest.param(web(soft()).node_selector(disk="ssd"), [1, 0], id="not selected"),
        pytest.param(web(soft(nodeAffinityPolicy="Ignore")).node_selector(disk="ssd"), [4, 0], id="selected or not"),
    ],
)
def test_pods_on_nodes_excluded_by_policies_do_not_count(of: PodBuilder, raw: list[int]) -> None:
    nodes = [IN_A.label("disk", "ssd"), IN_B.label("disk", "ssd"), IN_A_TOO.taint("k")]
    assert feasible_scores(of, nodes, placed("a1", "a2", "a2"), [0, 1]) == raw


def test_host_is_counted_even_if_excluded_by_policies() -> None:
    of = web(soft(HOSTNAME, nodeTaintsPolicy="Honor"))
    assert scores(build(PodTopologySpread), of, [IN_A.taint("k"), IN_B], placed("a1", "a1")) == [3, 0]
