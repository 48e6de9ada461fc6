"""Successive pods of one signature that should be spread: plugins score classes of equivalent nodes."""

from __future__ import annotations

from collections import Counter
from typing import Any

import pytest

from pyscheduler.api import PodSignature
from pyscheduler.intree.affinity.counts import AffinityWeight
from pyscheduler.intree.affinity.matching_terms import MatchingTermsCache
from pyscheduler.testing import Harness, node, pod

ZONE, HOSTNAME = "topology.kubernetes.io/zone", "kubernetes.io/hostname"
WEB = {"matchLabels": {"app": "web"}}
NODES, ZONES = 24, 3
Spec = dict[str, Any]


def soft_spreading(*keys: str) -> Spec:
    """Return soft spreading constraints over these topology keys."""
    each = {"maxSkew": 1, "whenUnsatisfiable": "ScheduleAnyway", "labelSelector": WEB}
    return {"topologySpreadConstraints": [{**each, "topologyKey": key} for key in keys]}


_ANTI_AFFINITY_TERM = {"weight": 100, "podAffinityTerm": {"topologyKey": HOSTNAME, "labelSelector": WEB}}
ANTI_AFFINITY: Spec = {
    "affinity": {"podAntiAffinity": {"preferredDuringSchedulingIgnoredDuringExecution": [_ANTI_AFFINITY_TERM]}}
}


class Cluster:
    """Cluster of 24 hosts in three zones."""

    def __init__(self, hosts: int = NODES) -> None:
        self.harness = Harness()
        names = [f"h{i % hosts}" for i in range(NODES)]
        self.harness.add(
            *(node(f"n{i}").label(ZONE, f"z{i % ZONES}").label(HOSTNAME, name) for i, name in enumerate(names))
        )
        self._pods = 0

    def place(self, spec: Spec, pods: int, app: str = "web", own_labels: bool = False) -> None:
        """Schedule pods one after the other."""
        for _ in range(pods):
            self._pods += 1
            built = pod(f"p{self._pods}").label("app", app).requests(cpu="10m").spec(**spec)
            self.harness.add(built.label("index", str(self._pods)) if own_labels else built)
            self.harness.run()

    def scored(self, plugin: str) -> int:
        """Return how many nodes the plugin has scored."""
        return self.harness.machine.context.profiles["default-scheduler"].evaluations.score[plugin].n

    @property
    def on_each(self) -> Counter[str]:
        return Counter(self.harness.assignments.values())

    @property
    def in_each_zone(self) -> Counter[str]:
        return Counter(f"z{int(name[1:]) % ZONES}" for name in self.harness.assignments.values())


@pytest.mark.parametrize(
    ("spec", "plugin"),
    [
        pytest.param(ANTI_AFFINITY, "InterPodAffinity", id="preferred anti-affinity"),
        pytest.param(soft_spreading(HOSTNAME), "PodTopologySpread", id="spreading"),
    ],
)
def test_hostname_topology_scores_numbers_of_pods(spec: Spec, plugin: str) -> None:
    cluster = Cluster()
    cluster.place(spec, 2)
    before = cluster.scored(plugin)
    cluster.place(spec, NODES - 2)
    assert cluster.on_each == Counter({f"n{i}": 1 for i in range(NODES)}), "each pod must be on an empty node"
    assert cluster.scored(plugin) - before <= 6 * (NODES - 2), "two numbers of pods, and room for others"
    cluster.place(spec, NODES)
    assert set(cluster.on_each.values()) == {2}, "each node must have two pods"


def test_zone_topology_scores_zones() -> None:
    cluster = Cluster()
    cluster.place(soft_spreading(ZONE), 3 * ZONES)
    assert set(cluster.in_each_zone.values()) == {3}
    assert cluster.scored("PodTopologySpread") == 3 * ZONES * ZONES


def test_two_topologies_score_zones_and_numbers_of_pods() -> None:
    cluster = Cluster()
    cluster.place(soft_spreading(ZONE, HOSTNAME), NODES)
    assert set(cluster.on_each.values()) == {1}
    assert cluster.scored("PodTopologySpread") <= 6 * ZONES * NODES


def test_nodes_that_share_a_host_name_are_one_domain() -> None:
    cluster = Cluster(hosts=NODES // 2)
    cluster.place(ANTI_AFFINITY, NODES // 2)
    hosts = Counter(int(name[1:]) % (NODES // 2) for name in cluster.harness.assignments.values())
    assert set(hosts.values()) == {1}


def test_all_nodes_are_scored_if_one_has_no_hostname_label() -> None:
    cluster = Cluster()
    unlabelled = node("n0").label(ZONE, "z0")
    del unlabelled.manifest["metadata"]["labels"][HOSTNAME]
    cluster.harness.add(unlabelled)
    cluster.place(soft_spreading(HOSTNAME), NODES - 1)
    assert cluster.on_each == Counter({f"n{i}": 1 for i in range(1, NODES)}), "n0 must stay empty"
    assert cluster.scored("PodTopologySpread") == NODES * (NODES - 1)


def test_counts_are_recomputed_when_nodes_change_to_shared_hostnames() -> None:
    cluster = Cluster()
    cluster.place(ANTI_AFFINITY, 2)
    for i in range(NODES):
        cluster.harness.add(node(f"n{i}").label(ZONE, f"z{i % ZONES}").label(HOSTNAME, f"h{i % 2}"))
    taken = {int(name[1:]) % 2 for name in cluster.harness.assignments.values()}
    cluster.place(ANTI_AFFINITY, 2 - len(taken))
    assert {int(name[1:]) % 2 for name in cluster.harness.assignments.values()} == {0, 1}


@pytest.mark.parametrize("own_labels", [False, True], ids=["one signature", "different labels"])
def test_affinity_weight_is_computed_once_per_signature(own_labels: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    calls: Counter[str] = Counter()
    of = AffinityWeight.of

    def counted(self: AffinityWeight, signature: PodSignature) -> int:
        calls[signature.labels.get("index", "")] += 1
        return of(self, signature)

    monkeypatch.setattr(AffinityWeight, "of", counted)
    cluster = Cluster()
    cluster.place(ANTI_AFFINITY, NODES, own_labels=own_labels)
    assert set(cluster.on_each.values()) == {1}
    assert max(calls.values()) <= 4, "once per signature and cached count: by node and by domain, each computed twice"


def node_of_second_pod() -> str:
    """Schedule two pods of one signature, the second after a pod with affinity to them was added; return its node."""
    cluster = Cluster()
    of_db = {"topologyKey": HOSTNAME, "labelSelector": {"matchLabels": {"app": "db"}}}
    cluster.harness.add(pod("other-affinity").on("n1").requests(cpu="1").preferred_pod_affinity(100, of_db))
    cluster.place({}, 1)
    of_web = {"topologyKey": HOSTNAME, "labelSelector": WEB}
    cluster.harness.add(pod("web-affinity").on("n2").requests(cpu="1").preferred_pod_affinity(100, of_web))
    cluster.place({}, 1)
    return cluster.harness.assignments["p2"]


def test_new_affinity_of_an_existing_pod_is_scored() -> None:
    assert node_of_second_pod() == "n2"


def test_stale_cache_of_matching_terms_fails_the_check(monkeypatch: pytest.MonkeyPatch) -> None:
    of: Any = MatchingTermsCache.of
    cache: dict[Any, Any] = {}

    def stale(self: MatchingTermsCache, incoming: PodSignature, *rest: Any) -> Any:
        return cache.setdefault((self, incoming), of(self, incoming, *rest))

    monkeypatch.setattr(MatchingTermsCache, "of", stale)
    assert node_of_second_pod() != "n2"
