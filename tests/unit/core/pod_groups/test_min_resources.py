"""A group starts once its minimum resources are free, and those of started groups are not."""

from __future__ import annotations

import pytest

from pyscheduler.api import PodGroup, PodGroupKey
from pyscheduler.core.pod_groups.min_resources import missing_resources
from tests.scenarios.batch.cluster import Cluster
from tests.scenarios.batch.manifests import VOLCANO, gang, node, pod

KEY = PodGroupKey("default", "b", "scheduling.volcano.sh")


def missing(cluster: Cluster, priority: int = 0, **resources: int) -> str:
    """Return what a new group with these minimum resources lacks."""
    return missing_resources(cluster.machine.context, PodGroup(KEY, 1, min_resources=resources), priority)


@pytest.mark.parametrize(("cpu", "expected"), [(3000, ""), (3500, "3500m cpu (3 free)"), (5000, "5 cpu (3 free)")])
def test_resources_of_all_nodes_are_added(cpu: int, expected: str) -> None:
    cluster = Cluster(node("n1", 2), node("n2", 2))
    cluster.submit(pod("single"))
    assert missing(cluster, cpu=cpu) == expected


def test_group_without_minimum_resources_lacks_nothing() -> None:
    assert missing(Cluster()) == ""


@pytest.mark.parametrize(("priority", "expected"), [(0, "2 cpu (1 free)"), (1, "")])
def test_started_groups_of_no_lower_priority_have_their_minimum_reserved(priority: int, expected: str) -> None:
    cluster = Cluster(node("n1", 4))
    cluster.submit(gang("a", 1, api=VOLCANO, min_resources={"cpu": "3"}))
    assert missing(cluster, priority, cpu=2000) == expected


def test_group_that_has_started_lacks_nothing() -> None:
    cluster = Cluster(node("n1", 1))
    cluster.submit(gang("b", 1, api=VOLCANO))
    assert missing(cluster, cpu=9000) == ""
