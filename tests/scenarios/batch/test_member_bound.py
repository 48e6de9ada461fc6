"""Groups of different members that have more members than places are refused without a search for alternatives."""

from __future__ import annotations

import random
from collections.abc import Sequence

import pytest

from pyscheduler.core.pod_groups import member_bound, placement
from tests.scenarios.batch.cluster import Cluster
from tests.scenarios.batch.manifests import ANNOTATIONS, NATIVE, Manifest, gang, node, pod

HOSTNAME, ZONE = "kubernetes.io/hostname", "topology.kubernetes.io/zone"
CONFIG = """
apiVersion: kubescheduler.config.k8s.io/v1
kind: KubeSchedulerConfiguration
profiles:
  - schedulerName: pyscheduler
    plugins: {multiPoint: {enabled: [{name: PodGroups}]}}
"""
WITHOUT_AFFINITY = CONFIG.replace("}]}}", "}], disabled: [{name: InterPodAffinity}]}}")


def host(name: str, cpu: int, zone: str = "", pods: int = 1000) -> Manifest:
    """Return a node with the label of its name, and of its zone if it is in one."""
    manifest = node(name, cpu, {HOSTNAME: name} | ({ZONE: zone} if zone else {}))
    manifest["status"]["allocatable"]["pods"] = str(pods)
    return manifest


def hosts(count: int, cpu: int) -> list[Manifest]:
    return [host(f"n{i}", cpu) for i in range(count)]


def sized(*sizes: int) -> list[Manifest]:
    """Return pods of these cores."""
    return [pod(f"g{i}", cpu) for i, cpu in enumerate(sizes)]


def repelling(pods: Sequence[Manifest], key: str, app: str = "g", labels: str = "g") -> list[Manifest]:
    """Return the pods with a label, and required anti-affinity to pods with the label `app`."""
    term = {"topologyKey": key, "labelSelector": {"matchLabels": {"app": app}}}
    rule = {"podAntiAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": [term]}}
    return [
        {
            **each,
            "metadata": {**each["metadata"], "labels": {"app": labels}},
            "spec": {**each["spec"], "affinity": rule},
        }
        for each in pods
    ]


def running(name: str, on: str, app: str = "g") -> Manifest:
    manifest = pod(name, "100m")
    return {
        **manifest,
        "metadata": {**manifest["metadata"], "labels": {"app": app}},
        "spec": {**manifest["spec"], "nodeName": on},
    }


REFUSED = {
    "one more than nodes with room for one each": ([*hosts(3, 4)], sized(3, 3, 4, 4)),
    "more cores than all nodes have": ([*hosts(3, 8)], sized(1, 2, 3, 4, 5, 6, 7)),
    "more pods than the nodes allow": ([host("a", 9, pods=1), host("b", 9, pods=1)], sized(1, 2, 3)),
    "one more than hosts, apart by host": (hosts(3, 9), repelling(sized(1, 2, 3, 4), HOSTNAME)),
    "one more than zones, apart by zone": (
        [host(f"n{i}", 9, f"z{i % 2}") for i in range(6)],
        repelling(sized(1, 2, 3), ZONE),
    ),
    "as many as hosts, of which one runs a matching pod": (
        [*hosts(3, 9), running("old", "n1")],
        repelling(sized(1, 2, 3), HOSTNAME),
    ),
    "as many as zones, of which one is full": (
        [host("a", 9, "a"), host("b", 9, "b"), host("c", 0, "c")],
        repelling(sized(1, 2, 3), ZONE),
    ),
}
SEARCHED = {
    "room for all members in one way only": (hosts(2, 9), sized(6, 4, 3, 3, 2), 5),
    "a size that leaves too little room": (hosts(2, 9), sized(6, 6, 4, 2), 0),
    "apart by zone, on a node without zone": (
        [host("a", 9, "a"), host("b", 9)],
        repelling(sized(1, 2, 3, 1), ZONE),
        4,
    ),
    "apart from other pods only": (
        [*hosts(2, 9), running("old", "n0", "web")],
        repelling(sized(1, 2, 4), HOSTNAME, app="web"),
        3,
    ),
    "one of them apart": (hosts(1, 9), [*sized(1, 2), *repelling([pod("g2", 3)], HOSTNAME)], 3),
}


def outcome(objects: Sequence[Manifest], group: Sequence[Manifest], minimum: int, api: str) -> list[object]:
    """Return the bound pods, and the messages of all."""
    cluster = Cluster(*objects)
    cluster.submit(gang("g", minimum, group, api=api))
    names = [each["metadata"]["name"] for each in group]
    return [sorted(cluster.bindings), *map(cluster.message, names), *map(cluster.reason, names)]


def attempts_of(objects: Sequence[Manifest], group: Sequence[Manifest]) -> int:
    """Return how many times members are evaluated on all nodes in the first attempt of the group."""
    cluster = Cluster(*objects, config=CONFIG)
    cluster.apply_all(gang("g", len(group), group))
    before = cluster.machine.context.attempts
    cluster.run()
    assert not any(name.startswith("default/g") for name in cluster.bindings)
    return cluster.machine.context.attempts - before


@pytest.mark.parametrize(("objects", "group"), REFUSED.values(), ids=REFUSED)
def test_each_member_is_evaluated_once_if_there_are_too_few_places(
    objects: Sequence[Manifest], group: Sequence[Manifest]
) -> None:
    assert attempts_of(objects, group) <= len(group)


@pytest.mark.parametrize(("objects", "group", "bound"), SEARCHED.values(), ids=SEARCHED)
def test_group_is_searched_for_if_the_bound_does_not_exclude_it(
    objects: Sequence[Manifest], group: Sequence[Manifest], bound: int
) -> None:
    cluster = Cluster(*objects)
    cluster.submit(gang("g", len(group), group))
    assert cluster.members("g") == bound


def test_group_is_placed_together_if_its_profile_ignores_anti_affinity() -> None:
    cluster = Cluster(*hosts(1, 9), config=WITHOUT_AFFINITY)
    cluster.submit(gang("g", 3, repelling(sized(1, 2, 3), HOSTNAME)))
    assert cluster.members("g") == 3


def test_hundred_different_pods_apart_on_a_node_too_few_are_evaluated_once_each() -> None:
    assert attempts_of(hosts(99, 200), repelling(sized(*range(1, 101)), HOSTNAME)) == 100


@pytest.mark.parametrize("seed", range(40))
def test_group_is_refused_only_if_a_search_finds_no_nodes(seed: int, monkeypatch: pytest.MonkeyPatch) -> None:
    rng = random.Random(seed)
    objects = [host(f"n{i}", rng.randint(2, 6), rng.choice(["", "a", "b"]), rng.randint(1, 4)) for i in range(5)]
    if rng.random() < 0.5:
        objects.append(running("old", f"n{rng.randrange(5)}"))
    group = sized(*(rng.randint(1, 4) for _ in range(rng.randint(3, 8))))
    kind = rng.randrange(4)
    if kind:
        group = repelling(group[:5], rng.choice([ZONE, HOSTNAME]), app="g" if kind > 1 else "web")
    minimum, api = rng.randint(2, len(group)), rng.choice([NATIVE, ANNOTATIONS])
    bounded = outcome(objects, group, minimum, api)
    monkeypatch.setattr(placement, member_bound.may_fit.__name__, lambda *_: True)
    assert bounded == outcome(objects, group, minimum, api)
