"""PodTopologySpread's score: the fewer pods of the kind a domain holds, the better."""

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
        # Two zones weigh ln 4 = 1.39 a pod, three hosts ln 5 = 1.61.
        pytest.param(web(soft()), placed("a1", "a1", "b1"), [3, 3, 1], [33, 33, 100], id="over zones"),
        pytest.param(web(soft(skew=3)), placed("a1", "a1", "b1"), [5, 5, 3], [60, 60, 100], id="a larger skew"),
        pytest.param(web(soft(HOSTNAME)), placed("a1", "a1", "b1"), [3, 0, 2], [0, 100, 33], id="over hosts"),
        pytest.param(
            web(soft(), soft(HOSTNAME)), placed("a1", "a1", "b1"), [6, 3, 3], [50, 100, 100], id="summed, then rounded"
        ),
        pytest.param(web(soft()), [], [0, 0, 0], [100, 100, 100], id="nobody there yet"),
        pytest.param(web(soft(selector=EVERYTHING)), placed("a1"), [0, 0, 0], [100] * 3, id="empty selector"),
        pytest.param(web(soft(selector=None)), placed("a1"), [0, 0, 0], [100] * 3, id="no selector"),
        pytest.param(
            web(soft(HOSTNAME, selector=EVERYTHING)), placed("a1"), [0, 0, 0], [100] * 3, id="the same by host"
        ),
        pytest.param(
            web(soft()).label("app", "db"), placed("b1"), [0, 0, 1], [100, 100, 0], id="a pod of another kind"
        ),
        pytest.param(
            web(soft(), soft(HOSTNAME)), [p.deleting() for p in placed("a1", "a1")], [0, 0, 0], [100] * 3, id="leaving"
        ),
        pytest.param(
            web(soft(), soft(HOSTNAME)), [p.namespace("n") for p in placed("a1")], [0, 0, 0], [100] * 3, id="elsewhere"
        ),
        pytest.param(web(spread(), soft(HOSTNAME)), placed("a1"), [2, 0, 0], [0, 100, 100], id="soft ones only"),
    ],
)
def test_the_emptier_domain_is_better(
    of: PodBuilder, others: list[PodBuilder], raw: list[int], final: list[int]
) -> None:
    assert scores(build(PodTopologySpread), of, ZONES, others) == raw
    assert final_scores(build(PodTopologySpread), of, ZONES, others) == final


@pytest.mark.parametrize(
    ("of", "answer"),
    [
        pytest.param(web(), SKIP_SIGNATURE, id="not selected"),
        pytest.param(web(spread()), SKIP_SIGNATURE_GROUP, id="a hard one"),
        pytest.param(pod(), SKIP_SIGNATURE, id="no labels"),
    ],
)
def test_without_soft_constraints_there_is_nothing_to_score(of: PodBuilder, answer: Skip) -> None:
    assert build(PodTopologySpread).pre_score(cycle(), of.build(), table(ZONES)) is answer


@pytest.mark.parametrize(
    ("nodes", "others", "raw", "final"),
    [
        pytest.param([IN_A, IN_B, NOWHERE], placed("b1"), [0, 1, -1], [100, 0, 0], id="worst, whatever it scores"),
        pytest.param(
            [IN_A, IN_B, NOWHERE], placed("a1", "b1", "b1"), [1, 3, -1], [100, 33, 0], id="not among the others' scores"
        ),
        pytest.param(
            [IN_A, IN_B, NOWHERE], placed("nowhere"), [0, 0, -1], [100, 100, 0], id="its pods count for nobody"
        ),
        pytest.param([NOWHERE, node("nor-here")], [], [-1, -1], [0, 0], id="if there are no others either"),
    ],
)
def test_nodes_without_the_label_are_worst(
    nodes: list[NodeBuilder], others: list[PodBuilder], raw: list[int], final: list[int]
) -> None:
    assert scores(build(PodTopologySpread), web(soft()), nodes, others) == raw
    assert final_scores(build(PodTopologySpread), web(soft()), nodes, others) == final


def test_nodes_without_host_name_do_not_make_more_hosts_of_them() -> None:
    nameless = NodeBuilder({**NOWHERE.manifest, "metadata": {"name": "nameless"}})
    # Two hosts weigh ln 4 = 1.39 a pod, three would weigh ln 5 = 1.61.
    assert scores(build(PodTopologySpread), web(soft(HOSTNAME)), [IN_A, IN_B, nameless], placed("b1")) == [0, 1, -1]


def test_nodes_that_lack_one_of_two_labels_are_worst_and_not_counted() -> None:
    of = web(soft(), soft("rack"))
    nodes = [IN_A.label("rack", "1"), IN_A_TOO, IN_B.label("rack", "2")]
    # Zone a would hold two more with a2's.
    assert scores(build(PodTopologySpread), of, nodes, placed("a1", "a2", "a2", "b1", "b1")) == [3, -1, 6]


def feasible_scores(
    of: PodBuilder, nodes: Sequence[NodeBuilder], others: Sequence[PodBuilder], fit: list[int]
) -> list[int]:
    """Raw scores where only some nodes fit, in both forms."""
    plugin, state, attempt = build(PodTopologySpread), ClusterState(), cycle()
    for n in nodes:
        state.set_node(n.build())
    for other in others:
        state.add_pod(other.build())
    cluster = state.table(np.array(fit))
    assert plugin.pre_score(attempt, of.build(), cluster) is None
    answers: list[int] = plugin.score_all(attempt, of.build(), cluster).tolist()
    assert answers == [plugin.score(attempt, of.build(), n) for n in cluster]
    return answers


def test_weights_go_by_the_domains_that_fit_and_counts_by_all_nodes() -> None:
    others = placed("a1", "a1", "a2", "b1")
    # One zone that fits weighs ln 3 = 1.10 a pod, with those on a2 that does not fit.
    assert feasible_scores(web(soft()), ZONES, others, [0]) == [3]
    # Two hosts that fit weigh ln 4 = 1.39.
    assert feasible_scores(web(soft(HOSTNAME)), ZONES, others, [0, 2]) == [3, 1]


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
def test_pods_on_nodes_that_the_policies_leave_out_do_not_count(of: PodBuilder, raw: list[int]) -> None:
    nodes = [IN_A.label("disk", "ssd"), IN_B.label("disk", "ssd"), IN_A_TOO.taint("k")]
    assert feasible_scores(of, nodes, placed("a1", "a2", "a2"), [0, 1]) == raw


def test_a_host_is_counted_even_if_the_policies_leave_it_out() -> None:
    of = web(soft(HOSTNAME, nodeTaintsPolicy="Honor"))
    assert scores(build(PodTopologySpread), of, [IN_A.taint("k"), IN_B], placed("a1", "a1")) == [3, 0]
