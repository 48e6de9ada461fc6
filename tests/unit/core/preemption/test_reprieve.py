"""`DryRuns.reprieve_pods`: pods added back on all nodes at once, and the nodes that need a dry run instead."""

from __future__ import annotations

from typing import Any

import pytest

from pyscheduler.api import Cycle, Diagnosis
from pyscheduler.core.scheduling.schedule_one import schedule_pod
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
    orders = {row.row: [p for p in row.pods.values() if p.priority < preemptor_pod.priority] for row in rows}
    results = harness.handle.dry_runs.reprieve_pods(cycle, preemptor_pod, orders)
    return {
        rows[row].name: [p.name for p, stays in zip(orders[row], flags, strict=True) if stays]
        for row, flags in results.items()
    }


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


def test_node_with_nominated_pod_needs_a_dry_run() -> None:
    placed = (
        low_priority("a", "n1", "2"),
        low_priority("b", "n2", "2"),
        pod("nominated").priority(20).nominated("n1").requests(cpu="1"),
    )
    assert reprieved(node("n1", cpu="3"), node("n2", cpu="3"), *placed, preemptor=high_priority()) == {"n2": []}


def test_overflowing_amounts_need_a_dry_run() -> None:
    placed = low_priority("a", "n1", "2").requests(cpu="2", memory=NEAR_INT64_MAX), low_priority("b", "n2", "2")
    nodes = node("n1", cpu="3", memory=NEAR_INT64_MAX), node("n2", cpu="3")
    assert reprieved(*nodes, *placed, preemptor=high_priority().requests(memory="1Gi")) == {"n2": []}


@pytest.mark.parametrize(
    "preemptor",
    [
        pytest.param(high_priority().spec(affinity=ANTI_AFFINITY), id="reads pods on other nodes"),
        pytest.param(high_priority().host_port(80), id="host ports"),
    ],
)
def test_results_not_computable_per_row_need_a_dry_run(preemptor: PodBuilder) -> None:
    assert reprieved(node("n1", cpu="3"), low_priority("a", "n1", "2").label("app", "x"), preemptor=preemptor) == {}
