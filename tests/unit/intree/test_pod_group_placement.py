"""TopologyPlacementGenerator, PodGroupPodsCount and NodeResourcesFit at placementGenerate and placementScore."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np
import pytest

from pyscheduler.api import NodeInfo, Placement, Pod, PodGroup, PodGroupKey, Rejection, StatusError, TopologyConstraint
from pyscheduler.core.state import ClusterState
from pyscheduler.intree import NodeResourcesFit, PodGroupPodsCount, TopologyPlacementGenerator
from pyscheduler.intree._scoring import LEAST_ALLOCATED, MOST_ALLOCATED, ResourceSpec, ScoringStrategy
from pyscheduler.testing import PodBuilder, node, pod
from tests.unit.intree.cluster import build

RACK = TopologyConstraint("rack")
RACKS = {"n1": "r1", "n2": "r2", "n3": "", "n4": "r1"}


def cluster(racks: Mapping[str, str] = RACKS) -> ClusterState:
    """Return nodes of 4 cpu and 32 GiB with the label rack, unless it is empty."""
    state = ClusterState()
    for name, rack in racks.items():
        builder = node(name)
        state.set_node((builder.label("rack", rack) if rack else builder).build())
    return state


def placed(state: ClusterState, on: Mapping[str, str]) -> list[tuple[Pod, NodeInfo]]:
    """Place a pod of one cpu and 8 GiB on each of these nodes, by its name."""
    found: list[tuple[Pod, NodeInfo]] = []
    for name, node_name in on.items():
        made: Pod = pod(name).requests(cpu="1", memory="8Gi").build()
        state.place(made, node_name)
        info = state.info(node_name)
        assert info is not None
        found.append((made, info))
    return found


def group(*topology: TopologyConstraint) -> PodGroup:
    return PodGroup(PodGroupKey("default", "g", "scheduling.k8s.io"), 2, topology=topology)


def candidates(*topology: TopologyConstraint, on: Mapping[str, str] | None = None) -> dict[str, list[str]] | None:
    """Return the names of the nodes of each candidate."""
    state = cluster()
    plugin = build(TopologyPlacementGenerator)
    table = state.table()
    found = plugin.generate_placements(group(*topology), placed(state, on or {}), table)
    assert not isinstance(found, Rejection)
    return None if found is None else {each.name: [table.names[i] for i in each.nodes] for each in found}


def test_each_value_of_the_label_is_a_candidate() -> None:
    assert candidates(RACK) == {"r1": ["n1", "n4"], "r2": ["n2"]}


def test_group_without_constraints_has_all_nodes() -> None:
    assert candidates() == {"": ["n1", "n2", "n3", "n4"]}


def test_unknown_label_has_no_candidates() -> None:
    assert candidates(TopologyConstraint("zone")) == {}


def test_domain_of_scheduled_pods_is_the_only_candidate() -> None:
    assert candidates(RACK, on={"a": "n4", "b": "n1"}) == {"r1": ["n1", "n4"]}


@pytest.mark.parametrize(
    ("on", "text"),
    [
        ({"a": "n1", "b": "n2"}, "more than 1 domain found for pod group: r1, r2"),
        ({"a": "n3"}, "no topology domain found for pod default/a"),
    ],
)
def test_scheduled_pods_in_no_single_domain_are_an_error(on: Mapping[str, str], text: str) -> None:
    with pytest.raises(StatusError) as caught:
        candidates(RACK, on=on)
    assert str(caught.value) == f"cannot determine domain for already scheduled pods: {text}"


@pytest.mark.parametrize(
    "topology",
    [
        (RACK, TopologyConstraint("zone")),
        (TopologyConstraint("rack", required=False),),
        (TopologyConstraint("tier", domains=lambda nodes: np.zeros(len(nodes), np.int64)),),
    ],
    ids=["two labels", "preferred", "HyperNodes"],
)
def test_other_topologies_are_left_to_the_scheduler(topology: tuple[TopologyConstraint, ...]) -> None:
    assert candidates(*topology) is None


def test_pods_count_is_relative_to_the_placement_with_most_pods() -> None:
    plugin, state = build(PodGroupPodsCount), cluster()
    members = placed(state, {"a": "n1", "b": "n4"})
    assert plugin.score_placement(Placement(group(), members, []), state.table()) == 2
    assert plugin.normalize_placement_scores(group(), [2, 4, 3]) == [50, 100, 75]


@pytest.mark.parametrize(
    ("on", "score"),
    [
        ({}, 0),
        ({"a": "n1"}, 12),  # 1 of 8 cpus and 8 of 64 GiB
        ({"a": "n1", "b": "n4"}, 25),
        ({"a": "n1", "b": "n2"}, 12),  # n2 is not in the placement
    ],
)
def test_utilization_of_all_nodes_of_a_placement_is_scored(on: Mapping[str, str], score: int) -> None:
    state = cluster()
    members = placed(state, on)
    nodes = state.table(np.array([0, 3]))
    assert build(NodeResourcesFit).score_placement(Placement(group(), members, []), nodes) == score


def test_placement_is_scored_by_the_most_allocated_strategy_with_the_weights_of_the_args() -> None:
    strategy = ScoringStrategy(LEAST_ALLOCATED, (ResourceSpec("memory"),))
    state = cluster()
    members = placed(state, {"a": "n2"})
    plugin = build(NodeResourcesFit, scoring_strategy=strategy)
    assert plugin.score_placement(Placement(group(), members, []), state.table(np.array([1]))) == 25


def test_extended_resource_counts_if_a_pod_of_the_group_requests_it() -> None:
    resource = "example.com/gpu"
    plugin = build(NodeResourcesFit, scoring_strategy=ScoringStrategy(MOST_ALLOCATED, (ResourceSpec(resource),)))
    state = ClusterState()
    state.set_node(node("n1").has(resource, "4").build())

    def score(member: PodBuilder) -> int:
        made = member.build()
        state.place(made, "n1")
        info = state.info("n1")
        assert info is not None
        return plugin.score_placement(Placement(group(), [(made, info)], []), state.table())

    assert score(pod("a").request(resource, "1")) == 25
    assert score(pod("b").requests(cpu="1")) == 0
