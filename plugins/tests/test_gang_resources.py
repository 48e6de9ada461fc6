"""spec.minResources: a group starts only if the resources of all its pods are free."""

from __future__ import annotations

from pyscheduler.testing import node, pod
from tests.scenarios.devices import device_class
from tests.scenarios.gangs import Cluster, member


def application(cluster: Cluster, name: str) -> None:
    """Create a driver pod as the Spark operator does; it creates two executors once it runs."""
    cluster.group(name, 1, minResources={"cpu": "3"})
    cluster.add(member(f"{name}-driver", name))


def start_executors(cluster: Cluster) -> None:
    for name in [name for name in cluster.assignments if name.endswith("driver")]:
        for i in range(2):
            if f"default/{name}-{i}" not in cluster._pods:
                cluster.add(member(f"{name}-{i}", name.removesuffix("-driver")))
    cluster.run()


def test_drivers_do_not_take_the_resources_of_executors() -> None:
    cluster = Cluster(slots=4)
    for name in "wxyz":
        application(cluster, name)
    cluster.run()
    start_executors(cluster)
    cluster.advance(3600)
    assert len(cluster.assignments) == 3
    assert cluster.members("w") == 3


def test_next_application_starts_when_one_has_succeeded() -> None:
    cluster = Cluster(slots=4)
    for name in "wx":
        application(cluster, name)
    cluster.run()
    start_executors(cluster)
    for name in ("w-driver-0", "w-driver-1", "w-driver"):
        cluster.end(name)
    cluster.advance(15)
    start_executors(cluster)
    cluster.advance(15)
    assert cluster.members("x") == 3


def test_gang_waits_and_names_the_missing_resource_when_min_resources_exceed_what_is_free() -> None:
    cluster = Cluster(slots=2)
    cluster.group("a", 1, minResources={"cpu": "8", "pods": 2})
    cluster.add(member("a0", "a"))
    cluster.advance(60)
    assert cluster.assignments == {}
    assert "pod group default/a needs 8 cpu (2 free)" in cluster.pending_message("a0")
    assert cluster.reason("a0") == "Unschedulable"


def test_gang_starts_although_devices_provide_a_resource_that_no_node_lists() -> None:
    cluster = Cluster(slots=2)
    cluster.apply(device_class(extendedResourceName="example.com/gpu"))
    cluster.group("a", 1, minResources={"example.com/gpu": "1"})
    cluster.add(member("a0", "a"))
    cluster.run()
    assert cluster.members("a") == 1


def test_gang_starts_when_min_resources_are_lowered() -> None:
    cluster = Cluster(slots=2)
    cluster.group("a", 1, minResources={"cpu": "8"})
    cluster.add(member("a0", "a"))
    cluster.run()
    cluster.group("a", 1, minResources={"cpu": "2"})
    cluster.advance(15)
    assert cluster.members("a") == 1


def test_resources_are_released_when_min_resources_are_removed() -> None:
    cluster = Cluster(slots=4)
    application(cluster, "w")
    cluster.run()
    application(cluster, "x")
    cluster.run()
    assert set(cluster.assignments) == {"w-driver"}
    cluster.group("w", 1)
    cluster.advance(15)
    assert set(cluster.assignments) == {"w-driver", "x-driver"}


def test_resources_of_lower_priority_pods_count_as_free() -> None:
    cluster = Cluster(slots=3)
    cluster.add(*(pod(f"low{i}").requests(cpu="1") for i in range(3)))
    cluster.run()
    cluster.group("a", 1, minResources={"cpu": "3"})
    cluster.add(member("a0", "a").priority(100))
    cluster.run()
    cluster.advance(15)
    assert len(cluster.evicted()) == 1
    assert cluster.members("a") == 1
    cluster.group("b", 1, minResources={"cpu": "3"})
    cluster.add(member("b0", "b"))
    cluster.run()
    cluster.advance(15)
    assert cluster.members("b") == 0


def test_invalid_min_resources_are_reported() -> None:
    cluster = Cluster(slots=1)
    cluster.group("a", 1, minResources={"cpu": "much"})
    cluster.add(member("a0", "a"))
    cluster.run()
    assert cluster.pending_message("a0") == "pod group default/a has an invalid spec.minResources"


def test_gang_is_retried_once_a_class_provides_its_resources() -> None:
    cluster = Cluster(slots=2)
    cluster.group("a", 1, minResources={"example.com/gpu": "1"})
    cluster.add(member("a0", "a"))
    cluster.run()
    assert cluster.members("a") == 0
    cluster.apply(device_class(extendedResourceName="example.com/gpu"))
    cluster.advance(15)
    assert cluster.members("a") == 1


def test_gang_is_retried_once_an_existing_class_provides_its_resources() -> None:
    cluster = Cluster(slots=2)
    cluster.apply(device_class())
    cluster.group("a", 1, minResources={"example.com/gpu": "1"})
    cluster.add(member("a0", "a"))
    cluster.run()
    assert cluster.members("a") == 0
    cluster.apply(device_class(extendedResourceName="example.com/gpu"))
    cluster.advance(15)
    assert cluster.members("a") == 1


def test_gang_is_retried_once_a_running_pod_requests_less() -> None:
    cluster = Cluster()
    running = pod("busy").requests(cpu="3").on("n")
    cluster.add(node("n", cpu="4"), running)
    cluster.group("a", 1, minResources={"cpu": "3"})
    cluster.add(member("a0", "a"))
    cluster.run()
    assert cluster.members("a") == 0
    cluster.add(running.requests(cpu="1"))
    cluster.advance(15)
    assert cluster.members("a") == 1


def test_gang_is_retried_once_the_last_pod_leaves_a_group_that_reserves_resources() -> None:
    cluster = Cluster(slots=4)
    application(cluster, "w")
    cluster.run()
    application(cluster, "x")
    cluster.run()
    assert set(cluster.assignments) == {"w-driver"}
    left = cluster._pods["default/w-driver"]
    cluster.add(left.label("scheduling.x-k8s.io/pod-group", "other"))
    cluster.advance(15)
    assert set(cluster.assignments) == {"w-driver", "x-driver"}


def test_gang_is_retried_once_the_last_pod_of_a_group_that_reserves_resources_is_terminating() -> None:
    cluster = Cluster(slots=4)
    application(cluster, "w")
    cluster.run()
    application(cluster, "x")
    cluster.run()
    assert set(cluster.assignments) == {"w-driver"}
    cluster.add(cluster._pods["default/w-driver"].deleting())
    cluster.advance(15)
    assert set(cluster.assignments) == {"w-driver", "x-driver"}


def test_gang_is_retried_soon_after_a_taint_was_removed() -> None:
    cluster = Cluster(slots=1)
    tainted = node("tainted", cpu="1").taint("a", "b", "NoSchedule")
    cluster.add(tainted, *cluster.gang("a", 2))
    cluster.run()
    cluster.advance(2)
    cluster.add(node("tainted", cpu="1"))
    cluster.advance(30)
    assert cluster.members("a") == 2


def test_gang_that_did_not_fit_is_retried_once_a_running_pod_requests_less() -> None:
    cluster = Cluster()
    running = pod("busy").requests(cpu="1").on("n")
    cluster.add(node("n", cpu="2"), running, *cluster.gang("a", 2))
    cluster.run()
    cluster.advance(15)
    assert cluster.members("a") == 0
    cluster.add(running.requests(cpu="0"))
    cluster.advance(15)
    assert cluster.members("a") == 2
