"""`DryRuns.reprieve_pods`: pods added back on all nodes at once, and the nodes that need a dry run instead."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from pyscheduler.api import Cycle, Diagnosis, Pod, PodKinds, PotentialVictims
from pyscheduler.core.scheduling.schedule_pod import schedule_pod
from pyscheduler.testing import Harness, PodBuilder, node, pod

NEAR_INT64_MAX = "9223372036854775807"
ANTI_AFFINITY = {
    "podAntiAffinity": {
        "requiredDuringSchedulingIgnoredDuringExecution": [
            {"labelSelector": {"matchLabels": {"app": "x"}}, "topologyKey": "kubernetes.io/hostname"}
        ]
    }
}


def low_priority(name: str, on: str, cpu: str = "1") -> PodBuilder:
    return pod(name).on(on).requests(cpu=cpu)


def high_priority(cpu: str = "2") -> PodBuilder:
    return pod("high").priority(10).requests(cpu=cpu)


def reprieved(*objects: Any, preemptor: PodBuilder) -> dict[str, list[str]]:
    """Return, by node, the names of the pods that stay when added back in their order of placement."""
    harness = Harness()
    harness.add(*objects)
    context = harness.machine.context
    preemptor_pod = preemptor.build(context.shapes)
    cycle = Cycle(harness.now, preemptor_pod.scheduler_name, preemptor_pod.uid)
    assert isinstance(schedule_pod(context.runtimes[preemptor_pod.scheduler_name], cycle, preemptor_pod), Diagnosis)
    rows = context.state.rows
    dry_runs = harness.handle.dry_runs
    statuses, undecided = dry_runs.filter_without_lower_priority(cycle, preemptor_pod, np.arange(len(rows)))
    accepted = np.flatnonzero((statuses.codes == 0) & ~undecided).tolist()
    pods = [[p for p in rows[row].pods.values() if p.priority < preemptor_pod.priority] for row in accepted]
    result = dry_runs.reprieve_pods(cycle, preemptor_pod, potential_victims(accepted, pods))
    return {
        rows[row].name: [p.name for p, stays in zip(pods[j], result.stays[:, j], strict=False) if stays]
        for j, row in enumerate(accepted)
        if not result.needs_dry_run[j]
    }


def potential_victims(rows: list[int], pods: list[list[Pod]]) -> PotentialVictims:
    """Return the pods of the node on each row in columns."""
    kinds = PodKinds()
    matrix = np.full((max(map(len, pods), default=0), len(pods)), -1, np.int32)
    for j, on_node in enumerate(pods):
        matrix[: len(on_node), j] = [kinds.number(each) for each in on_node]
    return PotentialVictims(np.array(rows, np.intp), matrix, kinds, pods.__getitem__)


def test_pod_stays_if_it_fits_next_to_those_before_it() -> None:
    placed = (
        low_priority("a", "n1", "500m"),
        low_priority("b", "n1"),
        low_priority("c", "n1", "500m"),
        low_priority("d", "n2"),
        low_priority("e", "n2", "2"),
    )
    nodes = node("n1", cpu="3"), node("n2", cpu="3")
    assert reprieved(*nodes, *placed, preemptor=high_priority()) == {"n1": ["a", "c"], "n2": ["d"]}


def test_allowed_number_of_pods_is_respected() -> None:
    placed = low_priority("a", "n1", "1m"), low_priority("b", "n1", "1m")
    assert reprieved(node("n1", pods="2"), *placed, preemptor=high_priority()) == {"n1": ["a"]}


def test_pods_of_equal_priority_remain_on_the_node() -> None:
    placed = low_priority("a", "n1", "1").priority(10), low_priority("b", "n1"), low_priority("c", "n1", "0")
    assert reprieved(node("n1", cpu="3"), *placed, preemptor=high_priority()) == {"n1": ["c"]}


def test_node_with_nominated_pod_is_evaluated_with_and_without_it() -> None:
    placed = (
        low_priority("a", "n1", "1"),
        low_priority("b", "n1", "1"),
        low_priority("c", "n2", "1"),
        low_priority("d", "n2", "1"),
        pod("nominated").priority(20).nominated("n1").requests(cpu="1"),
        pod("lower").priority(5).nominated("n2").requests(cpu="1"),
    )
    nodes = node("n1", cpu="4"), node("n2", cpu="4")
    preemptor = high_priority()
    assert reprieved(*nodes, *placed, preemptor=preemptor.requests(cpu="3")) == {"n1": [], "n2": ["c"]}


def test_node_that_nominated_pods_fill_is_rejected() -> None:
    placed = low_priority("a", "n1", "1"), pod("nominated").priority(20).nominated("n1").requests(cpu="1")
    assert reprieved(node("n1", cpu="2"), *placed, preemptor=high_priority()) == {}


def test_overflowing_amounts_need_a_dry_run() -> None:
    placed = low_priority("a", "n1", "2").requests(cpu="2", memory=NEAR_INT64_MAX), low_priority("b", "n2", "2")
    nodes = node("n1", cpu="3", memory=NEAR_INT64_MAX), node("n2", cpu="3")
    assert reprieved(*nodes, *placed, preemptor=high_priority().requests(memory="1Gi")) == {"n2": []}


def test_overflowing_nominated_pods_need_a_dry_run() -> None:
    huge = [pod(name).priority(20).nominated("n1").requests(memory="1Pi") for name in ("x", "y")]
    placed = low_priority("a", "n1", "2"), low_priority("b", "n2", "2")
    nodes = node("n1", cpu="3", memory=NEAR_INT64_MAX), node("n2", cpu="3")
    assert reprieved(*nodes, *placed, *huge, preemptor=high_priority().requests(cpu="2", memory="1Gi")) == {"n2": []}


@pytest.mark.parametrize(
    "preemptor",
    [
        pytest.param(high_priority().spec(affinity=ANTI_AFFINITY), id="reads pods on other nodes"),
        pytest.param(high_priority().host_port(80), id="two pods share a host port"),
    ],
)
def test_results_not_computable_per_row_need_a_dry_run(preemptor: PodBuilder) -> None:
    placed = [low_priority(name, "n1", "1").label("app", "x").host_port(80) for name in "ab"]
    assert reprieved(node("n1", cpu="3"), *placed, preemptor=preemptor) == {}


def test_host_port_is_freed_with_the_pod_that_uses_it() -> None:
    placed = low_priority("a", "n1", "0").host_port(80), low_priority("b", "n1", "0").host_port(81)
    assert reprieved(node("n1", cpu="3"), *placed, preemptor=high_priority().host_port(80)) == {"n1": ["b"]}
