"""What a cluster autoscaler reads: `Unschedulable` pods are demand, incomplete and held back groups are not."""

from __future__ import annotations

import re

import pytest

from tests.scenarios.batch.cluster import Cluster
from tests.scenarios.batch.manifests import APIS, NATIVE, VOLCANO, gang, node, queue

UNSCHEDULABLE = "Unschedulable"


@pytest.mark.parametrize("api", APIS)
def test_pods_of_an_incomplete_group_are_no_demand(api: str) -> None:
    cluster = Cluster(node("n1", 7))
    group = gang("a", 8, api=api)
    cluster.submit(*group.objects, *group.pods[:2])
    cluster.advance_to(60)
    assert cluster.bindings == {}
    assert UNSCHEDULABLE not in {cluster.reason("a0"), cluster.reason("a1")}


def test_pods_that_a_quota_holds_back_are_no_demand() -> None:
    cluster = Cluster(node("n1", 8), queue("q", capability={"cpu": 4}))
    group = gang("a", 8, api=VOLCANO, queue="q")
    cluster.submit(group)
    cluster.advance_to(60)
    assert cluster.bindings == {}
    reasons = {cluster.reason(f"a{i}") for i in range(8)}
    assert UNSCHEDULABLE not in reasons
    assert reasons != {""}, "the reason is reported"


@pytest.mark.parametrize(
    ("api", "condition_type", "status"),
    [(NATIVE, "PodGroupInitiallyScheduled", "False"), (VOLCANO, "Unschedulable", "True")],
)
def test_all_pods_of_a_group_that_lacks_room_are_demand(api: str, condition_type: str, status: str) -> None:
    cluster = Cluster(node("n1", 7))
    group = gang("a", 8, api=api)
    cluster.submit(group)
    cluster.advance_to(60)
    assert {cluster.reason(f"a{i}") for i in range(8)} == {UNSCHEDULABLE}
    condition = cluster.condition("PodGroup", "default/a", condition_type)
    assert condition is not None
    assert condition["status"] == status
    assert re.search(r"\b1 cpu\b|\bcpu\b.*\b1\b", condition["message"])
    cluster.submit(node("n2", 1))
    cluster.advance_to(75)
    assert cluster.members(group) == 8
