"""Large groups that lack room are refused from a count of their members, with the reasons of a search."""

from __future__ import annotations

import copy
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import pytest

from pyscheduler.api import Cycle, FilterPlugin, NodeInfo, Pod, Reads, Rejection
from pyscheduler.core.pod_groups import full_nodes, placement
from tests.scenarios.batch.cluster import Cluster
from tests.scenarios.batch.manifests import ANNOTATIONS, NATIVE, VOLCANO, Gang, Manifest, gang, node, pod, slots

CONFIG = f"""
apiVersion: kubescheduler.config.k8s.io/v1
kind: KubeSchedulerConfiguration
profiles:
  - schedulerName: pyscheduler
    plugins: {{multiPoint: {{enabled: [{{name: PodGroups}}, {{name: "{__name__}:OnePerReservedNode"}}]}}}}
"""


class OnePerReservedNode(FilterPlugin):
    """Lets a node with the label `reserved` have one pod, whatever it has room for."""

    name = "OnePerReservedNode"
    reads = Reads.OWN_NODE_AND_PODS
    reads_labels = False

    def filter(self, cycle: Cycle, pod: Pod, node: NodeInfo) -> Rejection | None:
        return Rejection("node is reserved") if node.pods and "reserved" in node.labels else None


def tainted(manifest: Manifest) -> Manifest:
    return {**manifest, "spec": {"taints": [{"key": "maintenance", "effect": "NoSchedule"}]}}


def few_pods(manifest: Manifest, pods: int) -> Manifest:
    allocatable = {**manifest["status"]["allocatable"], "pods": str(pods)}
    return {**manifest, "status": {"allocatable": allocatable}}


def members(count: int, spec: Manifest | None = None, **amounts: Any) -> list[Manifest]:
    """Return equal pods with this spec in addition."""
    pods = [pod(f"g{i}", **amounts) for i in range(count)]
    for each in pods:
        each["metadata"]["labels"]["app"] = "g"
        container = each["spec"]["containers"][0]
        each["spec"].update(copy.deepcopy(spec or {}))
        container.update(each["spec"].pop("container", {}))
    return pods


def indexed(pods: list[Manifest]) -> list[Manifest]:
    """Give each pod its label of an Indexed Job."""
    for i, each in enumerate(pods):
        each["metadata"]["labels"]["batch.kubernetes.io/job-completion-index"] = str(i)
    return pods


APART = {
    "affinity": {
        "podAntiAffinity": {
            "requiredDuringSchedulingIgnoredDuringExecution": [
                {"labelSelector": {"matchLabels": {"app": "g"}}, "topologyKey": "zone"}
            ]
        }
    }
}
WITH_PORT = {"container": {"ports": [{"containerPort": 80, "hostPort": 80}]}}


@dataclass(frozen=True)
class Case:
    """Nodes, what runs on them, and a group that lacks room for one of its members."""

    nodes: Sequence[Manifest]
    group: Gang
    running: Sequence[Manifest | Gang] = ()
    is_counted: bool = True
    """False if members are placed one by one, since plugins do not look at nodes one by one."""


CASES = {
    "a node each": Case(slots(4), gang("g", 5, members(5))),
    "declared by Volcano": Case(slots(4), gang("g", 5, members(5), api=VOLCANO)),
    "declared by annotations": Case(slots(4), gang("g", 5, members(5), api=ANNOTATIONS)),
    "several on a node": Case([node("a", 5), node("b", 3)], gang("g", 5, members(5, cpu=2))),
    "two resources": Case(
        [node("a", 8, gpu=2), node("b", 2, gpu=8), node("c", 9)], gang("g", 5, members(5, cpu=1, gpu=1))
    ),
    "number of pods": Case([few_pods(node("a", 9), 3), node("b")], gang("g", 5, members(5))),
    "more than the minimum": Case(slots(4), gang("g", 5, members(8))),
    "members of an Indexed Job": Case(slots(4), gang("g", 5, indexed(members(6)))),
    "a tainted node": Case([*slots(4), tainted(node("t", 9))], gang("g", 5, members(5))),
    "other pods": Case([node("a", 5), node("b", 5)], gang("g", 5, members(5, cpu=2)), [pod("x", cpu=3)]),
    "lower priority": Case(slots(5), gang("g", 5, members(5, priority=9)), [pod("low")]),
    "too little without lower priority": Case(slots(4), gang("g", 5, members(5, priority=9)), [pod("low")]),
    "no cpu requested": Case([few_pods(node("a"), 2), few_pods(node("b"), 2)], gang("g", 5, members(5, cpu=0))),
    "anti-affinity": Case(
        [node(f"n{i}", 1, {"zone": "z"}) for i in range(4)],
        gang("g", 5, members(5, APART)),
        is_counted=False,
    ),
    "host ports": Case([node(f"n{i}", 1) for i in range(4)], gang("g", 5, members(5, WITH_PORT))),
    "host ports before room": Case([node("a", 3), node("b", 1)], gang("g", 5, members(5, WITH_PORT)), is_counted=False),
    "limit of a plugin": Case(
        [node("a", 3, {"reserved": ""}), node("b", 1)], gang("g", 5, members(5)), is_counted=False
    ),
}


@dataclass
class Outcome:
    """Outcome of a group: its bindings, evictions, conditions and messages."""

    bound: set[str]
    evicted: list[str]
    conditions: list[object]
    was_counted: bool


def outcome(case: Case, counted_from: int, patch: pytest.MonkeyPatch) -> Outcome:
    """Return what has become of the group after a minute."""
    patch.setattr(placement, "COUNTED_FROM", counted_from)
    counts: list[object] = []
    run: Callable[..., object] = full_nodes.MemberCount.run

    def recorded(*args: Any) -> object:
        counts.append(run(*args))
        return counts[-1]

    with patch.context() as recording:
        recording.setattr(full_nodes.MemberCount, "run", recorded)
        cluster = Cluster(*case.nodes, config=CONFIG)
        cluster.submit(*case.running)
        cluster.submit(case.group)
        messages = [cluster.message(each["metadata"]["name"]) for each in case.group.pods]
        cluster.advance(60)
    for each in case.group.pods:
        name = each["metadata"]["name"]
        messages += [cluster.message(name), cluster.reason(name)]
    shown: list[object] = [*messages, cluster.condition("PodGroup", "default/g", "PodGroupScheduled")]
    return Outcome(set(cluster.bindings), cluster.evicted_names, shown, any(each is not None for each in counts))


@pytest.mark.parametrize("case", CASES.values(), ids=CASES)
def test_count_has_the_outcome_of_a_search(case: Case, monkeypatch: pytest.MonkeyPatch) -> None:
    counted = outcome(case, 2, monkeypatch)
    searched = outcome(case, 10**9, monkeypatch)
    assert counted.was_counted is case.is_counted
    assert not searched.was_counted
    assert counted.conditions == searched.conditions
    assert (counted.bound, counted.evicted) == (searched.bound, searched.evicted)


def evaluations(size: int, nodes: int) -> int:
    """Return how many times members of a group are evaluated on all nodes in its first attempt."""
    cluster = Cluster(*slots(nodes), config=CONFIG)
    cluster.apply_all(gang("g", size, members(size), api=NATIVE))
    before = cluster.machine.context.attempts
    cluster.run()
    assert cluster.members("g") == (size if nodes >= size else 0)
    return cluster.machine.context.attempts - before


def test_group_of_a_thousand_that_lacks_one_node_is_refused_after_three_evaluations() -> None:
    assert evaluations(1000, nodes=1000) <= 1002
    assert evaluations(1000, nodes=999) == 3
