"""NodeResourcesBalancedAllocation and ImageLocality, against values computed by hand from the formulas."""

from __future__ import annotations

import re

import numpy as np
import pytest

from pyscheduler.api import SKIP
from pyscheduler.core.state import ClusterState
from pyscheduler.intree import ImageLocality, NodeResourcesBalancedAllocation
from pyscheduler.intree._scoring import ResourceSpec
from pyscheduler.testing import PodBuilder, node, pod

from .cluster import build, cycle, scores, table

MIB = 1024 * 1024
GPU = "nvidia.com/gpu"


@pytest.mark.parametrize(
    ("of", "running", "score"),
    [
        pytest.param(pod().requests(cpu="1", memory="8Gi"), [], 75, id="unchanged balance"),
        # shares 0.5 and 0: a deviation of 0.25, so 75 after 100; 50 + (50 - 25) / 2
        pytest.param(pod().requests(cpu="2"), [], 62, id="worse balance"),
        # 75 before, 100 after: 50 + (50 + 25) / 2
        pytest.param(pod().requests(cpu="2"), [pod("u").requests(memory="16Gi")], 87, id="better balance"),
        pytest.param(pod().requests(cpu="9", memory="99Gi"), [], 75, id="use is capped at capacity"),
        pytest.param(pod().requests(memory="16Gi"), [pod("u")], 62, id="missing requests count as 0"),
        pytest.param(
            pod().spec(resources={"requests": {"cpu": "1", "memory": "8Gi"}}), [], 75, id="pod-level requests count"
        ),
    ],
)
def test_balanced_allocation_score(of: PodBuilder, running: list[PodBuilder], score: int) -> None:
    balance = build(NodeResourcesBalancedAllocation)
    assert scores(balance, of, [node()], [p.on("node") for p in running]) == [score]


def test_three_resources_and_nodes_that_lack_some() -> None:
    balance = build(
        NodeResourcesBalancedAllocation, resources=(ResourceSpec("cpu"), ResourceSpec("memory"), ResourceSpec(GPU))
    )
    of = pod().requests(cpu="2").request(GPU, "1")
    nodes = [node("all").has(GPU, "1"), node("two"), node("one", memory="0"), node("none", cpu="0", memory="0")]
    # 0.5, 0, 1: sqrt(1/6) = 0.408, so 59 after 100: 50 + (50 - 41) / 2; then 0.5 and 0; then one share alone; then none
    assert scores(balance, of, nodes) == [54, 62, 75, 75]
    # an extended resource that the pod does not request is left out
    assert scores(balance, pod().requests(cpu="2"), nodes) == [62, 62, 75, 75]


def test_deviation_of_two_remaining_resources_is_half_their_difference() -> None:
    balance = build(
        NodeResourcesBalancedAllocation, resources=(ResourceSpec("cpu"), ResourceSpec("memory"), ResourceSpec(GPU))
    )
    of = pod().requests(cpu="1", memory="7").request(GPU, "1")
    # 0.1 and 0.8 are 64 by the half of their difference (65 by a square root), after 95: 50 + (50 - 31) / 2
    running = pod("u").requests(memory="1").on("two")
    assert scores(balance, of, [node("two", cpu="10", memory="10")], [running]) == [59]


def test_balanced_allocation_skips_pod_without_requests() -> None:
    balance = build(NodeResourcesBalancedAllocation)
    assert balance.pre_score(cycle(), pod().request(GPU, "1").build(), table([node()])) is SKIP


@pytest.mark.parametrize(
    ("resources", "message"),
    [
        pytest.param(
            (ResourceSpec("cpu", 2),), "resources[0].weight: Invalid value: 2: must be 1", id="weight other than 1"
        ),
        pytest.param(
            (ResourceSpec("cpu"), ResourceSpec("cpu")), 'resources[1].name: Duplicate value: "cpu"', id="duplicate"
        ),
    ],
)
def test_invalid_resources_are_rejected(resources: tuple[ResourceSpec, ...], message: str) -> None:
    with pytest.raises(ValueError, match=f"^{re.escape(message)}$"):
        NodeResourcesBalancedAllocation.Args(resources)


@pytest.mark.parametrize(
    ("of", "score"),
    [
        # on one node of two, so 250 MiB count half: 100 * (125 - 23) / (1000 - 23)
        pytest.param(pod().image("big:1"), 10, id="image on half the nodes counts half"),
        pytest.param(pod().image("big"), 0, id="other tag"),
        pytest.param(pod().image("plain"), 48, id="missing tag is latest"),
        pytest.param(pod().image("host:5000/port"), 48, id="a port is no tag"),
        pytest.param(pod().image("none:1"), 0, id="image not on node"),
        pytest.param(pod().image("tiny:1"), 0, id="below threshold"),
        pytest.param(pod().image("giant:1"), 100, id="above maximum"),
        # two uses of 125 MiB against a maximum of 2000: 100 * (250 - 23) / (2000 - 23)
        pytest.param(pod().image("big:1").container(image="big:1"), 11, id="two containers, twice the maximum"),
        pytest.param(pod().image("none:1").init_container(image="giant:1"), 100, id="init containers count"),
        # the volume's 500 MiB count, and the maximum is that of two images: 100 * (125 + 500 - 23) / (2000 - 23)
        pytest.param(
            pod().image("big:1").spec(volumes=[{"name": "v", "image": {"reference": "plain"}}]), 30, id="image volumes"
        ),
    ],
)
def test_image_locality_score(of: PodBuilder, score: int) -> None:
    here = node("here").image("big:1", 250 * MIB).image("plain:latest", 1000 * MIB).image("tiny:1", 40 * MIB)
    here = here.image("host:5000/port:latest", 1000 * MIB).image("giant:1", 9000 * MIB)
    assert scores(build(ImageLocality), of, [here, node("there")]) == [score, 0]


def test_image_share_is_computed_over_all_nodes() -> None:
    state = ClusterState()
    state.set_node(node("here").image("a:1", 1000 * MIB).build())
    state.set_node(node("there").build())
    only_here = state.table(np.array([0]))
    score = build(ImageLocality).score_all(cycle(), pod().image("a:1").build(), only_here)
    assert score.tolist() == [100 * (500 - 23) // (1000 - 23)]
