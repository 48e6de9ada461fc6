"""NodeResourcesFit as a score: each strategy against values computed by hand from the formulas."""

from __future__ import annotations

import re
from typing import Any

import pytest

from pyscheduler.intree import NodeResourcesFit
from pyscheduler.intree._scoring import (
    RequestedToCapacityRatioParam,
    ResourceSpec,
    ScoringStrategy,
    UtilizationShapePoint,
)
from pyscheduler.testing import PodBuilder, node, pod

from .cluster import build, scores

GPU = "nvidia.com/gpu"
BOTH = {"cpu": 1, "memory": 1}
RISING = ((0, 0), (100, 10))


def fit(kind: str, weights: dict[str, int] = BOTH, shape: tuple[tuple[int, int], ...] = ()) -> NodeResourcesFit:
    points = tuple(UtilizationShapePoint(*point) for point in shape)
    ratio = RequestedToCapacityRatioParam(points) if points else None
    resources = tuple(ResourceSpec(name, weight) for name, weight in weights.items())
    return build(NodeResourcesFit, scoring_strategy=ScoringStrategy(kind, resources, ratio))


@pytest.mark.parametrize(
    ("of", "running", "least", "most"),
    [
        pytest.param(pod().requests(cpu="1", memory="8Gi"), [], 75, 25, id="a quarter of both"),
        pytest.param(pod().requests(cpu="1", memory="16Gi"), [], 62, 37, id="mean is truncated"),
        # 100m of 4 cores leave 97.5 %, 200Mi of 32Gi leave 99.4 %
        pytest.param(pod(), [], 98, 1, id="missing requests count as 100m and 200Mi"),
        pytest.param(pod().requests(cpu="0", memory="0"), [], 100, 0, id="requests of 0 count as 0"),
        pytest.param(
            pod().requests(cpu="1", memory="8Gi"),
            [pod("u").requests(cpu="1", memory="8Gi")],
            50,
            50,
            id="requests of running pods count",
        ),
        # 4000 - 1000 - 100 = 2900 of 4000: 72; 32Gi - 8Gi - 200Mi: 74
        pytest.param(pod().requests(cpu="1", memory="8Gi"), [pod("u")], 73, 26, id="defaults of running pods count"),
        pytest.param(pod().requests(cpu="5", memory="8Gi"), [], 37, 62, id="use is capped at capacity"),
    ],
)
def test_least_and_most_allocated_scores(of: PodBuilder, running: list[PodBuilder], least: int, most: int) -> None:
    on_node = [p.on("node") for p in running]
    assert scores(fit("LeastAllocated"), of, [node()], on_node) == [least]
    assert scores(fit("MostAllocated"), of, [node()], on_node) == [most]


def test_weights_and_missing_resources() -> None:
    of = pod().requests(cpu="1", memory="16Gi").request(GPU, "1")
    weights = {"cpu": 3, "memory": 1, GPU: 4}
    nodes = [node(), node("g").has(GPU, "4"), node("m", cpu="0")]
    # cpu 25 %, memory 50 %, gpu 25 %: a resource that the node lacks is left out with its weight
    assert scores(fit("MostAllocated", weights), of, nodes) == [31, 28, 50]
    # an extended resource that the pod does not request is left out, too
    assert scores(fit("MostAllocated", weights), pod().requests(cpu="1", memory="16Gi"), nodes) == [31, 31, 50]


def test_node_without_scored_resources_scores_0() -> None:
    for kind in ("LeastAllocated", "MostAllocated"):
        assert scores(fit(kind), pod(), [node(cpu="0", memory="0")]) == [0]
        assert scores(fit(kind, {"storage": 1}), pod(), [node().has("storage", "1")]) == [0]


def test_pod_level_requests_count_for_placed_pods_only() -> None:
    level = {"requests": {"cpu": "2", "memory": "8Gi"}}
    placed, coming = pod("u").spec(resources=level).on("node"), pod().spec(resources=level)
    assert scores(fit("MostAllocated"), coming, [node()]) == [1]
    assert scores(fit("MostAllocated"), coming, [node()], [placed]) == [(52 + 25) // 2]


@pytest.mark.parametrize(
    ("shape", "of", "score"),
    [
        pytest.param(RISING, pod().requests(cpu="1", memory="8Gi"), 25, id="rising"),
        pytest.param(((0, 10), (100, 0)), pod().requests(cpu="1", memory="8Gi"), 75, id="falling"),
        pytest.param(((40, 2), (60, 8)), pod().requests(cpu="1", memory="8Gi"), 20, id="flat before the first point"),
        pytest.param(((40, 2), (60, 8)), pod().requests(cpu="3", memory="24Gi"), 80, id="flat after the last point"),
        pytest.param(((40, 2), (60, 8)), pod().requests(cpu="2", memory="16Gi"), 50, id="between"),
        # 100 + (-100 * 25) / 60 is 59 when cut off toward zero, 58 when rounded down
        pytest.param(
            ((0, 10), (60, 0)), pod().requests(cpu="1", memory="8Gi"), 59, id="falling line is truncated toward zero"
        ),
        pytest.param(RISING, pod().requests(cpu="9", memory="64Gi"), 100, id="use is capped at capacity"),
        # 25 and 50 are 37.5
        pytest.param(RISING, pod().requests(cpu="1", memory="16Gi"), 38, id="a half is rounded up"),
        # 0 % of memory scores 0 and is left out with its weight
        pytest.param(RISING, pod().requests(cpu="2", memory="1Mi"), 50, id="a resource that scores 0 does not count"),
        pytest.param(((0, 0), (1, 0)), pod().requests(cpu="1", memory="1Gi"), 0, id="no resource counts"),
    ],
)
def test_requested_to_capacity_ratio_score(shape: tuple[tuple[int, int], ...], of: PodBuilder, score: int) -> None:
    assert scores(fit("RequestedToCapacityRatio", shape=shape), of, [node()]) == [score]


def test_largest_capacities_do_not_overflow() -> None:
    huge = node(memory=str(2**63 - 1), cpu="4")
    assert scores(fit("LeastAllocated"), pod().requests(cpu="1", memory="4Ei"), [huge]) == [62]
    assert scores(fit("MostAllocated"), pod().requests(cpu="1", memory=str(2**63 - 1)), [huge]) == [62]


@pytest.mark.parametrize(
    ("strategy", "message"),
    [
        pytest.param(
            ScoringStrategy("Best"),
            'scoringStrategy.type: Unsupported value: "Best": '
            'supported values: "LeastAllocated", "MostAllocated", "RequestedToCapacityRatio"',
            id="unknown type",
        ),
        pytest.param(
            ScoringStrategy("LeastAllocated", (ResourceSpec("cpu", 1), ResourceSpec("memory", 101))),
            "scoringStrategy.resources[1].weight: Invalid value: 101: "
            "resource weight of memory not in valid range (0, 100]",
            id="weight too large",
        ),
        pytest.param(
            ScoringStrategy("RequestedToCapacityRatio"),
            "scoringStrategy.requestedToCapacityRatio: Required value: "
            "must be specified when type is RequestedToCapacityRatio",
            id="missing shape",
        ),
        pytest.param(
            ScoringStrategy("MostAllocated", requested_to_capacity_ratio=RequestedToCapacityRatioParam()),
            "scoringStrategy.requestedToCapacityRatio: Forbidden: "
            "must be nil when type is not RequestedToCapacityRatio",
            id="shape with other type",
        ),
    ],
)
def test_invalid_scoring_strategies_are_rejected(strategy: ScoringStrategy, message: str) -> None:
    refused(message, scoring_strategy=strategy)


SHAPE = "scoringStrategy.requestedToCapacityRatio.shape"


@pytest.mark.parametrize(
    ("shape", "message"),
    [
        pytest.param((), f"{SHAPE}: Required value: at least one point must be specified", id="no points"),
        pytest.param(
            ((0, 1), (50, 2), (50, 3)),
            f"{SHAPE}[2].utilization: Invalid value: 50: values must be sorted in increasing order",
            id="utilization not increasing",
        ),
        pytest.param(
            ((-1, 1), (101, 11)),
            f"[{SHAPE}[0].utilization: Invalid value: -1: not in valid range [0, 100], "
            f"{SHAPE}[1].utilization: Invalid value: 101: not in valid range [0, 100], "
            f"{SHAPE}[1].score: Invalid value: 11: not in valid range [0, 10]]",
            id="out of range",
        ),
    ],
)
def test_invalid_shapes_are_rejected(shape: tuple[tuple[int, int], ...], message: str) -> None:
    ratio = RequestedToCapacityRatioParam(tuple(UtilizationShapePoint(*point) for point in shape))
    refused(message, scoring_strategy=ScoringStrategy("RequestedToCapacityRatio", requested_to_capacity_ratio=ratio))


def test_resource_group_with_slash_is_rejected() -> None:
    refused(
        "ignoredResourceGroups[0]: Invalid value: \"a.io/b\": resource group name can't contain '/'",
        ignored_resource_groups=("a.io/b",),
    )


def refused(message: str, **args: Any) -> None:
    with pytest.raises(ValueError, match=f"^{re.escape(message)}$"):
        NodeResourcesFit.Args(**args)
