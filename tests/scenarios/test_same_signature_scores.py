"""Pods of one signature that should be spread, one after the other: of nodes that score alike one is asked."""

from __future__ import annotations

from collections import Counter
from typing import Any

import pytest

from pyscheduler.api import PodSignature
from pyscheduler.intree.affinity.counts import AffinityWeight, IncomingPod
from pyscheduler.intree.affinity.matching_terms import MatchingTermsCache
from pyscheduler.testing import Harness, node, pod

ZONE, HOSTNAME = "topology.kubernetes.io/zone", "kubernetes.io/hostname"
WEB = {"matchLabels": {"app": "web"}}
NODES, ZONES = 24, 3
Spec = dict[str, Any]


def softly(*keys: str) -> Spec:
    """Spread the web over these, if it can be done."""
    each = {"maxSkew": 1, "whenUnsatisfiable": "ScheduleAnyway", "labelSelector": WEB}
    return {"topologySpreadConstraints": [{**each, "topologyKey": key} for key in keys]}


_APART = {"weight": 100, "podAffinityTerm": {"topologyKey": HOSTNAME, "labelSelector": WEB}}
APART: Spec = {"affinity": {"podAntiAffinity": {"preferredDuringSchedulingIgnoredDuringExecution": [_APART]}}}


class Fleet:
    """24 hosts in three zones; `asked` is how often a plugin has scored a node."""

    def __init__(self, hosts: int = NODES) -> None:
        self.harness = Harness()
        names = [f"h{i % hosts}" for i in range(NODES)]
        self.harness.add(
            *(node(f"n{i}").label(ZONE, f"z{i % ZONES}").label(HOSTNAME, name) for i, name in enumerate(names))
        )
        self._pods = 0

    def place(self, spec: Spec, pods: int, app: str = "web", own_labels: bool = False) -> None:
        """One after the other."""
        for _ in range(pods):
            self._pods += 1
            built = pod(f"p{self._pods}").label("app", app).requests(cpu="10m").spec(**spec)
            self.harness.add(built.label("turn", str(self._pods)) if own_labels else built)
            self.harness.run()

    def asked(self, plugin: str) -> int:
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
        pytest.param(APART, "InterPodAffinity", id="preferred anti-affinity"),
        pytest.param(softly(HOSTNAME), "PodTopologySpread", id="spreading"),
    ],
)
def test_where_each_node_is_a_domain_one_is_asked_of_those_with_as_many_pods(spec: Spec, plugin: str) -> None:
    fleet = Fleet()
    fleet.place(spec, 2)
    before = fleet.asked(plugin)
    fleet.place(spec, NODES - 2)
    assert fleet.on_each == Counter({f"n{i}": 1 for i in range(NODES)}), "and each found an empty one"
    assert fleet.asked(plugin) - before == 2 * (NODES - 2)
    fleet.place(spec, NODES)
    assert set(fleet.on_each.values()) == {2}, "now that all have one, the next round begins"


def test_where_a_domain_has_many_nodes_one_is_asked_of_each() -> None:
    fleet = Fleet()
    fleet.place(softly(ZONE), 3 * ZONES)
    assert set(fleet.in_each_zone.values()) == {3}
    assert fleet.asked("PodTopologySpread") == 3 * ZONES * ZONES


def test_where_it_is_both_one_is_asked_of_those_of_a_zone_with_as_many_pods() -> None:
    fleet = Fleet()
    fleet.place(softly(ZONE, HOSTNAME), NODES)
    assert set(fleet.on_each.values()) == {1}
    assert fleet.asked("PodTopologySpread") <= 2 * ZONES * NODES


def test_nodes_that_share_a_host_name_are_one_domain() -> None:
    fleet = Fleet(hosts=NODES // 2)
    fleet.place(APART, NODES // 2)
    hosts = Counter(int(name[1:]) % (NODES // 2) for name in fleet.harness.assignments.values())
    assert set(hosts.values()) == {1}


def test_where_a_node_lacks_its_host_name_all_are_asked() -> None:
    fleet = Fleet()
    nameless = node("n0").label(ZONE, "z0")
    del nameless.manifest["metadata"]["labels"][HOSTNAME]
    fleet.harness.add(nameless)
    fleet.place(softly(HOSTNAME), NODES - 1)
    assert fleet.on_each == Counter({f"n{i}": 1 for i in range(1, NODES)}), "it is passed over"
    assert fleet.asked("PodTopologySpread") == NODES * (NODES - 1)


def test_what_each_host_has_is_found_out_where_nodes_come_to_share_one() -> None:
    fleet = Fleet()
    fleet.place(APART, 2)
    for i in range(NODES):
        fleet.harness.add(node(f"n{i}").label(ZONE, f"z{i % ZONES}").label(HOSTNAME, f"h{i % 2}"))
    taken = {int(name[1:]) % 2 for name in fleet.harness.assignments.values()}
    fleet.place(APART, 2 - len(taken))
    assert {int(name[1:]) % 2 for name in fleet.harness.assignments.values()} == {0, 1}


@pytest.mark.parametrize("own_labels", [False, True], ids=["of one signature", "with labels of their own"])
def test_pods_that_are_the_same_to_all_terms_are_counted_for_once(
    own_labels: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    asked: Counter[str] = Counter()
    of = AffinityWeight.of

    def counted(self: AffinityWeight, signature: PodSignature) -> int:
        asked[signature.labels.get("turn", "")] += 1
        return of(self, signature)

    monkeypatch.setattr(AffinityWeight, "of", counted)
    fleet = Fleet()
    fleet.place(APART, NODES, own_labels=own_labels)
    assert set(fleet.on_each.values()) == {1}
    assert max(asked.values()) <= 4, (
        "each signature once a kept count, of hosts and by host, before and after the first"
    )


def where_the_second_goes() -> str:
    """One of two pods of a signature is placed before there is a pod that draws them, the other after."""
    fleet = Fleet()
    of_db = {"topologyKey": HOSTNAME, "labelSelector": {"matchLabels": {"app": "db"}}}
    fleet.harness.add(pod("fan-of-others").on("n1").requests(cpu="1").preferred_pod_affinity(100, of_db))
    fleet.place({}, 1)
    of_web = {"topologyKey": HOSTNAME, "labelSelector": WEB}
    fleet.harness.add(pod("fan").on("n2").requests(cpu="1").preferred_pod_affinity(100, of_web))
    fleet.place({}, 1)
    return fleet.harness.assignments["p2"]


def test_who_comes_to_draw_a_pod_is_heard() -> None:
    assert where_the_second_goes() == "n2"


def test_it_is_noticed_if_it_is_found_out_once_who_speaks_of_a_pod(monkeypatch: pytest.MonkeyPatch) -> None:
    of: Any = MatchingTermsCache.of
    known: dict[Any, Any] = {}

    def once(self: MatchingTermsCache, incoming_pod: IncomingPod, *rest: Any) -> Any:
        return known.setdefault((self, incoming_pod), of(self, incoming_pod, *rest))

    monkeypatch.setattr(MatchingTermsCache, "of", once)
    assert where_the_second_goes() != "n2"
