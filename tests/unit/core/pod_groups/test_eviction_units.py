"""Order and content of the units in which preemption evicts pods."""

from __future__ import annotations

from pathlib import Path

import pytest

from pyscheduler.api import PodGroupKey
from pyscheduler.api.steps import exhaust
from pyscheduler.core.pod_groups.eviction_units import eviction_order, eviction_units, leaves_minimums
from tests.scenarios.batch.cluster import CONFIG, Cluster
from tests.scenarios.batch.manifests import NATIVE, VOLCANO, Gang, annotated, gang, node, pod

NONE = PodGroupKey("", "")
HIGH = 100
WITHOUT_QUEUES = """
apiVersion: kubescheduler.config.k8s.io/v1
kind: KubeSchedulerConfiguration
profiles: [{plugins: {multiPoint: {enabled: [{name: PodGroups}]}}}]
"""


def cluster_with(*objects: Gang | dict[str, object], config: str | Path = CONFIG) -> Cluster:
    """Return a cluster in which each object is scheduled a second after the one before."""
    cluster = Cluster(node("n1", 50), config=config)
    for each in objects:
        cluster.submit(each)
        cluster.advance(1)
    return cluster


def units(cluster: Cluster, priority: int = HIGH, preemptor: PodGroupKey = NONE) -> list[list[str]]:
    """Return the names of the pods of each unit, which are the same if single pods are read from columns."""
    context = cluster.machine.context
    found = exhaust(eviction_units(context, preemptor, priority))
    order = exhaust(eviction_order(context, preemptor, priority))
    assert order.first(len(order)) == found
    pods = list(dict.fromkeys(pod for unit in found for pod in unit.pods))
    assert list(order.pods) == pods
    assert order.rows.tolist() == [node.row for pod in pods if (node := context.state.node_of(pod.uid)) is not None]
    assert order.requests("cpu").tolist() == [pod.requests.effective["cpu"] for pod in pods]
    for count in range(len(found) + 1):
        assert set(order.pods_of_first(count)) == {pod for unit in found[:count] for pod in unit.pods}
    return [[each.name for each in unit.pods] for unit in found]


def test_surplus_is_before_single_pods_and_those_before_whole_groups() -> None:
    cluster = cluster_with(gang("a", 2, 3, api=VOLCANO), pod("single"))
    assert units(cluster) == [["a2"], ["single"], ["a2", "a1", "a0"]]


def test_single_pods_without_queues_are_between_surplus_and_whole_groups() -> None:
    group, low = gang("a", 2, 3, api=VOLCANO), pod("low", priority=-1)
    cluster = cluster_with(pod("old"), group, pod("new"), low, config=WITHOUT_QUEUES)
    assert units(cluster) == [["low"], ["a2"], ["new"], ["old"], ["a2", "a1", "a0"]]


def test_lower_priority_is_before_lower_rank() -> None:
    group = gang("a", 1, [pod("a0", priority=5), pod("a1", priority=5)], api=VOLCANO)
    assert units(cluster_with(group, pod("low"))) == [["low"], ["a1"], ["a1", "a0"]]


def test_newest_pods_of_a_rank_are_first() -> None:
    assert units(cluster_with(pod("old"), pod("new"))) == [["new"], ["old"]]


def test_pods_of_the_preemptor_and_of_no_lower_priority_are_left_out() -> None:
    cluster = cluster_with(gang("a", 2, api=VOLCANO), pod("equal", priority=HIGH), pod("low"))
    assert units(cluster, preemptor=PodGroupKey("default", "a", "scheduling.volcano.sh")) == [["low"]]


def test_group_with_a_high_priority_of_its_own_is_left_out() -> None:
    assert units(cluster_with(gang("a", 2, 3, api=NATIVE, priority=HIGH))) == []


def test_terminating_pods_are_left_out() -> None:
    cluster = cluster_with(annotated(pod("slow"), ends_after="60"), pod("other"))
    cluster.add(cluster.pods["default/slow"].deleting())
    assert units(cluster) == [["other"]]


def test_group_of_disruption_mode_all_has_one_unit() -> None:
    cluster = cluster_with(gang("a", 1, 3, api=NATIVE, disruption_mode="all"))
    assert units(cluster) == [["a2", "a1", "a0"]]


def test_pods_of_a_group_below_its_minimum_are_units_of_their_own() -> None:
    cluster = cluster_with(gang("a", 3, api=VOLCANO))
    cluster.delete("Pod", "a0")
    assert sorted(units(cluster)) == [["a1"], ["a2"]]


def test_surplus_leaves_the_minimum_of_each_role() -> None:
    group = gang("a", 2, [pod("launcher"), pod("worker0"), pod("worker1")], api=VOLCANO)
    group.objects[0]["spec"]["minTaskMember"] = {"launcher": 1, "worker": 1}
    for each in group.pods:
        role = each["metadata"]["name"].rstrip("01")
        each["metadata"]["annotations"]["volcano.sh/task-spec"] = role
    group.pods.append(group.pods.pop(0))  # the launcher is the newest
    cluster = cluster_with(*group.objects, *group.pods)
    assert units(cluster) == [["worker1"], ["launcher", "worker1", "worker0"]]


def test_succeeded_pods_count_toward_the_minimum() -> None:
    cluster = cluster_with(gang("a", 2, 3, api=VOLCANO))
    cluster.end("a0")
    assert units(cluster) == [["a2"], ["a2", "a1"]]


@pytest.mark.parametrize(
    ("victims", "expected"),
    [(["a0"], True), (["a0", "a1"], False), (["a0", "a1", "a2"], True), (["single"], True), (["a2", "single"], True)],
)
def test_group_keeps_its_minimum_or_loses_all_pods(victims: list[str], expected: bool) -> None:
    cluster = cluster_with(gang("a", 2, 3, api=VOLCANO), pod("single"))
    context = cluster.machine.context
    pods = [each for each in context.pods.values() if each.name in victims]
    assert leaves_minimums(context, pods) is expected


def test_group_of_disruption_mode_all_loses_no_single_pod() -> None:
    context = cluster_with(gang("a", 1, 3, api=NATIVE, disruption_mode="all")).machine.context
    assert not leaves_minimums(context, [next(iter(context.pods.values()))])
