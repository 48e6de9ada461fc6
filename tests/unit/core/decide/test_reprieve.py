"""Pods that are let back on all nodes at once: who may stay, and where only a trial can tell."""

from __future__ import annotations

from typing import Any

import pytest

from pyscheduler.api import Cycle, Diagnosis
from pyscheduler.testing import Harness, PodBuilder, node, pod

HUGE = "9223372036854775807"
APART = {
    "podAntiAffinity": {
        "requiredDuringSchedulingIgnoredDuringExecution": [
            {"labelSelector": {"matchLabels": {"app": "x"}}, "topologyKey": "kubernetes.io/hostname"}
        ]
    }
}


def low(name: str, on: str, cpu: str = "1") -> PodBuilder:
    return pod(name).on(on).requests(cpu=cpu)


def high(cpu: str = "2") -> PodBuilder:
    return pod("high").priority(10).requests(cpu=cpu)


def staying(*objects: Any, of: PodBuilder) -> dict[str, list[str]]:
    """By node the names of those that may stay, let back in the order in which they came."""
    harness = Harness()
    harness.add(*objects)
    context = harness.machine.context
    subject = of.build(context.shapes)
    cycle = Cycle(harness.now, subject.scheduler_name, subject.uid)
    assert isinstance(context.deciders[subject.scheduler_name].decide(cycle, subject), Diagnosis)
    rows = context.state.rows
    orders = {row.row: [p for p in row.pods.values() if p.priority < subject.priority] for row in rows}
    answers = harness.handle.reprieve_pods(cycle, subject, orders)
    return {
        rows[row].name: [p.name for p, stays in zip(orders[row], stay, strict=True) if stays]
        for row, stay in answers.items()
    }


def test_each_stays_if_there_is_room_beside_those_before_it() -> None:
    placed = low("a", "n1", "500m"), low("b", "n1"), low("c", "n1", "500m"), low("d", "n2"), low("e", "n2", "2")
    nodes = node("n1", cpu="3"), node("n2", cpu="3")
    assert staying(*nodes, *placed, of=high()) == {"n1": ["a", "c"], "n2": ["d"]}


def test_the_number_of_pods_counts() -> None:
    placed = low("a", "n1", "1m"), low("b", "n1", "1m")
    assert staying(node("n1", pods="2"), *placed, of=high()) == {"n1": ["a"]}


def test_more_important_pods_have_never_left() -> None:
    placed = low("a", "n1", "1").priority(10), low("b", "n1"), low("c", "n1", "0")
    assert staying(node("n1", cpu="3"), *placed, of=high()) == {"n1": ["c"]}


def test_where_a_place_is_promised_a_trial_tells() -> None:
    placed = low("a", "n1", "2"), low("b", "n2", "2"), pod("promised").priority(20).nominated("n1").requests(cpu="1")
    assert staying(node("n1", cpu="3"), node("n2", cpu="3"), *placed, of=high()) == {"n2": []}


def test_amounts_beyond_all_counting_are_left_to_trials() -> None:
    placed = low("a", "n1", "2").requests(cpu="2", memory=HUGE), low("b", "n2", "2")
    nodes = node("n1", cpu="3", memory=HUGE), node("n2", cpu="3")
    assert staying(*nodes, *placed, of=high().requests(memory="1Gi")) == {"n2": []}


@pytest.mark.parametrize(
    "of",
    [pytest.param(high().spec(affinity=APART), id="pods elsewhere"), pytest.param(high().host_port(80), id="ports")],
)
def test_what_columns_cannot_tell_is_left_to_trials(of: PodBuilder) -> None:
    assert staying(node("n1", cpu="3"), low("a", "n1", "2").label("app", "x"), of=of) == {}
