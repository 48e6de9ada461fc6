"""Fair shares of queues: weighted max-min fairness within caps and guarantees, and in hierarchies."""

from __future__ import annotations

import random
from collections.abc import Callable

import pytest

from pyscheduler.cli.queue_rows import queue_rows
from tests.scenarios.batch.cluster import Cluster
from tests.scenarios.batch.manifests import VOLCANO, Gang, Manifest, annotated, gang, in_queue, node, pod, queue
from tests.scenarios.devices import claim, device_class, resource_slice


def elastic(queue_name: str, count: int, cpu: str | int = 1, memory: str = "0") -> Gang:
    """Return a group of a queue with a minimum of one pod."""
    pods = [pod(f"{queue_name}-{i}", cpu, memory=memory) for i in range(count)]
    return gang(queue_name, 1, pods, api=VOLCANO, queue=queue_name)


def shares(cluster: Cluster) -> dict[str, float]:
    """Return the cpus that each queue may claim, as `pyscheduler queues` shows them."""
    rows = queue_rows(cluster.machine.context, ())
    return {row.name: row.resources["cpu"].share if "cpu" in row.resources else 0 for row in rows if row.depth}


def test_group_reclaims_its_deserved_share_from_the_queue_over_its_own() -> None:
    cluster = Cluster(node("n1", 11), queue("t", weight=5), queue("u", weight=5), queue("default", weight=1))
    running, group = elastic("t", 11), gang("g", 2, api=VOLCANO, queue="u")
    cluster.submit(running)
    assert cluster.members(running) == 11
    cluster.submit(group)
    assert shares(cluster) == {"t": 9, "u": 2, "default": 0}
    cluster.advance_to(3600)
    assert len(cluster.evictions) == 2
    assert (cluster.members(running), cluster.members(group)) == (9, 2)
    assert shares(cluster) == {"t": 9, "u": 2, "default": 0}


def test_guarantee_beyond_the_fair_level_lowers_the_shares_of_the_others() -> None:
    cluster = Cluster(
        node("n1", 100),
        queue("a", weight=1),
        queue("b", weight=2),
        queue("c", weight=1, capability={"cpu": 20}),
        queue("d", weight=1, guarantee={"cpu": 35}),
    )
    halves = {"a": 200, "b": 60, "c": 200, "d": 80}
    cluster.submit(*(elastic(name, count, "500m") for name, count in halves.items()))
    cluster.advance_to(60)
    assert {name: cluster.members(f"{name}-") / 2 for name in halves} == {"a": 17.5, "b": 30, "c": 17.5, "d": 35}


def test_guarantee_beyond_the_request_is_left_to_others() -> None:
    cluster = Cluster(
        node("n1", 60),
        queue("a", weight=3, capability={"cpu": 25}),
        queue("b", weight=2),
        queue("c", weight=1, guarantee={"cpu": 10}),
    )
    cluster.submit(elastic("a", 50), elastic("b", 50), elastic("c", 5))
    cluster.advance_to(60)
    assert {name: cluster.members(f"{name}-") for name in "abc"} == {"a": 25, "b": 30, "c": 5}


def test_queue_of_weight_zero_gets_what_no_other_requests() -> None:
    cluster = Cluster(node("n1", 10), queue("a", weight=1), queue("zero", weight=0))
    cluster.submit(elastic("zero", 10), elastic("a", 7))
    cluster.advance_to(60)
    assert (cluster.members("a-"), cluster.members("zero-")) == (7, 3)


@pytest.mark.parametrize("step", [1, 5])
def test_dominant_resource_fairness_in_a_hierarchy(step: int) -> None:
    cluster = Cluster(
        node("n1", 10, memory="10Gi"),
        queue("root"),
        queue("sci", parent="root", weight=step),
        queue("eng", parent="root", weight=step),
        queue("dev", parent="eng", weight=step),
        queue("prod", parent="eng", weight=step),
    )
    cluster.submit(elastic("sci", 10, 1, "1Gi"), elastic("dev", 10, 1), elastic("prod", 10, 0, "1Gi"))
    cluster.advance_to(60)
    assert {name: cluster.members(f"{name}-") for name in ("sci", "dev", "prod")} == {"sci": 5, "dev": 5, "prod": 5}


def test_child_that_no_free_resource_serves_does_not_hold_its_siblings_back() -> None:
    cluster = Cluster(
        node("n1", 30, memory="30Gi"),
        queue("root"),
        *(queue(name, parent="root", weight=1) for name in ("q1", "q2", "q3", "q4")),
        *(queue(name, parent="q3", weight=1) for name in ("q31", "q32")),
    )
    of_cpu, of_memory = ("q1", "q2", "q31"), ("q32", "q4")
    cluster.submit(*(elastic(name, 30) for name in of_cpu), *(elastic(name, 30, 0, "1Gi") for name in of_memory))
    cluster.advance_to(60)
    assert {name: cluster.members(f"{name}-") for name in of_cpu} == {"q1": 10, "q2": 10, "q31": 10}
    assert {name: cluster.members(f"{name}-") for name in of_memory} == {"q32": 15, "q4": 15}


@pytest.mark.parametrize("seed", range(3))
def test_shares_of_a_hierarchy_do_not_drift_while_pods_end_and_start(seed: int) -> None:
    cluster = Cluster(
        node("n1", 10, gpu=10),
        queue("root"),
        *(queue(name, parent="root", weight=1) for name in ("n1", "n2")),
        *(queue(name, parent="n2", weight=1) for name in ("n21", "n22")),
    )
    pods = [pod(f"n22-{i}", 0, gpu=1) for i in range(20)]
    groups = {"n1": elastic("n1", 100), "n21": elastic("n21", 100)}
    cluster.submit(*groups.values(), gang("n22", 1, pods, api=VOLCANO, queue="n22"))
    assert {name: cluster.running(group) for name, group in groups.items()} == {"n1": 5, "n21": 5}
    rng = random.Random(seed)
    for _ in range(60):
        running = [key for group in groups.values() for key in group.keys if cluster.phase(key) == "Running"]
        cluster.end(rng.choice(running).partition("/")[2])
        cluster.advance(5)
        assert {name: cluster.running(group) for name, group in groups.items()} == {"n1": 5, "n21": 5}


def on_gpu_nodes(name: str) -> Manifest:
    """Return a pod for nodes that do not exist."""
    made = pod(name)
    made["spec"]["nodeSelector"] = {"example.com/gpu": "yes"}
    return made


def with_volume(name: str, claim_name: str) -> Manifest:
    """Return a pod with a PersistentVolumeClaim."""
    made = pod(name)
    made["spec"]["volumes"] = [{"name": "data", "persistentVolumeClaim": {"claimName": claim_name}}]
    return made


@pytest.mark.parametrize(
    "blocked",
    [
        pytest.param(gang("x", 5, api=VOLCANO, queue="small"), id="above its quota"),
        pytest.param(gang("x", 1, [pod("x0", 30)], api=VOLCANO, queue="other"), id="larger than any node"),
        pytest.param(gang("x", 13, api=VOLCANO, queue="other"), id="larger than the cluster"),
        pytest.param(gang("x", 2, api=VOLCANO, queue="other", min_resources={"cpu": 13}), id="minResources"),
        pytest.param(gang("x", 2, [pod("x0"), on_gpu_nodes("x1")], api=VOLCANO, queue="other"), id="node selector"),
        pytest.param(gang("x", 1, [with_volume("x0", "missing")], api=VOLCANO, queue="other"), id="missing claim"),
    ],
)
def test_no_share_is_kept_for_a_group_that_cannot_start(blocked: Gang) -> None:
    cluster = Cluster(
        *(node(f"n{i}", 4) for i in range(3)),
        *(queue(name, weight=1) for name in ("a", "other")),
        queue("small", weight=1, capability={"cpu": 3}),
    )
    cluster.submit(blocked)
    for i in range(12):
        cluster.submit(gang(f"a{i}", 1, api=VOLCANO, queue="a"))
    cluster.advance(60)
    assert cluster.members("a") == 12


def test_no_share_is_kept_for_a_group_that_is_larger_than_it() -> None:
    cluster = Cluster(node("n1", 4), queue("a"), queue("b"))
    for i in range(6):
        cluster.submit(gang(f"a{i}", 1, api=VOLCANO, queue="a"))
    cluster.submit(gang("b", 3, api=VOLCANO, queue="b"))
    cluster.delete("Pod", "a00")
    cluster.delete("Pod", "a10")
    cluster.advance(60)
    assert [f"default/a{i}0" in cluster.bindings for i in range(2, 6)] == [True] * 4


def test_a_job_that_waits_for_a_share_starts_once_that_is_not_kept_any_more() -> None:
    cluster = Cluster(node("n1", 4), queue("a", priority=1), queue("b"))
    cluster.submit(gang("a0", 2, api=VOLCANO, queue="a"))
    waiting, larger = gang("a1", 2, api=VOLCANO, queue="a"), gang("b", 3, api=VOLCANO, queue="b")
    cluster.apply_all(*waiting.objects, *waiting.pods, *larger.objects, *larger.pods)
    cluster.run()
    cluster.advance(30)
    assert cluster.members("a") == 4


def test_a_share_is_kept_again_once_its_node_exists() -> None:
    cluster = Cluster(node("n1", 4), queue("a"), queue("b"))
    cluster.submit(gang("b", 2, [on_gpu_nodes("b0"), on_gpu_nodes("b1")], api=VOLCANO, queue="b"))
    for i in range(4):
        cluster.submit(gang(f"a{i}", 1, api=VOLCANO, queue="a"))
    assert cluster.members("a") == 4
    cluster.submit(node("n1", 4, {"example.com/gpu": "yes"}))
    cluster.advance(60)
    assert cluster.members("b") == 2
    assert len(cluster.evictions) == 2


def test_shares_are_kept_for_groups_that_were_attempted_before_there_was_a_node() -> None:
    cluster = Cluster(queue("a"), queue("b"))
    cluster.submit(elastic("a", 10), elastic("b", 10))
    cluster.advance(30)
    cluster.submit(node("n1", 10))
    cluster.advance(60)
    assert (cluster.members("a-"), cluster.members("b-")) == (5, 5)


UNUSABLE = {
    "cordoned": {"unschedulable": True},
    "not ready": {"taints": [{"key": "node.kubernetes.io/not-ready", "effect": "NoExecute"}]},
}


@pytest.mark.parametrize("spec", UNUSABLE.values(), ids=UNUSABLE)
def test_unusable_nodes_are_not_divided(spec: Manifest) -> None:
    cluster = Cluster(node("n1", 4), {**node("n2", 4), "spec": spec}, queue("a"), queue("b"))
    cluster.submit(elastic("a", 4))
    cluster.submit(gang("b", 2, api=VOLCANO, queue="b"))
    cluster.advance(60)
    assert shares(cluster) == {"a": 2, "b": 2, "default": 0}
    assert (len(cluster.evictions), cluster.members("a"), cluster.members("b")) == (2, 2, 2)


def test_pods_on_a_cordoned_node_are_part_of_their_queues_share() -> None:
    cluster = Cluster(node("n1", 4), node("n2", 4), queue("a"), queue("b"))
    for i in range(8):
        cluster.submit(gang(f"a{i}", 1, api=VOLCANO, queue="a"))
    cluster.submit({**node("n2", 4), "spec": {"unschedulable": True}})
    cluster.submit(gang("b", 4, api=VOLCANO, queue="b"))
    cluster.advance(60)
    assert (cluster.members("a"), cluster.members("b")) == (4, 4)


def gated_by_claim(name: str) -> Manifest:
    """Return a pod of two cpus that waits for a claim."""
    made = in_queue("a", pod(name, 2))
    made["spec"]["resourceClaims"] = [{"name": "c", "resourceClaimName": name}]
    return made


def gated_by_name(name: str) -> Manifest:
    """Return a pod of two cpus with a scheduling gate."""
    made = in_queue("a", pod(name, 2))
    made["spec"]["schedulingGates"] = [{"name": "example.com/budget"}]
    return made


@pytest.mark.parametrize("gated", [gated_by_claim("x"), gated_by_name("x")], ids=["claim", "gate"])
def test_no_share_is_kept_for_a_pod_before_it_could_run(gated: Manifest) -> None:
    cluster = Cluster(node("n", 4), queue("a", weight=1), queue("b", weight=1))
    cluster.apply(device_class())
    cluster.apply(resource_slice("n", "g0"))
    cluster.submit(gated)
    cluster.submit(*(in_queue("b", pod(f"b{i}")) for i in range(4)))
    cluster.advance(60)
    assert cluster.members("b") == 4
    cluster.submit(claim("x"), {**gated, "spec": {**gated["spec"], "schedulingGates": []}})
    cluster.advance(60)
    assert (cluster.members("x"), cluster.members("b")) == (1, 2)


def test_no_share_is_kept_for_a_group_with_a_gated_pod_that_it_needs() -> None:
    cluster = Cluster(node("n", 4), queue("a", weight=1), queue("b", weight=1))
    pods = [pod("x0"), gated_by_name("x1")]
    cluster.submit(gang("x", 2, pods, api=VOLCANO, queue="a"))
    cluster.submit(*(in_queue("b", pod(f"b{i}")) for i in range(4)))
    cluster.advance(60)
    assert cluster.members("b") == 4


def with_device(name: str, cpu: int) -> Manifest:
    """Return a pod with a claim of its name to the only device."""
    made = pod(name, cpu)
    made["spec"]["resourceClaims"] = [{"name": "c", "resourceClaimName": name}]
    return made


def with_port(name: str, cpu: int) -> Manifest:
    """Return a pod with a port of the only node."""
    made = pod(name, cpu)
    made["spec"]["containers"][0]["ports"] = [{"containerPort": 80, "hostPort": 80}]
    return made


def with_anti_affinity(name: str, cpu: int) -> Manifest:
    """Return a pod that shares no node with others of its kind."""
    made = pod(name, cpu)
    made["metadata"]["labels"] = {"app": "x"}
    term = {"labelSelector": {"matchLabels": {"app": "x"}}, "topologyKey": "kubernetes.io/hostname"}
    made["spec"]["affinity"] = {"podAntiAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": [term]}}
    return made


def of_service(made: Manifest) -> Manifest:
    """Return the pod as one of a ReplicaSet, for the end of which no nodes are reserved."""
    owner = {"apiVersion": "apps/v1", "kind": "ReplicaSet", "name": "x", "uid": "x", "controller": True}
    made["metadata"]["ownerReferences"] = [owner]
    return made


@pytest.mark.parametrize("made", [with_device, with_port, with_anti_affinity])
def test_no_share_is_kept_for_a_pod_that_no_eviction_helps(made: Callable[[str, int], Manifest]) -> None:
    """Another pod of its queue has the device, the port or the node; once that ends, it reclaims what it needs."""
    cluster = Cluster(
        node("n", 8, {"kubernetes.io/hostname": "n"}), queue("a"), queue("b"), device_class(), resource_slice("n", "g0")
    )
    cluster.submit(claim("x0"), claim("x1"), in_queue("a", of_service(made("x0", 1))))
    cluster.submit(in_queue("a", made("x1", 2)))
    cluster.submit(*(in_queue("b", pod(f"b{i}")) for i in range(8)))
    cluster.advance(60)
    assert (cluster.members("x"), cluster.members("b")) == (1, 7)
    cluster.end("x0")
    cluster.delete("ResourceClaim", "x0")
    cluster.advance(60)
    assert "default/x1" in cluster.bindings
    assert (len(cluster.evictions), cluster.members("b")) == (1, 6)


def test_no_share_is_kept_for_a_pod_that_lacks_room_and_a_device() -> None:
    """The node is full first, and has too few cpus for it; what ends later is not kept idle for it."""
    cluster = Cluster(node("n", 8), queue("a"), queue("b"), device_class(), resource_slice("n", "g0"))
    cluster.submit(claim("x0"), claim("x1"), in_queue("a", of_service(with_device("x0", 1))))
    cluster.submit(*(in_queue("b", of_service(pod(f"b{i}"))) for i in range(9)))
    cluster.submit(in_queue("a", with_device("x1", 2)))
    cluster.advance(60)
    assert "Insufficient cpu" in cluster.message("x1")
    cluster.delete("Pod", "b0")
    cluster.run()
    assert cluster.members("b") == 7
    assert cluster.evictions == []


def test_share_is_kept_for_a_pod_that_evictions_help_later() -> None:
    """It preempts the pod with the port once that has run for its minimum time."""
    cluster = Cluster(node("n", 8), annotated(queue("a"), preempt_min_run_seconds="100"), queue("b"))
    cluster.submit(in_queue("a", of_service(with_port("x0", 1))))
    urgent = with_port("x1", 2)
    urgent["spec"]["priority"] = 10
    cluster.submit(in_queue("a", urgent))
    cluster.submit(*(in_queue("b", pod(f"b{i}")) for i in range(8)))
    cluster.advance(60)
    assert cluster.members("b") == 5
    cluster.advance(60)
    assert (cluster.evicted_names, cluster.members("x1"), cluster.members("b")) == (["x0"], 1, 6)
