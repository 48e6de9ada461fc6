"""Reclaim and quotas as in the examples of other batch schedulers' documentation, with its numbers.

Where we decide otherwise, the example has both outcomes, and the reason.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, NamedTuple

import pytest

from tests.scenarios.batch.cluster import Cluster
from tests.scenarios.batch.manifests import VOLCANO, Gang, Manifest, elastic_quota, gang, in_queue, node, pod, queue

HOUR = 3600
CAPACITY_GUIDE = "Volcano, docs/user-guide/how_to_use_capacity_plugin.md"
CAPACITY_DESIGN = "Volcano, docs/design/capacity-scheduling.md"
HIERARCHY = "Volcano, website, hierarchical_queue.md"
CAPACITY_README = "scheduler-plugins, pkg/capacityscheduling/README.md"
CAPACITY_KEP = "scheduler-plugins, kep/9-capacity-scheduling"
CLUSTER_QUEUE = "Kueue, concepts/cluster_queue.md"
YUNIKORN = "YuniKorn, user_guide/preemption.md"

Running = Mapping[str, int]
"""Number of running pods by queue or namespace."""
ONE_CPU: Manifest = {"cpu": 1}


class Deployment(NamedTuple):
    """Pods of a queue, or of a namespace with an ElasticQuota."""

    of: str
    replicas: int
    running: Running
    """What runs 60 s later."""
    requests: Mapping[str, Any] = ONE_CPU
    priority: int = 0


class Example(NamedTuple):
    """Deployments that are created one after another."""

    source: str
    objects: list[Manifest]
    """Nodes, and queues or ElasticQuotas."""
    deployments: list[Deployment]
    evictions: int
    documented: Running | None = None
    """What runs in the end by the documentation, if we decide otherwise."""
    why: str = ""

    @property
    def has_queues(self) -> bool:
        """True if the pods name queues, False if ElasticQuotas count."""
        return any(each["kind"] == "Queue" for each in self.objects)


def quota(namespace: str, resource: str, least: int, most: int) -> Manifest:
    return elastic_quota(namespace, {resource: least}, {resource: most})


def card(amount: int) -> dict[str, Any]:
    return {"cpu": 0, "gpu": amount}


def deserving(name: str, cpu: int, **spec: Any) -> Manifest:
    return queue(name, deserved={"cpu": cpu}, **spec)


def teams(**spec: Any) -> list[Manifest]:
    """Return the two ClusterQueues of Kueue's examples, with nominal quotas of 9 and 12."""
    return [node("n1", 21), queue("a", deserved={"cpu": 9}, **spec), queue("b", deserved={"cpu": 12})]


A100, V100 = ({"cpu": 0, name: 10} for name in ("example.com/a100", "example.com/v100"))


def cards(a100: int, v100: int) -> dict[str, int]:
    return {"example.com/a100": a100, "example.com/v100": v100}


EXAMPLES = [
    Example(
        CAPACITY_GUIDE,
        [
            *(node(f"n{i}", 4, memory="16Gi") for i in range(2)),
            queue("queue1", deserved={"cpu": 2, "memory": "8Gi"}),
            queue("queue2", deserved={"cpu": 6, "memory": "24Gi"}),
        ],
        [
            Deployment("queue1", 8, {"queue1": 8}, {"cpu": 1, "memory": "4Gi"}),
            Deployment("queue2", 8, {"queue1": 2, "queue2": 6}, {"cpu": 1, "memory": "4Gi"}),
        ],
        evictions=6,
    ),
    Example(
        f"{CAPACITY_DESIGN}, Story 3: pods of 10 cards, A100 and then V100",
        [
            node("n1", 1, None, **cards(100, 100)),
            queue("queue1", guarantee=cards(10, 10), deserved=cards(20, 50)),
            queue("queue2", guarantee=cards(10, 10), deserved=cards(80, 50)),
        ],
        [
            Deployment("queue1", 10, {"queue1": 10}, A100),
            Deployment("queue1", 10, {"queue1": 20}, V100),
            Deployment("queue2", 10, {"queue1": 12, "queue2": 8}, A100),
            Deployment("queue2", 10, {"queue1": 7, "queue2": 13}, V100),
        ],
        evictions=13,
    ),
    Example(
        f"{CAPACITY_DESIGN}, Story 4: pods of 10 A100",
        [
            node("n1", 1, None, **cards(100, 100)),
            queue("queue1", guarantee=cards(20, 20), deserved=cards(40, 50), capability=cards(60, 50)),
            queue("queue2", guarantee=cards(20, 20), deserved=cards(60, 50)),
        ],
        [
            Deployment("queue1", 10, {"queue1": 6}, A100),
            Deployment("queue2", 10, {"queue1": 4, "queue2": 6}, A100),
        ],
        evictions=2,
        documented={"queue1": 2, "queue2": 4},
        why="a queue is only reclaimed from above its deserved amounts, and 40 of the 100 cards are free",
    ),
    Example(
        f"{HIERARCHY}: siblings come before other queues",
        [
            node("n1", 128, memory="256Gi"),
            *(deserving(name, 64) for name in ("a", "b")),
            *(deserving(name, 32, parent="a") for name in ("a1", "a2")),
        ],
        [
            Deployment("a1", 8, {"a1": 8}, {"cpu": 8}),
            Deployment("b", 8, {"a1": 8, "b": 8}, {"cpu": 8}),
            Deployment("a2", 8, {"a1": 4, "a2": 4, "b": 8}, {"cpu": 8}),
        ],
        evictions=4,
    ),
    Example(
        CAPACITY_README,
        [node("n1", 8), quota("quota1", "cpu", 4, 6), quota("quota2", "cpu", 4, 6)],
        [
            Deployment("quota1", 4, {"quota1": 3}, {"cpu": 2}),
            Deployment("quota2", 2, {"quota1": 2, "quota2": 2}, {"cpu": 2}),
        ],
        evictions=1,
    ),
    Example(
        f"{CAPACITY_KEP}, Story 1: the pods of A that borrow have 2 GPUs, and those of B 3",
        [node("n1", 1, gpu=10), quota("a", "gpu", 4, 6), quota("b", "gpu", 6, 8)],
        [
            Deployment("a", 1, {"a": 1}, card(2)),
            Deployment("b", 1, {"a": 1, "b": 1}, card(3)),
            Deployment("a", 1, {"a": 2, "b": 1}, card(2)),
            Deployment("a", 1, {"a": 3, "b": 1}, card(2)),
            Deployment("a", 1, {"a": 3, "b": 1}, card(1)),
            Deployment("b", 1, {"a": 2, "b": 2}, card(3)),
            Deployment("b", 1, {"a": 2, "b": 2}, card(1)),
        ],
        evictions=1,
    ),
    Example(
        f"{CAPACITY_KEP}, Story 2",
        [node("n1", 1, gpu=10), quota("a", "gpu", 3, 4), quota("b", "gpu", 4, 6), quota("c", "gpu", 3, 4)],
        [
            Deployment("a", 4, {"a": 4}, card(1)),
            Deployment("b", 3, {"a": 4, "b": 3}, card(1)),
            Deployment("c", 3, {"a": 4, "b": 3, "c": 3}, card(1)),
            Deployment("b", 1, {"a": 3, "b": 4, "c": 3}, card(1)),
        ],
        evictions=1,
    ),
    Example(
        f"{CAPACITY_KEP}, Story 2: above its minimum, a quota preempts its own pods only",
        [node("n1", 1, gpu=10), quota("a", "gpu", 3, 4), quota("b", "gpu", 4, 6), quota("c", "gpu", 3, 4)],
        [
            Deployment("a", 2, {"a": 2}, card(1)),
            Deployment("c", 3, {"a": 2, "c": 3}, card(1)),
            Deployment("b", 5, {"a": 2, "b": 5, "c": 3}, card(1)),
            Deployment("b", 1, {"a": 2, "b": 5, "c": 3}, card(1), priority=100),
        ],
        evictions=1,
    ),
    Example(
        f"{CAPACITY_KEP}, cross-namespace preemption",
        [node("n1", 1), quota("quota1", "cpu", 0, 2), quota("quota2", "cpu", 0, 2), quota("quota3", "cpu", 1, 2)],
        [Deployment("quota1", 1, {"quota1": 1}), Deployment("quota2", 1, {"quota1": 1}, priority=1_000_000)],
        evictions=0,
    ),
    Example(
        f"{CAPACITY_KEP}, known limitations: pods on two nodes",
        [*(node(f"n{i}", 2) for i in range(2)), quota("quota1", "cpu", 0, 2), quota("quota2", "cpu", 2, 2)],
        [
            Deployment("quota1", 2, {"quota1": 2}),
            Deployment("quota2", 1, {"quota2": 1}, {"cpu": 2}),
        ],
        evictions=2,
        documented={"quota1": 2},
        why="victims are chosen on all nodes",
    ),
    Example(f"{CLUSTER_QUEUE}, borrowing", teams(), [Deployment("a", 22, {"a": 21})], evictions=0),
    Example(
        f"{CLUSTER_QUEUE}, borrowing: the other queue has pending workloads",
        teams(),
        [Deployment("a", 9, {"a": 9}), Deployment("b", 10, {"a": 9, "b": 10}), Deployment("b", 2, {"a": 9, "b": 12})],
        evictions=0,
    ),
    Example(
        f"{CLUSTER_QUEUE}, borrowingLimit of 1",
        teams(capability={"cpu": 10}),
        [Deployment("a", 22, {"a": 10}), Deployment("b", 21, {"a": 9, "b": 12})],
        evictions=1,
    ),
    Example(
        f"{CLUSTER_QUEUE}, lendingLimit of 1: a guarantee of 11",
        [node("n1", 21), deserving("a", 9), deserving("b", 12, guarantee={"cpu": 11})],
        [Deployment("a", 22, {"a": 21})],
        evictions=0,
        documented={"a": 10},
        why="no capacity is held for a queue that requests nothing; it reclaims its share when it does",
    ),
    Example(
        f"{YUNIKORN}, general case",
        [node("n1", 12), *(deserving(f"q{i}", 5, capability={"cpu": 10}) for i in (1, 2))],
        [Deployment("q1", 10, {"q1": 10}), Deployment("q2", 10, {"q1": 7, "q2": 5})],
        evictions=3,
    ),
    Example(
        f"{YUNIKORN}, without guaranteed resources",
        [node("n1", 12), *(queue(f"q{i}", weight=1, capability={"cpu": 10}) for i in (1, 2))],
        [Deployment("q1", 10, {"q1": 10}), Deployment("q2", 10, {"q1": 6, "q2": 6})],
        evictions=4,
    ),
    Example(
        f"{YUNIKORN}, PriorityClass: a queue that is not reclaimable",
        [
            node("n1", 16),
            *(deserving(f"q{i}", 3, capability={"cpu": 8}, reclaimable=i != 2) for i in (1, 2, 3)),
        ],
        [
            Deployment("q1", 8, {"q1": 8}),
            Deployment("q2", 8, {"q1": 8, "q2": 8}),
            Deployment("q3", 8, {"q1": 5, "q2": 8, "q3": 3}),
        ],
        evictions=3,
    ),
    Example(
        f"{YUNIKORN}, priority queue: pods of 3",
        [
            node("n1", 18),
            deserving("high", 6, capability={"cpu": 10}, priority=100),
            deserving("normal", 6, capability={"cpu": 18}),
            deserving("low", 6, capability={"cpu": 10}, priority=-100),
        ],
        [
            Deployment("normal", 6, {"normal": 6}, {"cpu": 3}),
            Deployment("high", 5, {"high": 2, "normal": 4}, {"cpu": 3}),
            Deployment("low", 5, {"high": 2, "low": 2, "normal": 2}, {"cpu": 3}),
        ],
        evictions=4,
        documented={"high": 2, "normal": 4},
        why="the priority of a queue orders the queues; each of them may reclaim what it deserves",
    ),
    Example(
        f"{YUNIKORN}, preemption fence",
        [
            node("n1", 30),
            deserving("tenant-a", 5, capability={"cpu": 15}),
            *(deserving(f"q{i}", 2, parent="tenant-a", capability={"cpu": 15}) for i in (1, 2)),
            deserving("tenant-b", 10, capability={"cpu": 15}),
            deserving("system", 10, capability={"cpu": 15}),
        ],
        [
            Deployment("q1", 15, {"q1": 15}),
            Deployment("tenant-b", 15, {"q1": 15, "tenant-b": 15}),
            Deployment("system", 15, {"q1": 10, "system": 10, "tenant-b": 10}),
        ],
        evictions=10,
    ),
]


def run(example: Example) -> tuple[Cluster, list[Running]]:
    """Create the deployments and return what runs after each of them."""
    cluster = Cluster(*example.objects)
    running: list[Running] = []
    for i, deployment in enumerate(example.deployments):
        names = [f"{deployment.of}.{i}.{k}" for k in range(deployment.replicas)]
        pods = [create(deployment, name, names_queue=example.has_queues) for name in names]
        cluster.submit(*pods)
        cluster.advance_to(60 * (i + 1))
        running.append(running_by_queue(cluster))
    return cluster, running


def create(deployment: Deployment, name: str, *, names_queue: bool) -> Manifest:
    """Return a pod that names its queue, or whose namespace has an ElasticQuota."""
    manifest = pod(name, priority=deployment.priority, **deployment.requests)
    manifest["metadata"]["namespace"] = deployment.of
    return in_queue(deployment.of, manifest) if names_queue else manifest


def running_by_queue(cluster: Cluster) -> dict[str, int]:
    names = [key.partition("/")[0] for key in cluster.bindings]
    return {name: names.count(name) for name in sorted(set(names))}


@pytest.mark.parametrize("example", [pytest.param(each, id=each.source) for each in EXAMPLES])
def test_example(example: Example) -> None:
    cluster, running = run(example)
    assert running == [deployment.running for deployment in example.deployments]
    assert len(cluster.evictions) == example.evictions
    cluster.advance_to(HOUR)
    assert running_by_queue(cluster) == running[-1]
    assert len(cluster.evictions) == example.evictions, "evicted pods are created anew, and evict no others"
    assert (example.documented not in (None, running[-1])) == bool(example.why)


GANG_GUIDE = "Volcano, docs/user-guide/how_to_use_gangpreempt_and_gangreclaim.md"


@pytest.mark.parametrize(
    ("source", "queues", "priority"),
    [
        (f"{GANG_GUIDE}, Example 1", [deserving("victims", 4)], 100),
        (f"{GANG_GUIDE}, Example 2", [deserving("victims", 2), deserving("owner", 2)], 10),
    ],
)
def test_one_whole_gang_is_evicted_instead_of_one_pod_of_each(
    source: str, queues: list[Manifest], priority: int
) -> None:
    def job(name: str, queue_name: str, priority: int) -> Gang:
        pods = [pod(f"{name}-{i}", priority=priority) for i in range(2)]
        return gang(name, 2, pods, VOLCANO, queue_name)

    cluster = Cluster(node("n1", 4), *queues)
    victims = [job(name, "victims", 10) for name in ("victim-a", "victim-b")]
    cluster.submit(*victims)
    requester = job("requester", queues[-1]["metadata"]["name"], priority)
    cluster.submit(requester)
    cluster.advance_to(HOUR)
    assert cluster.members(requester) == 2
    assert sorted(map(cluster.members, victims)) == [0, 2]
    assert len(cluster.evictions) == 2
