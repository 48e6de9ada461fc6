"""Pods with the scheduling gate of queues: it is removed once their quota admits them."""

from __future__ import annotations

import copy
from typing import Any

import pytest
import yaml

from tests.scenarios.batch.cluster import CONFIG, Cluster, with_queue_args
from tests.scenarios.batch.manifests import (
    APIS,
    NATIVE,
    VOLCANO,
    Gang,
    Manifest,
    annotated,
    gang,
    in_queue,
    node,
    pod,
    queue,
)

GATE = "pyscheduler.io/queue-admission"
GROUP_QUEUE = "pyscheduler.io/pod-group-queue"


def gated(manifest: Manifest, *gates: str) -> Manifest:
    """Return a pod with the gate of queues, and others."""
    changed = copy.deepcopy(manifest)
    changed["spec"]["schedulingGates"] = [{"name": name} for name in (*gates, GATE)]
    return changed


def gated_gang(name: str, size: int, minimum: int = 0, *, api: str = VOLCANO, priority: int = 0) -> Gang:
    """Return a gang of queue `q` with gated pods."""
    pods = [gated(annotated(pod(f"{name}{i}", priority=priority), pod_group_queue="q")) for i in range(size)]
    return gang(name, minimum or size, pods, api=api)


def gates(cluster: Cluster, name: str) -> list[str]:
    """Return the names of a pod's gates."""
    return [gate["name"] for gate in cluster.pods[f"default/{name}"].manifest["spec"].get("schedulingGates") or ()]


def waits_at_gate(cluster: Cluster, group: Gang) -> int:
    """Return the number of pods of a group that are gated."""
    return sum(bool(gates(cluster, key.partition("/")[2])) for key in group.keys)


@pytest.mark.parametrize("api", APIS)
def test_gates_are_removed_when_the_quota_admits_the_group(api: str) -> None:
    cluster = Cluster(node("n", 10), queue("q", capability={"cpu": 3}))
    first, second = gated_gang("a", 2, api=api), gated_gang("b", 2, api=api)
    cluster.submit(first, runs=50)
    cluster.submit(second)
    cluster.advance_to(49)
    assert [cluster.members(first), waits_at_gate(cluster, second)] == [2, 2]
    assert cluster.reason("b0") == "QuotaExceeded"
    assert "queue q would exceed its capability of 3 cpu by 1 cpu: 2 cpu allocated, 2 cpu requested" in cluster.message(
        "b0"
    )
    cluster.advance_to(50)
    assert [cluster.members(second), waits_at_gate(cluster, second)] == [2, 0]


def test_admitted_group_without_room_keeps_its_quota_and_is_the_only_demand() -> None:
    cluster = Cluster(queue("q", capability={"cpu": 2}))
    first, second = gated_gang("a", 2), gated_gang("b", 2)
    cluster.submit(first, second)
    cluster.advance_to(600)
    assert [waits_at_gate(cluster, group) for group in (first, second)] == [0, 2]
    assert [cluster.reason(name) for name in ("a0", "a1", "b0", "b1")] == [
        "Unschedulable",
        "Unschedulable",
        "QuotaExceeded",
        "QuotaExceeded",
    ]
    cluster.submit(node("n", 10))
    cluster.advance(60)
    assert [cluster.members(group) for group in (first, second)] == [2, 0]


@pytest.mark.parametrize("api", [NATIVE, VOLCANO])
def test_restart_does_not_admit_another_group_instead(api: str) -> None:
    """The names sort the other way round, so that the second group is listed first."""
    cluster = Cluster(queue("q", capability={"cpu": 2}))
    first, second = gated_gang("z", 2, api=api), gated_gang("a", 2, api=api)
    cluster.submit(first)
    cluster.submit(second)
    cluster.restart()
    cluster.advance(60)
    assert [waits_at_gate(cluster, group) for group in (first, second)] == [0, 2]
    cluster.submit(node("n", 10))
    cluster.advance(60)
    assert [cluster.members(group) for group in (first, second)] == [2, 0]


@pytest.mark.parametrize("changes", range(4))
def test_restart_keeps_the_quota_of_admitted_pods_however_often_it_is_reported(changes: int) -> None:
    cluster = Cluster(node("n", 10), queue("q", capability={"cpu": 20}))
    admitted = gated_gang("a", 2)
    for each in admitted.pods:
        each["spec"]["containers"][0]["resources"] = {"requests": {"cpu": "10"}}
        each["spec"]["nodeSelector"] = {"no": "node"}
    cluster.submit(admitted)
    cluster.advance(10)
    assert waits_at_gate(cluster, admitted) == 0
    cluster.restart()
    for weight in range(changes):
        cluster.apply(queue("q", capability={"cpu": 20}, weight=weight + 1))
        cluster.machine.context.groups.report_usage()
    cluster.submit(in_queue("q", pod("b", priority=10)))
    cluster.advance(10)
    assert cluster.members("b") == 0


def test_restart_between_two_gates_removes_the_other_one() -> None:
    cluster = Cluster(node("n", 10), queue("q", capability={"cpu": 2}))
    group = gated_gang("a", 2)
    cluster.patch_error = lambda path: "forbidden" if path.endswith("a1") else ""
    cluster.submit(group)
    assert [gates(cluster, name) for name in ("a0", "a1")] == [[], [GATE]]
    cluster.patch_error = lambda path: ""
    cluster.restart()
    cluster.run()
    assert cluster.members(group) == 2


def test_gate_that_could_not_be_removed_is_named_and_removed_later() -> None:
    cluster = Cluster(node("n", 10), queue("q"))
    group = gated_gang("a", 2)
    attempts: list[float] = []

    def deny(path: str) -> str:
        if path.endswith("a1"):
            attempts.append(cluster.time)
        return 'pods "a1" is forbidden' if path.endswith("a1") else ""

    cluster.patch_error = deny
    cluster.submit(group)
    cluster.advance_to(1000)
    assert attempts == [0, 5, 15, 35, 75, 155, 315, 615, 915]
    failed = [note for reason, note in cluster.events("a1") if reason == "FailedGateRemoval"]
    assert failed == ['The gate pyscheduler.io/queue-admission is not removed yet: pods "a1" is forbidden']
    assert cluster.members(group) == 0
    assert cluster.reason("a1") == "SchedulingGated"
    assert "queue q admits the pod; its gate pyscheduler.io/queue-admission is being removed" in cluster.message("a1")
    cluster.patch_error = lambda path: ""
    cluster.advance(300)
    assert cluster.members(group) == 2


def test_pod_that_is_deleted_while_its_gate_is_removed_holds_nothing() -> None:
    cluster = Cluster(node("n", 10), queue("q", capability={"cpu": 2}))
    cluster.patch_error = lambda path: "unavailable" if path.endswith("a0") else ""
    cluster.submit(gated(in_queue("q", pod("a0", 2))), gated(in_queue("q", pod("b0", 2))))
    cluster.advance(20)
    assert [gates(cluster, name) for name in ("a0", "b0")] == [[GATE], [GATE]]
    cluster.delete("Pod", "a0")
    cluster.advance(20)
    assert cluster.bindings == {"default/b0": "n"}


def test_pod_above_the_minimum_keeps_its_gate_while_the_quota_is_used_up() -> None:
    cluster = Cluster(node("n", 10), queue("q", capability={"cpu": 3}))
    group = gated_gang("a", 5, 2)
    cluster.submit(group)
    cluster.advance_to(60)
    assert [cluster.members(group), waits_at_gate(cluster, group)] == [3, 2]
    cluster.end("a0")
    cluster.advance(60)
    assert [cluster.members(group), waits_at_gate(cluster, group)] == [4, 1]


def test_other_gates_hold_a_pod_before_its_queue() -> None:
    cluster = Cluster(node("n", 10), queue("q", capability={"cpu": 1}))
    held = in_queue("q", pod("a"))
    cluster.submit(gated(held, "example.com/budget"))
    cluster.submit(gated(in_queue("q", pod("b"))), runs=100)
    assert gates(cluster, "a") == ["example.com/budget", GATE]
    assert "default/b" in cluster.bindings
    cluster.submit(gated(held))
    cluster.advance_to(99)
    assert gates(cluster, "a") == [GATE]
    cluster.advance_to(101)
    assert "default/a" in cluster.bindings


def test_gated_group_of_a_higher_priority_preempts_in_its_queue() -> None:
    cluster = Cluster(node("n", 10), queue("q", capability={"cpu": 2}))
    cluster.submit(*(in_queue("q", pod(f"low{i}")) for i in range(2)))
    group = gated_gang("a", 2, priority=100)
    cluster.submit(group)
    cluster.advance(10)
    assert sorted(cluster.evicted_names) == ["low0", "low1"]
    assert [cluster.members(group), waits_at_gate(cluster, group)] == [2, 0]


def test_gates_are_removed_in_strict_order() -> None:
    cluster = Cluster(node("n", 10), queue("q", capability={"cpu": 3}, dequeueStrategy="fifo"))
    cluster.submit(gated_gang("a", 2))
    large, small = gated_gang("b", 3), gated_gang("c", 1)
    cluster.submit(large, small)
    cluster.advance_to(60)
    assert [waits_at_gate(cluster, group) for group in (large, small)] == [3, 1]


def test_admitted_jobs_count_toward_the_limit_of_their_user() -> None:
    limits = [{"queue": "q", "users": ["*"], "maxJobs": 1}]
    cluster = Cluster(queue("q"), config=with_queue_args(limits=limits))
    cluster.submit(*(gated(annotated(in_queue("q", pod(name)), user="alice")) for name in ("a", "b")))
    cluster.advance(60)
    assert [gates(cluster, name) for name in ("a", "b")] == [[], [GATE]]


def test_claimed_admission_does_not_exceed_the_quota() -> None:
    """A tenant may write the annotation of admitted pods."""
    cluster = Cluster(queue("q", capability={"cpu": 2}))
    forged = [annotated(in_queue("q", pod(f"forged{i}", 100)), queue_admitted="true") for i in range(3)]
    cluster.submit(*forged)
    group = gated_gang("a", 2)
    cluster.submit(group)
    cluster.advance(60)
    assert waits_at_gate(cluster, group) == 0
    assert {cluster.reason(f"forged{i}") for i in range(3)} == {"QuotaExceeded"}


def forged_group(name: str, size: int, minimum: int) -> Gang:
    """Return a group of queue `a` that fits no node, with the annotation of admitted pods, written by its owner."""
    pods = [annotated(pod(f"{name}{i}"), pod_group_queue="a", queue_admitted="true") for i in range(size)]
    for each in pods:
        each["spec"]["nodeSelector"] = {"no": "where"}
    return gang(name, minimum, pods, api=VOLCANO)


def tree(**fields: Any) -> list[Manifest]:
    """Return a node, and queues `a` and `b` below one with a capability of 10 cpus; `fields` are those of `a`."""
    children = queue("a", parent="p", **fields), queue("b", parent="p")
    return [queue("p", capability={"cpu": 10}), *children, node("n", 10)]


def test_claimed_admission_of_a_pod_in_a_closed_queue_takes_no_quota() -> None:
    cluster = Cluster(*tree(state="Closed"))
    cluster.submit(annotated(in_queue("a", pod("forged", 100)), queue_admitted="true"))
    cluster.submit(in_queue("b", pod("victim")))
    cluster.run()
    assert "default/victim" in cluster.bindings


@pytest.mark.parametrize("size", [8, 100])
def test_claimed_admission_of_a_pod_that_is_never_attempted_takes_no_quota(size: int) -> None:
    cluster = Cluster(*tree())
    forged = annotated(in_queue("a", pod("forged", size)), queue_admitted="true")
    forged["spec"]["resourceClaims"] = [{"name": "c", "resourceClaimName": "missing"}]
    cluster.submit(forged)
    cluster.restart()
    cluster.submit(*(in_queue("b", pod(f"victim{i}")) for i in range(5)))
    cluster.run()
    assert len(cluster.bindings) == 5


def test_claimed_admission_of_pods_above_the_minimum_takes_no_more_than_the_quota() -> None:
    cluster = Cluster(*tree(capability={"cpu": 4}))
    cluster.submit(forged_group("forged", 100, 1))
    cluster.advance(30)
    cluster.submit(*(in_queue("b", pod(f"victim{i}")) for i in range(6)))
    cluster.advance(60)
    assert len(cluster.bindings) == 6


def test_group_with_roles_is_admitted_as_far_as_its_quota_allows() -> None:
    cluster = Cluster(*tree())
    pods = [gated(annotated(pod(f"x{i}"), pod_group_queue="a")) for i in range(30)]
    for i, each in enumerate(pods):
        each["metadata"]["annotations"]["volcano.sh/task-spec"] = "driver" if i == 29 else "worker"
    group = gang("x", 3, pods, api=VOLCANO)
    group.objects[-1]["spec"]["minTaskMember"] = {"driver": 1, "worker": 2}
    cluster.submit(group)
    cluster.run()
    assert (waits_at_gate(cluster, group), gates(cluster, "x29")) == (20, [])


@pytest.mark.parametrize("size", [2, 6])
def test_admitted_minimum_preempts_while_the_others_wait_at_their_gates(size: int) -> None:
    cluster = Cluster(node("n", 2), queue("q", capability={"cpu": 4}))
    cluster.submit(*(in_queue("q", pod(f"low{i}")) for i in range(2)))
    group = gated_gang("x", size, 2, priority=100)
    cluster.submit(group)
    cluster.advance(60)
    assert sorted(cluster.evicted_names) == ["low0", "low1"]
    assert cluster.members(group) == 2


def test_deletion_of_a_pod_with_another_gate_leaves_the_quota_of_its_group() -> None:
    cluster = Cluster(queue("q", capability={"cpu": 2}))
    group = gated_gang("a", 2)
    cluster.submit(group)
    cluster.submit(gated(in_queue("q", pod("waiting"))))
    sibling = gated(annotated(pod("a9"), pod_group_queue="q"), "example.com/other")
    sibling["metadata"]["annotations"] |= group.pods[0]["metadata"]["annotations"]
    cluster.submit(sibling)
    cluster.delete("Pod", "a9")
    cluster.advance(60)
    assert gates(cluster, "waiting") == [GATE]


def test_gate_stays_without_queues() -> None:
    config = yaml.safe_load(CONFIG.read_text(encoding="utf-8"))
    config["profiles"][0]["plugins"]["multiPoint"]["enabled"].remove({"name": "Queues"})
    cluster = Cluster(node("n", 10), config=yaml.safe_dump(config))
    cluster.submit(gated(pod("a")))
    cluster.advance(60)
    assert gates(cluster, "a") == [GATE]
    cluster.submit(pod("a"))
    cluster.run()
    assert "default/a" in cluster.bindings
