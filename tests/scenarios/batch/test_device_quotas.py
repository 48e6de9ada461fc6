"""Quotas of devices: a device counts once, however it is requested and by however many pods."""

from __future__ import annotations

import copy
from typing import Any, Final

import pytest

from tests.scenarios.batch.cluster import Cluster, with_queue_args
from tests.scenarios.batch.manifests import (
    NATIVE,
    Manifest,
    annotated,
    elastic_quota,
    gang,
    in_queue,
    node,
    pod,
    queue,
)
from tests.scenarios.devices import claim, device_class, exactly, resource_slice

BY_CLAIM: Final = "gpu.deviceclass.resource.k8s.io/devices"
BY_CLASS: Final = "deviceclass.resource.kubernetes.io/gpu"
BY_NAME: Final = "example.com/gpu"
NAMES: Final = (BY_CLAIM, BY_CLASS, BY_NAME)


def cluster(*objects: Manifest, devices: int = 8, config: Any = None) -> Cluster:
    """Return a cluster with a node of 16 cpus and a class of devices that provides example.com/gpu."""
    options = {} if config is None else {"config": config}
    made = Cluster(node("n", 16), *objects, **options)
    made.device_resources = frozenset(NAMES)
    made.apply(device_class(extendedResourceName=BY_NAME))
    made.apply(resource_slice("n", *(f"g{i}" for i in range(devices))))
    return made


def using(manifest: Manifest, *claims: str) -> Manifest:
    """Return a pod of queue `q` that uses claims."""
    changed = in_queue("q", manifest)
    changed["spec"]["resourceClaims"] = [{"name": name, "resourceClaimName": name} for name in claims]
    return changed


def with_claim(name: str, count: int = 1, **options: Any) -> list[Manifest]:
    """Return a pod and the claim for some devices that it uses."""
    return [claim(name, exactly(count=count)), using(pod(name, **options), name)]


def requesting(name: str, by: str, count: int = 1) -> list[Manifest]:
    """Return a pod that requests devices by one of the three names, with its claim if it has one."""
    return with_claim(name, count) if by == BY_CLAIM else [in_queue("q", pod(name, **{by: count}))]


@pytest.mark.parametrize("by", NAMES)
@pytest.mark.parametrize("limited", NAMES)
def test_device_counts_toward_each_of_its_names(limited: str, by: str) -> None:
    made = cluster(queue("q", capability={limited: 3}))
    for i in range(4):
        made.submit(*requesting(f"p{i}", by))
    assert made.members("p") == 3
    assert f"its capability of 3 {limited} by 1 {limited}: 3 {limited} allocated, 1 {limited} requested" in (
        made.message("p3")
    )
    assert made.reason("p3") == "QuotaExceeded"
    made.end("p0")
    made.advance(10)
    assert made.bindings.get("default/p3") == "n"


def test_requests_of_all_kinds_add_up() -> None:
    made = cluster(queue("q", capability={BY_NAME: 6}))
    for by in NAMES:
        made.submit(*requesting(f"p{NAMES.index(by)}", by, 2))
    made.submit(*requesting("last", BY_CLAIM))
    assert (made.members("p"), made.members("last")) == (3, 0)


@pytest.mark.parametrize(
    ("request_", "devices"),
    [
        pytest.param(exactly(count=3), 3, id="exact count"),
        pytest.param({"deviceClassName": "gpu", "allocationMode": "All"}, 32, id="all devices"),
        pytest.param(
            {
                "firstAvailable": [
                    {"name": "large", "deviceClassName": "gpu", "allocationMode": "ExactCount", "count": 2},
                    {"name": "small", "deviceClassName": "gpu", "allocationMode": "ExactCount", "count": 1},
                ]
            },
            2,
            id="largest alternative",
        ),
    ],
)
def test_claim_counts_as_in_a_resource_quota(request_: Manifest, devices: int) -> None:
    for quota, bound in ((devices - 1, 0), (devices, 1)):
        made = cluster(queue("q", capability={BY_CLAIM: quota}))
        made.submit(claim("c", request_), using(pod("p"), "c"))
        assert made.members("p") == bound


def test_shared_claim_counts_once_until_the_last_pod_ends() -> None:
    made = cluster(queue("q", capability={BY_CLAIM: 2}))
    made.submit(claim("shared", exactly(count=2)), *(using(pod(f"a{i}"), "shared") for i in range(3)))
    made.submit(*with_claim("b"))
    assert (made.members("a"), made.members("b")) == (3, 0)
    for i in range(3):
        assert made.members("b") == 0
        made.end(f"a{i}")
        made.advance(10)
    assert made.members("b") == 1


def test_pods_that_share_a_claim_follow_once_it_counts() -> None:
    made = cluster(queue("q", capability={BY_CLAIM: 2}))
    made.submit(*with_claim("first", 2))
    made.submit(claim("shared", exactly(count=2)), *(using(pod(f"a{i}"), "shared") for i in range(3)))
    assert made.members("a") == 0
    made.end("first")
    made.advance(10)
    assert made.members("a") == 3


def test_pods_of_a_gang_with_a_shared_claim_and_own_ones_count_each_claim_once() -> None:
    made = cluster(queue("q", capability={BY_CLAIM: 5}))
    made.apply(claim("shared", exactly(count=2)))
    for i in range(3):
        made.apply(claim(f"own{i}", exactly(count=1)))
    pods = [annotated(using(pod(f"g{i}"), "shared", f"own{i}"), pod_group_queue="q") for i in range(3)]
    group = gang("g", 3, pods, NATIVE)
    made.exempt(group)  # reservations of a shared claim conflict, and are retried after 10 ms
    made.submit(group)
    made.advance(10)
    made.submit(*with_claim("b"))
    assert (made.members("g"), made.members("b")) == (3, 0)


def test_claim_counts_in_each_queue_of_its_pods() -> None:
    made = cluster(queue("q"), queue("other", capability={BY_CLAIM: 1}))
    made.submit(claim("shared", exactly(count=2)), using(pod("a"), "shared"))
    made.submit(in_queue("other", using(pod("b"), "shared")))
    assert (made.members("a"), made.members("b")) == (1, 0)


def test_claim_of_a_template_counts_once_it_is_created() -> None:
    made = cluster(queue("q", capability={BY_CLAIM: 1}))
    for name in ("a", "b"):
        templated = in_queue("q", pod(name))
        templated["metadata"]["uid"] = f"uid-{name}"
        templated["spec"]["resourceClaims"] = [{"name": "gpu", "resourceClaimTemplateName": "template"}]
        made.submit(templated)
        owner = {"apiVersion": "v1", "kind": "Pod", "name": name, "uid": f"uid-{name}", "controller": True}
        made.apply(claim(f"{name}-gpu", ownerReferences=[owner]))
        status = {"resourceClaimStatuses": [{"name": "gpu", "resourceClaimName": f"{name}-gpu"}]}
        made.submit({**templated, "status": status})
        made.restart()
        made.advance(10)
    assert (made.members("a"), made.members("b")) == (1, 0)
    assert made.reason("b") == "QuotaExceeded"


@pytest.mark.parametrize("limited", ["elastic quota", "user"])
def test_device_limit_of_an_elastic_quota_and_of_a_user(limited: str) -> None:
    if limited == "user":
        limits = [{"queue": "q", "users": ["*"], "maxResources": {BY_CLAIM: 1}}]
        made = cluster(queue("q"), config=with_queue_args(limits=limits))
        message = f"user nobody would exceed its limit of 1 {BY_CLAIM}"
    else:
        made = cluster(queue("q"), elastic_quota("default", {}, {BY_NAME: 1}))
        message = f"queue default/quota would exceed its capability of 1 {BY_NAME}"
    for name in ("a", "b"):
        made.submit(*with_claim(name))
    assert made.bindings == {"default/a": "n"}
    assert message in made.message("b")


def test_restart_counts_the_devices_of_running_pods() -> None:
    made = cluster(queue("q", capability={BY_CLAIM: 2}))
    made.submit(*with_claim("a", 2))
    made.restart()
    made.submit(*with_claim("b"))
    made.advance(10)
    assert (made.members("a"), made.members("b")) == (1, 0)


def test_devices_of_a_terminating_pod_count_until_it_has_ended() -> None:
    made = cluster(queue("q", capability={BY_CLAIM: 2}))
    made.submit(*with_claim("a", 2))
    changed = copy.deepcopy(made.pods["default/a"].manifest)
    changed["metadata"]["deletionTimestamp"] = "2030-01-01T00:00:00Z"
    made.apply(changed)
    made.submit(*with_claim("b"))
    made.advance(10)
    assert made.members("b") == 0
    assert f"2 {BY_CLAIM} used by terminating pods" in made.message("b")
    made.delete("Pod", "a")
    made.advance(10)
    assert made.members("b") == 1


def test_gates_are_removed_within_the_quota_of_devices() -> None:
    made = cluster(queue("q", capability={BY_CLAIM: 2}))
    for i in range(3):
        own_claim, each = with_claim(f"a{i}")
        each["spec"]["schedulingGates"] = [{"name": "pyscheduler.io/queue-admission"}]
        made.apply_all(own_claim, each)
    made.run()
    made.advance(10)
    assert made.members("a") == 2


def test_important_pod_preempts_for_devices_of_its_own_queue() -> None:
    made = cluster(queue("q", capability={BY_CLAIM: 3}))
    for i in range(3):
        made.submit(*with_claim(f"a{i}"))
    made.submit(*with_claim("b", 2, priority=10))
    made.advance(10)
    assert (len(made.evictions), made.members("b")) == (2, 1)


def test_lowered_quota_of_devices_evicts_pods_with_devices_only() -> None:
    made = cluster(annotated(queue("q", capability={BY_CLAIM: 3}), quota_eviction_seconds="60"))
    made.submit(in_queue("q", pod("plain", 4)))
    for i in range(3):
        made.submit(*with_claim(f"a{i}"))
    made.submit(annotated(queue("q", capability={BY_CLAIM: 1}), quota_eviction_seconds="60"))
    made.advance(120)
    assert (len(made.evictions), made.members("a"), made.members("plain")) == (2, 1, 1)


def test_devices_keep_no_queue_from_its_share_of_other_resources() -> None:
    """Nodes list no devices, so nothing is reclaimed for them, and a queue with devices is not above its share."""
    made = cluster(queue("q", deserved={"cpu": 8}), queue("other", deserved={"cpu": 8}))
    made.submit(*[in_queue("other", pod(f"o{i}")) for i in range(16)])
    made.submit(*with_claim("a", 2, cpu=4))
    made.advance(10)
    assert (len(made.evictions), made.members("a")) == (4, 1)


@pytest.mark.parametrize("memory", [("1Mi", "2Gi"), ("2Gi", "1Mi")], ids=" ".join)
def test_member_with_the_smaller_claim_starts_whatever_memory_the_members_request(memory: tuple[str, str]) -> None:
    made = cluster(queue("q", capability={BY_CLAIM: 2}))
    made.submit(*with_claim("x"))
    requests = {"m": (1, "1Mi"), "large": (2, memory[0]), "small": (1, memory[1])}
    made.apply_all(*(claim(name, exactly(count=count)) for name, (count, _) in requests.items()))
    pods = [using(pod(name, memory=amount), name) for name, (_, amount) in requests.items()]
    group = gang("g", 1, [annotated(each, pod_group_queue="q") for each in pods])
    made.exempt(group)
    made.submit(group)
    made.advance(100)
    assert made.members("m") == 1
    made.end("x")
    made.advance(10)
    assert (made.members("large"), made.members("small")) == (0, 1)


def test_pod_that_needs_a_released_claim_itself_holds_back_no_others() -> None:
    """The pods wait for the same, until the claim that one of them shares does not count any more."""
    made = cluster(queue("q", capability={BY_CLAIM: 2, "cpu": 2}))
    made.submit(claim("shared", exactly(count=2)), *(using(pod(f"r{i}"), "shared") for i in range(2)))
    made.submit(using(pod("a"), "shared"))
    made.submit(in_queue("q", pod("b")))
    made.advance(30)
    assert made.members("r") == 2
    made.submit(queue("q", capability={BY_CLAIM: 1, "cpu": 2}))
    for i in range(2):
        made.end(f"r{i}")
    made.advance(10)
    assert (made.members("a"), made.members("b")) == (0, 1)
    assert f"its capability of 1 {BY_CLAIM} by 1" in made.message("a")


@pytest.mark.parametrize("order", [("a", "b"), ("b", "a")], ids=" ".join)
def test_pod_whose_shared_claim_counts_already_is_not_held_back_by_others(order: tuple[str, str]) -> None:
    """Both pods wait for two devices, until a pod gets a node without this scheduler that shares the claim of one."""
    made = cluster(queue("q", capability={BY_CLAIM: 2}))
    made.submit(*with_claim("x", 2))
    pods = {"a": [using(pod("a"), "own")], "b": [using(pod("b"), "shared")]}
    made.apply_all(claim("own", exactly(count=2)), claim("shared", exactly(count=2)))
    for name in order:
        made.submit(*pods[name])
    made.advance(30)
    assert (made.members("x"), made.members("a"), made.members("b")) == (1, 0, 0)
    placed = using(pod("placed"), "shared")
    placed["spec"]["nodeName"] = "n"
    made.submit(placed)
    made.advance(10)
    assert (made.members("a"), made.members("b")) == (0, 1)
