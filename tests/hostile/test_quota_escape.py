"""A tenant that changes the declarations of its running pods gets no more than the quota of its queue."""

from __future__ import annotations

import copy
from collections.abc import Callable

import pytest

from tests.scenarios.batch.cluster import Cluster, with_queue_args
from tests.scenarios.batch.manifests import VOLCANO, Gang, Manifest, annotated, gang, in_queue, node, pod, queue
from tests.scenarios.devices import claim, device_class, exactly, resource_slice

Change = Callable[[Cluster, Gang], None]


def _delete_group(cluster: Cluster, job: Gang) -> None:
    cluster.delete("PodGroup", job.name)


def _need_a_missing_priority_class(cluster: Cluster, job: Gang) -> None:
    group = copy.deepcopy(job.objects[-1])
    group["spec"]["priorityClassName"] = "missing"
    cluster.apply(group)


def _declare_two_groups(cluster: Cluster, job: Gang) -> None:
    for each in job.pods:
        changed = copy.deepcopy(cluster.pods[f"default/{each['metadata']['name']}"].manifest)
        changed["metadata"].setdefault("labels", {})["scheduling.x-k8s.io/pod-group"] = "second"
        cluster.apply(changed)


def _give_an_invalid_grace_period(cluster: Cluster, job: Gang) -> None:
    group = copy.deepcopy(job.objects[-1])
    group["metadata"]["annotations"] = {"pyscheduler.io/pod-group-stale-grace-seconds": "soon"}
    cluster.apply(group)


CHANGES = [
    pytest.param(_delete_group, id="deletes the PodGroup"),
    pytest.param(_need_a_missing_priority_class, id="names a missing PriorityClass"),
    pytest.param(_declare_two_groups, id="adds a second declaration to its pods"),
    pytest.param(_give_an_invalid_grace_period, id="gives an invalid grace period"),
]


def job(name: str, size: int = 2) -> Gang:
    pods = [in_queue("q", pod(f"{name}{i}")) for i in range(size)]
    return gang(name, size, pods, api=VOLCANO, queue="q")


@pytest.mark.parametrize("restarts", [False, True], ids=["running", "restarted"])
@pytest.mark.parametrize("change", CHANGES)
def test_pods_of_an_invalid_group_count_toward_the_quota(change: Change, restarts: bool) -> None:
    cluster = Cluster(node("n", 8), queue("q", weight=1, capability={"cpu": 2}))
    running, later = job("a"), job("b")
    cluster.submit(running)
    cluster.exempt(running)
    change(cluster, running)
    if restarts:
        cluster.restart()
    cluster.submit(later)
    cluster.advance(60)
    assert (cluster.members(running), cluster.members(later)) == (2, 0)


@pytest.mark.parametrize("change", CHANGES)
def test_pods_of_an_invalid_group_are_reclaimed(change: Change) -> None:
    cluster = Cluster(node("n", 4), queue("q", weight=1), queue("other", weight=1))
    borrowed = job("a", 4)
    cluster.submit(borrowed)
    cluster.exempt(borrowed)
    change(cluster, borrowed)
    cluster.submit(gang("b", 2, api=VOLCANO, queue="other"))
    cluster.advance(60)
    assert cluster.members("b") == 2


def terminate(cluster: Cluster, deleted: Gang) -> None:
    """Delete the pods of a group, which take long to end, and its PodGroup."""
    cluster.exempt(deleted)
    for each in deleted.pods:
        changed = copy.deepcopy(cluster.pods[f"default/{each['metadata']['name']}"].manifest)
        changed["metadata"]["deletionTimestamp"] = "2030-01-01T00:00:00Z"
        cluster.apply(changed)
    cluster.delete("PodGroup", deleted.name)


@pytest.mark.parametrize("restarts", [False, True], ids=["running", "restarted"])
def test_deleted_pods_count_toward_the_quota_until_they_have_ended(restarts: bool) -> None:
    cluster = Cluster(node("n", 8), queue("q", weight=1, capability={"cpu": 2}))
    deleted, later = job("a"), job("b")
    cluster.submit(deleted)
    terminate(cluster, deleted)
    if restarts:
        cluster.restart()
    cluster.submit(later)
    cluster.advance(60)
    assert cluster.members(later) == 0
    amounts = "0 cpu allocated, 2 cpu requested, 2 cpu used by terminating pods"
    text = f"queue q would exceed its capability of 2 cpu by 2 cpu: {amounts}"
    assert text in cluster.message("b0")
    for each in deleted.pods:
        cluster.delete("Pod", each["metadata"]["name"])
    cluster.advance(1)
    assert cluster.members(later) == 2


def test_important_pods_evict_nothing_for_a_quota_that_terminating_pods_use() -> None:
    cluster = Cluster(node("n", 8), queue("q", weight=1, capability={"cpu": 4}))
    deleted, running = job("a"), job("b")
    cluster.submit(deleted, running)
    terminate(cluster, deleted)
    important = gang("c", 2, [pod(f"c{i}", priority=10) for i in range(2)], VOLCANO, "q")
    cluster.submit(important)
    cluster.advance(60)
    assert cluster.evictions == []
    for each in deleted.pods:
        cluster.delete("Pod", each["metadata"]["name"])
    cluster.advance(1)
    assert (cluster.members(running), cluster.members(important)) == (2, 2)


def test_victims_with_a_long_grace_period_count_toward_the_quota_of_their_queue() -> None:
    cluster = Cluster(node("n", 8), queue("q", weight=1, capability={"cpu": 2}))
    victims = [in_queue("q", annotated(pod(f"a{i}"), ends_after="100")) for i in range(2)]
    cluster.submit(*victims)
    important = gang("c", 2, [pod(f"c{i}", priority=10) for i in range(2)], VOLCANO, "q")
    cluster.submit(important)
    cluster.advance(90)
    assert len(cluster.evictions) == 2
    assert cluster.members(important) == 0
    cluster.advance(20)
    assert cluster.members(important) == 2


def test_deleted_pods_on_a_lost_node_count_toward_no_quota() -> None:
    cluster = Cluster(node("n", 8), node("m", 8), queue("q", weight=1, capability={"cpu": 2}))
    deleted, later = job("a"), job("b")
    cluster.submit(deleted)
    terminate(cluster, deleted)
    for name in {*map(cluster.bindings.get, deleted.keys)}:
        cluster.delete("Node", str(name))
    cluster.submit(later)
    cluster.advance(1)
    assert cluster.members(later) == 2


def test_deleted_pods_count_toward_the_limits_of_their_user() -> None:
    limits = [{"queue": "q", "users": ["*"], "maxResources": {"cpu": 2}}]
    cluster = Cluster(node("n", 8), queue("q", weight=1), config=with_queue_args(limits=limits))
    deleted, later = job("a"), job("b")
    cluster.submit(deleted)
    terminate(cluster, deleted)
    cluster.submit(later)
    cluster.advance(60)
    assert cluster.members(later) == 0


def test_deleted_pods_do_not_keep_others_from_their_share() -> None:
    """Their room becomes free: the queue is not above its share because of them."""
    cluster = Cluster(node("n", 4), queue("q", weight=1), queue("other", weight=1))
    deleted, running = job("a"), job("b")
    cluster.submit(deleted, running)
    terminate(cluster, deleted)
    cluster.submit(gang("c", 2, api=VOLCANO, queue="other"))
    cluster.advance(60)
    assert cluster.evictions == []
    for each in deleted.pods:
        cluster.delete("Pod", each["metadata"]["name"])
    cluster.advance(1)
    assert cluster.members("c") == 2


DEVICES = "gpu.deviceclass.resource.k8s.io/devices"


def with_devices(quota: int) -> Cluster:
    """Return a cluster with 16 devices and a queue that may allocate some of them."""
    cluster = Cluster(node("n", 16), queue("q", capability={DEVICES: quota}))
    cluster.apply(device_class())
    cluster.apply(resource_slice("n", *(f"g{i}" for i in range(16))))
    return cluster


def user_of(name: str, claim_name: str, queue_name: str = "q") -> Manifest:
    """Return a pod that uses a claim."""
    made = in_queue(queue_name, pod(name))
    made["spec"]["resourceClaims"] = [{"name": "gpu", "resourceClaimName": claim_name}]
    return made


@pytest.mark.parametrize("counts", [(4, 4, 1, 1), (1, 1, 4, 4), (1, 4, 1, 4)], ids=str)
def test_equal_pods_of_a_template_that_was_changed_count_their_own_claims(counts: tuple[int, ...]) -> None:
    """The pods have one spec; the claims that were created from its template differ."""
    cluster = with_devices(4)
    members = []
    for i, count in enumerate(counts):
        member = pod(f"a{i}")
        member["metadata"]["uid"] = f"uid-{i}"
        member["spec"]["resourceClaims"] = [{"name": "gpu", "resourceClaimTemplateName": "template"}]
        member["status"] = {"resourceClaimStatuses": [{"name": "gpu", "resourceClaimName": f"c{i}"}]}
        owner = {"apiVersion": "v1", "kind": "Pod", "name": f"a{i}", "uid": f"uid-{i}", "controller": True}
        cluster.apply(claim(f"c{i}", exactly(count=count), ownerReferences=[owner]))
        members.append(member)
    cluster.submit(gang("a", 2, members, VOLCANO, "q"))
    cluster.advance(60)
    used = sum(count for i, count in enumerate(counts) if f"default/a{i}" in cluster.bindings)
    assert 2 <= used <= 4


def test_claim_that_is_created_anew_with_less_counts_as_before_while_its_pod_runs() -> None:
    cluster = with_devices(3)
    cluster.submit(claim("c", exactly(count=3)), user_of("a", "c"))
    cluster.delete("ResourceClaim", "c")
    cluster.submit(claim("c", exactly(count=1)))
    cluster.submit(claim("d", exactly(count=1)), user_of("b", "d"))
    cluster.advance(60)
    assert (cluster.members("a"), cluster.members("b")) == (1, 0)


def test_claim_that_is_created_anew_with_more_counts_while_its_pod_waits() -> None:
    cluster = with_devices(3)
    cluster.submit(claim("c", exactly(count=3)), user_of("a", "c"))
    cluster.submit(claim("d", exactly(count=1)), user_of("b", "d"))
    cluster.delete("ResourceClaim", "d")
    cluster.submit(claim("d", exactly(count=2)))
    cluster.end("a")
    cluster.submit(claim("e", exactly(count=2)), user_of("late", "e"))
    cluster.advance(60)
    assert cluster.members("b") + cluster.members("late") == 1


def test_claim_shared_with_a_pod_of_another_queue_counts_before_that_pod_ends() -> None:
    cluster = with_devices(1)
    cluster.apply(queue("free"))
    cluster.submit(claim("shared", exactly(count=2)), user_of("a", "shared", "free"))
    cluster.submit(user_of("b", "shared"))
    cluster.end("a")
    cluster.advance(60)
    assert cluster.members("b") == 0


QUEUE_GATE = {"name": "pyscheduler.io/queue-admission"}


def gated_user_of(name: str, claim_name: str, cpu: int = 1000) -> Manifest:
    """Return a pod that uses a claim, waits for its queue, and by default fits no node."""
    made = user_of(name, claim_name)
    made["spec"]["containers"][0]["resources"] = {"requests": {"cpu": str(cpu)}} if cpu else {}
    made["spec"]["schedulingGates"] = [QUEUE_GATE]
    return made


def hold_claim_without_minimum(cluster: Cluster, name: str, claim_name: str) -> None:
    """Let a group be admitted, with a claim, that has too few members afterwards."""
    pods = [annotated(gated_user_of(f"{name}{i}", claim_name), pod_group_queue="q") for i in range(2)]
    admitted = gang(name, 2, pods)
    cluster.exempt(admitted)
    cluster.submit(admitted)
    cluster.advance(20)
    assert not cluster.pods[f"default/{name}0"].manifest["spec"].get("schedulingGates")
    cluster.delete("Pod", f"{name}1")
    cluster.advance(5)


def test_claims_that_admitted_groups_without_their_minimum_hold_are_no_devices_for_others() -> None:
    cluster = with_devices(2)
    for i in range(4):
        cluster.apply(claim(f"c{i}", exactly(count=2)))
        hold_claim_without_minimum(cluster, f"h{i}", f"c{i}")
    cluster.submit(*[user_of(f"u{i}", f"c{i}") for i in range(4)])
    cluster.advance(20)
    assert cluster.members("u") == 1


def test_claims_of_pods_that_were_admitted_before_the_quota_was_lowered_are_no_devices_for_others() -> None:
    """After a restart, these pods have not been compared with the quota when more important ones are attempted."""
    cluster = with_devices(6)
    for i in range(3):
        cluster.submit(claim(f"c{i}", exactly(count=2)), gated_user_of(f"h{i}", f"c{i}"))
        cluster.advance(20)
    cluster.apply(queue("q", capability={DEVICES: 2}))
    important = [user_of(f"u{i}", f"c{i}") for i in range(3)]
    for each in important:
        each["spec"]["priority"] = 10
    cluster.apply_all(*important)
    cluster.restart()
    cluster.advance(20)
    assert cluster.members("u") == 1


@pytest.mark.parametrize("cpu", [1000, 0], ids=["cpus and devices", "devices only"])
def test_quota_is_kept_for_the_devices_of_admitted_pods(cpu: int) -> None:
    cluster = with_devices(2)
    for name in ("a", "b"):
        waiting = gated_user_of(name, f"c-{name}", cpu)
        waiting["spec"]["nodeSelector"] = {"no": "node"}
        cluster.submit(claim(f"c-{name}", exactly(count=2)), waiting)
        cluster.advance(20)
    gated = [name for name in ("a", "b") if cluster.pods[f"default/{name}"].manifest["spec"].get("schedulingGates")]
    assert gated == ["b"]
    assert cluster.reason("b") == "QuotaExceeded"
