"""The checks that every batch scenario runs under find partly bound groups and nodes over their allocatable."""

from __future__ import annotations

import pytest

from tests.scenarios.batch.cluster import Cluster
from tests.scenarios.batch.manifests import gang, node, pod

PLAIN = """
apiVersion: kubescheduler.config.k8s.io/v1
kind: KubeSchedulerConfiguration
profiles:
- plugins: {}
"""
WITHOUT_FIT = PLAIN.replace("{}", "{multiPoint: {disabled: [{name: NodeResourcesFit}]}}")


def test_partly_bound_group_is_found() -> None:
    cluster = Cluster(node("n1", 2), config=PLAIN)
    with pytest.raises(AssertionError, match="2 of 3 pods of a are bound"):
        cluster.submit(gang("a", 3))


def test_group_with_a_deleted_pod_may_be_partly_bound() -> None:
    cluster = Cluster(node("n1", 3), gang("a", 3), config=PLAIN)
    cluster.run()
    cluster.delete("Pod", "a0")
    cluster.run()
    assert len(cluster.bindings) == 2


def test_group_with_an_evicted_pod_is_found() -> None:
    cluster = Cluster(node("n1", 3), gang("a", 3), config=PLAIN)
    cluster.run()
    with pytest.raises(AssertionError, match="2 of 3 pods of a are bound"):
        cluster.submit(pod("high", priority=10))


def test_node_over_its_allocatable_is_found() -> None:
    cluster = Cluster(node("n1", 1), pod("a"), pod("b"), config=WITHOUT_FIT)
    with pytest.raises(AssertionError, match=r"pods on n1 request .*2000"):
        cluster.run()


def test_pods_end_and_evicted_pods_are_created_anew() -> None:
    cluster = Cluster(node("n1", 1), pod("low"), config=PLAIN)
    cluster.run()
    cluster.submit(pod("high", priority=10), runs=20)
    cluster.advance_to(40)
    assert cluster.evictions == [(cluster.epoch, "default/low")]
    assert 0 < cluster.started["default/high"] < 5
    condition = cluster.condition("Pod", "default/low", "PodScheduled")
    assert condition is not None
    assert condition["status"] == "True", "the new pod of the same name is bound after the other has ended"
