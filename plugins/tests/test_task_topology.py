"""TaskTopology: roles of a group attract or repel each other."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
import pytest

from pyscheduler.core.framework.handle import empty_handle
from pyscheduler.testing import Harness, PodBuilder, assert_forms_agree, node, pod
from pyscheduler_plugins.task_topology import AFFINITY, ANTI_AFFINITY, LowestToHighest, TaskTopology, role_weights

CONFIG = """
apiVersion: kubescheduler.config.k8s.io/v1
kind: KubeSchedulerConfiguration
profiles:
- schedulerName: default-scheduler
  plugins:
    multiPoint:
      enabled: [{name: PodGroups}, {name: TaskTopology, weight: 10}]
"""
VOLCANO = "scheduling.volcano.sh/v1beta1"


@pytest.mark.parametrize(
    ("role", "affinity", "anti_affinity", "expected"),
    [
        pytest.param("ps", "ps,worker;ps,evaluator", "", {"worker": 1, "evaluator": 1}, id="two sets"),
        pytest.param("worker", "ps,worker;ps,evaluator", "", {"ps": 1}, id="roles of other sets do not count"),
        pytest.param("worker", "ps, worker , chief", "", {"ps": 1, "chief": 1}, id="spaces"),
        pytest.param("ps", "", "ps;worker,chief", {"ps": -1}, id="alone in its set: its own pods"),
        pytest.param("chief", "", "ps;worker,chief", {"worker": -1}, id="repelled by the other role"),
        pytest.param("ps", "ps,worker", "ps", {"worker": 1, "ps": -1}, id="both"),
        pytest.param("ps", "ps,worker", "ps,worker", {"worker": -1}, id="repulsion wins"),
        pytest.param("other", "ps,worker", "ps", {}, id="role without a topology"),
        pytest.param("ps", ";,;", "", {}, id="empty sets"),
    ],
)
def test_weights_of_roles(role: str, affinity: str, anti_affinity: str, expected: Mapping[str, int]) -> None:
    assert role_weights(role, {AFFINITY: affinity, ANTI_AFFINITY: anti_affinity}) == expected


def member(name: str, role: str, group: str = "g", **topology: str) -> PodBuilder:
    built = pod(name).requests(cpu="1").annotation("pyscheduler.io/pod-group", group)
    built = built.annotation("pyscheduler.io/pod-group-min-count", "1").annotation("volcano.sh/task-spec", role)
    for key, value in topology.items():
        built = built.annotation({"affinity": AFFINITY, "anti": ANTI_AFFINITY}[key], value)
    return built


@pytest.mark.parametrize(
    "incoming",
    [
        pytest.param(member("p", "worker", affinity="ps,worker"), id="affinity"),
        pytest.param(member("p", "worker", affinity="ps,worker", anti="worker"), id="both"),
        pytest.param(member("p", "worker"), id="no topology"),
        pytest.param(pod("p"), id="no group"),
    ],
)
def test_forms_agree(incoming: PodBuilder) -> None:
    nodes = [node(f"n{i}").build() for i in range(4)]
    running = [
        member("a", "ps").on("n0"),
        member("b", "ps").on("n0"),
        member("c", "worker").on("n1"),
        member("d", "ps", group="other").on("n2"),
        member("e", "ps").deleting().on("n3"),
        member("f", "ps").namespace("elsewhere").on("n3"),
    ]
    assert_forms_agree(TaskTopology(None, empty_handle()), incoming.build(), nodes, [each.build() for each in running])


def test_scores_are_scaled_from_lowest_to_highest() -> None:
    normalizer = LowestToHighest()
    scores = np.array([-2, 0, 1], np.int64)
    assert normalizer.rescale(scores, normalizer.span(scores)).tolist() == [0, 66, 100]
    assert normalizer.rescale(scores[:1], normalizer.span(scores[:1])).tolist() == [0]


def nodes_of(harness: Harness) -> dict[str, str]:
    return {key.removeprefix("default/"): name for key, name in harness.bindings.items()}


def cluster(*pods: PodBuilder, group: Mapping[str, Any] | None = None) -> dict[str, str]:
    """Return the nodes of the pods in a cluster of four nodes, three of which are emptier than the fourth."""
    harness = Harness(CONFIG)
    if group is not None:
        harness.apply(group)
    harness.add(*(node(f"n{i}", cpu="8") for i in range(4)))
    harness.add(*pods)
    harness.run()
    return nodes_of(harness)


def test_workers_join_their_parameter_server() -> None:
    placed = cluster(*(member(f"{role}{i}", role, affinity="ps,worker") for role in ("ps", "worker") for i in range(2)))
    assert len(placed) == 4
    assert {placed["worker0"], placed["worker1"]} <= {placed["ps0"], placed["ps1"]}


def test_parameter_servers_repel_each_other() -> None:
    full = [pod(f"full{i}").requests(cpu="6").on(f"n{i}") for i in range(3)]
    placed = cluster(*full, *(member(f"ps{i}", "ps", anti="ps") for i in range(4)))
    assert len({placed[f"ps{i}"] for i in range(4)}) == 4


def test_without_annotations_the_emptiest_node_is_chosen() -> None:
    full = [pod(f"full{i}").requests(cpu="6").on(f"n{i}") for i in range(3)]
    placed = cluster(*full, *(member(f"ps{i}", "ps") for i in range(4)))
    assert {placed[f"ps{i}"] for i in range(4)} == {"n3"}


def test_annotations_of_a_pod_group_of_volcano_count() -> None:
    full = [pod(f"full{i}").requests(cpu="6").on(f"n{i}") for i in range(3)]
    metadata = {"name": "g", "annotations": {ANTI_AFFINITY: "ps"}}
    group = {"apiVersion": VOLCANO, "kind": "PodGroup", "metadata": metadata, "spec": {"minMember": 4}}
    named = [
        pod(f"ps{i}")
        .requests(cpu="1")
        .annotation("scheduling.k8s.io/group-name", "g")
        .annotation("volcano.sh/task-spec", "ps")
        for i in range(4)
    ]
    placed = cluster(*full, *named, group=group)
    assert len({placed[f"ps{i}"] for i in range(4)}) == 4
