"""Groups that fit in one way only: nodes with different labels, pods with affinity, leaders and workers."""

from __future__ import annotations

import random
from collections.abc import Callable, Sequence

import pytest

from tests.scenarios.batch.cluster import Cluster
from tests.scenarios.batch.manifests import RACK, Manifest, gang, node, pod, slots
from tests.scenarios.batch.placements import count_placements

HOSTNAME = "kubernetes.io/hostname"
ORDERS = range(10)
"""Seeds of the orders in which nodes and pods are created."""


def selecting(manifest: Manifest, pool: str) -> Manifest:
    """Return a pod that fits only nodes of a pool."""
    return {**manifest, "spec": {**manifest["spec"], "nodeSelector": {"pool": pool}}}


def app(manifest: Manifest, name: str) -> Manifest:
    """Return a pod with the label `app`."""
    return {**manifest, "metadata": {**manifest["metadata"], "labels": {"app": name}}}


def with_affinity(manifest: Manifest, name: str, key: str, rule: str = "podAffinity") -> Manifest:
    """Return a pod with required affinity (or another rule) to pods of an app in a topology."""
    term = {"topologyKey": key, "labelSelector": {"matchLabels": {"app": name}}}
    affinity = {rule: {"requiredDuringSchedulingIgnoredDuringExecution": [term]}}
    return {**manifest, "spec": {**manifest["spec"], "affinity": affinity}}


def together(count: int, cpu: int = 1, **more: int) -> list[Manifest]:
    """Return equal pods that have to share a rack."""
    return [app(with_affinity(pod(f"a{i}", cpu, **more), "a", RACK), "a") for i in range(count)]


def filler(name: str, cpu: int, on: str) -> Manifest:
    """Return a pod that runs on a node."""
    manifest = pod(name, cpu)
    return {**manifest, "spec": {**manifest["spec"], "nodeName": on}}


def host(name: str, cpu: int, rack: str = "") -> Manifest:
    """Return a node with the label of its name."""
    return node(name, cpu, {HOSTNAME: name, **({RACK: rack} if rack else {})})


def start(nodes: Sequence[Manifest], pods: Sequence[Manifest], seed: int = 0) -> Cluster:
    """Return a cluster after a group of all the pods was created, in an order of its own for each seed but 0."""
    listed, members = [*nodes], [*pods]
    if seed:
        rng = random.Random(seed)
        rng.shuffle(listed)
        rng.shuffle(members)
    cluster = Cluster(*listed)
    cluster.submit(gang("a", len(members), members))
    return cluster


def at(cluster: Cluster, name: str) -> str:
    return cluster.bindings.get(f"default/{name}", "")


# -- nodes that differ for some pods -----------------------------------------------------------------------------------


@pytest.mark.parametrize("seed", ORDERS)
@pytest.mark.parametrize(
    ("node_cpu", "free_cpu", "bound_cpu"),
    [
        pytest.param(1, 1, 1, id="pods of one size"),
        pytest.param(8, 8, 7, id="larger pods without selector"),
        pytest.param(8, 7, 8, id="smaller pods without selector"),
    ],
)
def test_pods_without_selector_leave_the_nodes_of_a_pool_to_those_that_need_it(
    node_cpu: int, free_cpu: int, bound_cpu: int, seed: int
) -> None:
    nodes = [node(f"{pool}{i}", node_cpu, {"pool": pool}) for pool in "xy" for i in range(4)]
    free = [pod(f"a{i}", free_cpu) for i in range(4)]
    bound = [selecting(pod(f"b{i}", bound_cpu), "x") for i in range(4)]
    cluster = start(nodes, [*free, *bound], seed)
    assert [at(cluster, f"a{i}")[:1] for i in range(4)] == ["y"] * 4
    assert [at(cluster, f"b{i}")[:1] for i in range(4)] == ["x"] * 4


def tainted(manifest: Manifest) -> Manifest:
    taint = {"key": "gpu", "value": "", "effect": "NoSchedule"}
    return {**manifest, "spec": {"taints": [taint]}}


def tolerating(manifest: Manifest) -> Manifest:
    return {**manifest, "spec": {**manifest["spec"], "tolerations": [{"key": "gpu", "operator": "Exists"}]}}


def with_port(manifest: Manifest) -> Manifest:
    [container] = manifest["spec"]["containers"]
    ports = [{"containerPort": 80, "hostPort": 80}]
    return {**manifest, "spec": {**manifest["spec"], "containers": [{**container, "ports": ports}]}}


@pytest.mark.parametrize("seed", ORDERS)
def test_pods_that_tolerate_a_taint_leave_other_nodes_to_those_that_do_not(seed: int) -> None:
    nodes = [*slots(3), *(tainted(node(f"gpu{i}")) for i in range(3))]
    pods = [*(tolerating(pod(f"a{i}")) for i in range(3)), *(pod(f"b{i}") for i in range(3))]
    assert start(nodes, pods, seed).members("") == 6


@pytest.mark.parametrize("seed", ORDERS)
def test_pods_without_host_port_leave_nodes_to_those_with_one(seed: int) -> None:
    nodes = [node(f"n{i}", 2) for i in range(4)]
    used = [with_port(filler(f"used{i}", 1, f"n{i}")) for i in range(2)]
    ported = [with_port(pod(f"a{i}", "500m")) for i in range(2)]
    plain = [pod(f"b{i}", "500m") for i in range(4)]
    larger = [pod(f"c{i}", "1500m") for i in range(2)]
    cluster = start([*nodes, *used], [*ported, *plain, *larger], seed)
    assert cluster.members("") == 10


@pytest.mark.parametrize("seed", ORDERS)
def test_random_pods_that_fill_labelled_nodes_all_start(seed: int) -> None:
    rng = random.Random(seed)
    nodes: list[Manifest] = []
    pods: list[Manifest] = []
    for i in range(rng.randint(4, 10)):
        cpu, pool = rng.choice([1, 2, 4, 8]), rng.choice("xyz")
        nodes.append(node(f"n{i}", cpu, {"pool": pool}))
        while cpu:
            size = rng.randint(1, cpu)
            cpu -= size
            single = pod(f"a{len(pods)}", size)
            pods.append(selecting(single, pool) if rng.random() < 0.5 else single)
    assert start(nodes, pods, seed).members("a") == len(pods)


# -- pods that need each other -----------------------------------------------------------------------------------------


@pytest.mark.parametrize("seed", ORDERS)
def test_pods_with_affinity_to_each_other_start_in_the_only_rack_with_room(seed: int) -> None:
    nodes = [node("n1", 4, {RACK: "a"}), node("n2", 4, {RACK: "b"}), filler("used", 3, "n1")]
    cluster = start(nodes, together(4), seed)
    assert [at(cluster, f"a{i}") for i in range(4)] == ["n2"] * 4


@pytest.mark.parametrize("seed", ORDERS)
def test_pods_with_affinity_to_each_other_find_one_rack_of_many(seed: int) -> None:
    rng = random.Random(seed)
    sizes = {f"r{j}": rng.randint(1, 3) for j in range(40)} | {"large": 4}
    nodes = [node(f"{rack}-{i}", 1, {RACK: rack}) for rack, size in sizes.items() for i in range(size)]
    cluster = start(nodes, together(4), seed)
    assert {at(cluster, f"a{i}").partition("-")[0] for i in range(4)} == {"large"}


def test_pods_with_affinity_to_each_other_preempt_in_the_rack_that_can_hold_them() -> None:
    nodes = [node("n1", 1, {RACK: "a"}), node("n2", 4, {RACK: "b"})]
    full = [filler("small", 1, "n1"), *(filler(f"large{i}", 1, "n2") for i in range(4))]
    cluster = Cluster(*nodes, *full)
    cluster.submit(gang("a", 4, together(4, priority=10), priority=10))
    cluster.advance_to(60)
    assert sorted(cluster.evicted_names) == [f"large{i}" for i in range(4)]
    assert [at(cluster, f"a{i}") for i in range(4)] == ["n2"] * 4


@pytest.mark.parametrize("seed", ORDERS)
@pytest.mark.parametrize("rooms", [[1, 5], [2, 3, 5], [1, 2, 2, 3, 3, 4, 4, 5], [*range(1, 30)]], ids=str)
def test_leader_goes_to_a_node_that_its_larger_workers_fit_too(rooms: list[int], seed: int) -> None:
    nodes = [host(f"n{i}", cpu) for i, cpu in enumerate(rooms)]
    pods = [app(pod("lead"), "lead"), *(with_affinity(pod(f"w{i}", 2), "lead", HOSTNAME) for i in range(2))]
    cluster = start(nodes, pods, seed)
    assert {at(cluster, name) for name in ("lead", "w0", "w1")} == {f"n{rooms.index(5)}"}


@pytest.mark.parametrize("seed", ORDERS)
def test_leaders_with_workers_of_their_own_share_out_the_racks(seed: int) -> None:
    nodes = [host(f"n{i}", 2, f"r{i // 4}") for i in range(12)]
    pods: list[Manifest] = []
    for i in range(3):
        workers = (with_affinity(pod(f"w{i}-{j}", 2), f"lead{i}", RACK) for j in range(3))
        pods += [app(pod(f"lead{i}"), f"lead{i}"), *workers]
    cluster = start(nodes, pods, seed)
    racks = [{int(at(cluster, f"w{i}-{j}")[1:]) // 4 for j in range(3)} for i in range(3)]
    assert sorted(racks, key=min) == [{0}, {1}, {2}]


@pytest.mark.parametrize("seed", ORDERS)
def test_workers_are_not_drawn_to_a_rack_without_nodes_of_their_pool(seed: int) -> None:
    nodes = [node(f"{pool}{i}", 1, {RACK: pool, "pool": pool}) for pool in "xyz" for i in range(4)]
    workers = [selecting(with_affinity(pod(f"w{i}"), "lead", RACK), "y") for i in range(3)]
    cluster = start(nodes, [app(pod("lead"), "lead"), *workers], seed)
    assert at(cluster, "lead")[:1] == "y"


# -- groups that do not fit --------------------------------------------------------------------------------------------

MISFITS: dict[str, Callable[[], tuple[list[Manifest], list[Manifest]]]] = {
    "a pool lacks one node": lambda: (
        [node(f"n{i}", 1, {"pool": "x" if i < 30 else "y"}) for i in range(80)],
        [*(pod(f"b{i}") for i in range(20)), *(selecting(pod(f"a{i}"), "x") for i in range(31))],
    ),
    "each rack lacks one node": lambda: (
        [node(f"n{i}", 1, {RACK: f"r{i // 20}"}) for i in range(200)],
        together(21),
    ),
    "no node has room for leader and workers": lambda: (
        [host(f"n{i}", 4) for i in range(50)],
        [app(pod("lead"), "lead"), *(with_affinity(pod(f"a{i}", 2), "lead", HOSTNAME) for i in range(2))],
    ),
}


@pytest.mark.parametrize("misfit", MISFITS)
def test_group_that_does_not_fit_is_rejected_after_few_tries(misfit: str, monkeypatch: pytest.MonkeyPatch) -> None:
    placements = count_placements(monkeypatch)
    nodes, pods = MISFITS[misfit]()
    cluster = start(nodes, pods)
    assert cluster.bindings == {}
    assert f"of {len(pods)} required pods have a node" in cluster.message("a0")
    searches = 2  # one in the attempt, and one for nodes to reserve
    assert placements() <= searches * (2 * len(pods) + 256)
