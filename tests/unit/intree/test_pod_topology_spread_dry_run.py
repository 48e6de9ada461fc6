"""PodTopologySpread's filter in dry runs, after changes of nodes and with reassigned domain ids."""

from __future__ import annotations

from collections.abc import Sequence

import pytest

from pyscheduler.core.state import ClusterState
from pyscheduler.intree import PodTopologySpread
from pyscheduler.testing import NodeBuilder, PodBuilder, node, pod

from .cluster import Reasons, build, cycle, info, table
from .spreading import (
    EVERYTHING,
    HOSTNAME,
    IN_A,
    IN_B,
    LACKING,
    SOFT,
    UNEVEN,
    ZONE,
    ZONES,
    placed,
    spread,
    web,
)

Move = tuple[int, PodBuilder, str]
WEB_POD = pod("other").label("app", "web")


def after(
    of: PodBuilder, moves: Sequence[Move], others: list[PodBuilder], nodes: Sequence[NodeBuilder] = ZONES
) -> list[Reasons]:
    """Return the filter's results after pods were added (1) or removed (-1), from both forms."""
    plugin, cluster, attempt = build(PodTopologySpread), table(nodes, others), cycle()
    assert plugin.pre_filter(attempt, of.build(), cluster) is None
    untouched, before = plugin.filter_all(attempt, of.build(), cluster), attempt.state()
    for pods, other, where in moves:
        update = plugin.add_pod if pods > 0 else plugin.remove_pod
        update(attempt, of.build(), other.build(), info(cluster, where))
    statuses = plugin.filter_all(attempt, of.build(), cluster)
    results = [plugin.filter(attempt, of.build(), n) for n in cluster]
    assert results == [statuses.at(i) for i in range(len(cluster))]
    attempt.restore(before)
    again = plugin.filter_all(attempt, of.build(), cluster)
    assert [again.at(i) for i in range(len(cluster))] == [untouched.at(i) for i in range(len(cluster))]
    return [result.reasons if result else None for result in results]


@pytest.mark.parametrize(
    ("of", "moves", "expected"),
    [
        pytest.param(web(spread()), [(-1, WEB_POD, "a1")], [None, None, None], id="one less in the zone ahead"),
        pytest.param(web(spread()), [(1, WEB_POD, "b1")], [None, None, None], id="one more in the zone behind"),
        pytest.param(web(spread(skew=2)), [(1, WEB_POD, "a1")], [UNEVEN, UNEVEN, None], id="further ahead"),
        pytest.param(web(spread()), [(1, WEB_POD, "b1")] * 2, [None, None, UNEVEN], id="overtaken"),
        pytest.param(
            web(spread()),
            [(1, WEB_POD, "b1"), (1, WEB_POD, "b1"), (-1, WEB_POD, "b1")],
            [None] * 3,
            id="added and removed",
        ),
        pytest.param(
            web(spread()), [(1, WEB_POD, "b1"), (1, WEB_POD, "b1"), (1, WEB_POD, "a1")], [None] * 3, id="in two zones"
        ),
        pytest.param(web(spread()), [(-1, pod("db"), "a1")], [UNEVEN, UNEVEN, None], id="a pod that does not count"),
        pytest.param(
            web(spread()), [(-1, WEB_POD.namespace("n"), "a1")], [UNEVEN, UNEVEN, None], id="a pod of another namespace"
        ),
        pytest.param(
            web(spread()), [(-1, WEB_POD.deleting(), "a1")], [None] * 3, id="terminating pod counts in dry runs"
        ),
        pytest.param(
            web(spread(), spread(HOSTNAME)), [(-1, WEB_POD, "a1")], [None] * 3, id="counted by both constraints"
        ),
        pytest.param(web(spread(minDomains=3)), [(1, WEB_POD, "b1")], [UNEVEN] * 3, id="still too few zones"),
        pytest.param(
            web(spread(selector=EVERYTHING)),
            [(-1, WEB_POD, "a1")],
            [None, None, UNEVEN],
            id="an empty selector: below 0",
        ),
    ],
)
def test_dry_run_counts_added_and_removed_pods(of: PodBuilder, moves: list[Move], expected: list[Reasons]) -> None:
    # Zone a is one ahead of zone b.
    assert after(of, moves, placed("a1")) == expected


@pytest.mark.parametrize(
    ("of", "expected"),
    [
        pytest.param(web(spread()), [None] * 3, id="taints do not matter"),
        pytest.param(web(spread(nodeTaintsPolicy="Honor")), [UNEVEN, UNEVEN, None], id="taints are honored"),
        pytest.param(
            web(spread(nodeTaintsPolicy="Honor")).tolerates("k"), [None] * 3, id="taints are honored and tolerated"
        ),
        pytest.param(web(spread()).node_selector(disk="ssd"), [UNEVEN, UNEVEN, None], id="excluded by nodeSelector"),
        pytest.param(
            web(spread(nodeAffinityPolicy="Ignore")).node_selector(disk="ssd"),
            [None] * 3,
            id="node affinity is ignored",
        ),
    ],
)
def test_dry_run_respects_inclusion_policies(of: PodBuilder, expected: list[Reasons]) -> None:
    nodes = [n.label("disk", "ssd") for n in ZONES]
    moves = [(-1, WEB_POD, "t")]
    assert after(of, moves, placed("a1"), [*nodes, node("t").zone("a").taint("k")])[:3] == expected


def test_dry_run_raises_minimum_when_zone_catches_up() -> None:
    assert after(web(spread()), [(1, WEB_POD, "b1")] * 2, placed("a1", "a1")) == [None, None, None]


def test_dry_run_on_node_without_topology_key_changes_nothing() -> None:
    of = web(spread(), spread(HOSTNAME))
    bare = NodeBuilder({**IN_A.manifest, "metadata": {"name": "bare", "labels": {ZONE: "b"}}})
    assert after(of, [(1, WEB_POD, "bare")] * 3, placed("a1"), [*ZONES, bare]) == [UNEVEN, UNEVEN, None, LACKING]


def test_minimum_does_not_cover_the_changed_zone_without_pods() -> None:
    nodes = [node(name).zone(name) for name in "abc"]
    assert after(web(spread()), [(1, WEB_POD, "c")], placed("a", "b"), nodes) == [None, None, None]


def test_minimum_covers_zones_below_zero() -> None:
    nodes, of = [node(name).zone(name) for name in "abc"], web(spread(selector=EVERYTHING))
    moves = [(-1, WEB_POD, "a"), (1, WEB_POD, "b")]
    assert after(of, moves, [], nodes) == [None, UNEVEN, UNEVEN]


def test_minimum_covers_unchanged_zones() -> None:
    nodes = [node(name).zone(name) for name in "abc"]
    moves = [(1, WEB_POD, "a")] * 2
    assert after(web(spread()), moves, placed("b", "c", "c"), nodes) == [UNEVEN, None, UNEVEN]


# -- caches ---------------------------------------------------------------------------------------------------------


def current_results(plugin: PodTopologySpread, of: PodBuilder, state: ClusterState) -> list[Reasons]:
    attempt, cluster = cycle(), state.table()
    assert plugin.pre_filter(attempt, of.build(), cluster) is None
    statuses = plugin.filter_all(attempt, of.build(), cluster)
    refusals = [statuses.at(i) for i in range(len(cluster))]
    return [refusal.reasons if refusal else None for refusal in refusals]


@pytest.mark.parametrize(
    ("change", "expected"),
    [
        pytest.param([], [UNEVEN, UNEVEN, None], id="nothing"),
        pytest.param([node("c1").zone("c")], [UNEVEN, UNEVEN, UNEVEN, None], id="a new zone"),
        pytest.param([node("b1").zone("a")], [None, None, None], id="one zone less"),
        pytest.param([IN_B.taint("k")], [None, None, None], id="zone becomes tainted"),
    ],
)
def test_eligible_domains_are_invalidated_when_nodes_change(change: list[NodeBuilder], expected: list[Reasons]) -> None:
    plugin, state, of = build(PodTopologySpread), ClusterState(), web(spread(nodeTaintsPolicy="Honor"))
    for n in ZONES:
        state.set_node(n.build())
    others = placed("a1", "a2", "b1") if any(n.manifest["metadata"]["name"] == "c1" for n in change) else placed("a1")
    for other in others:
        state.add_pod(other.build())
    current_results(plugin, of, state)
    for n in change:
        state.set_node(n.build())
    assert current_results(plugin, of, state) == expected


def test_plugin_can_be_used_with_several_clusters() -> None:
    plugin, of = build(PodTopologySpread), web(spread())
    for nodes in (ZONES, list(reversed(ZONES))):
        attempt, cluster = cycle(), table(nodes, placed("a1"))
        plugin.pre_filter(attempt, of.build(), cluster)
        assert [n.name for n in cluster if plugin.filter(attempt, of.build(), n) is None] == ["b1"]


def test_counts_survive_reassigned_domain_ids() -> None:
    plugin, state, of = build(PodTopologySpread), ClusterState(), web(spread(), spread(skew=1, when=SOFT))
    keys = {f"label-{i}": "" for i in range(300)}
    many = IN_A._with("metadata.labels", {**IN_A.manifest["metadata"]["labels"], **keys})
    for n in (node("b1").zone("a"), many, IN_B):  # b1 was in zone a first, so zone a got the first id
        state.set_node(n.build())
        state.table().topology(ZONE)
    for other in placed("a1", "a1"):
        state.add_pod(other.build())
    attempt, cluster = cycle(), state.table()
    plugin.pre_filter(attempt, of.build(), cluster)
    plugin.pre_score(attempt, of.build(), cluster)
    numbers = dict(cluster.topology(ZONE).known)
    for key in keys:
        cluster.topology(key)  # more keys than are cached, so that all are dropped and numbered again on the next use
    assert dict(cluster.topology(ZONE).known) != numbers
    statuses = plugin.filter_all(attempt, of.build(), cluster)
    assert [statuses.at(i) for i in range(2)] == [plugin.filter(attempt, of.build(), n) for n in cluster]
    assert {n.name: statuses.at(i) is None for i, n in enumerate(cluster)} == {"a1": False, "b1": True}
    assert plugin.score_all(attempt, of.build(), cluster).tolist() == [
        plugin.score(attempt, of.build(), n) for n in cluster
    ]
