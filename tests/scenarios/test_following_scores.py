"""Pods of one shape that should be spread, one after the other: only nodes are asked again that can score anew."""

from __future__ import annotations

from collections import Counter
from typing import Any

import pytest

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

    def place(self, spec: Spec, pods: int, app: str = "web") -> None:
        """One after the other."""
        for _ in range(pods):
            self._pods += 1
            self.harness.add(pod(f"p{self._pods}").label("app", app).requests(cpu="10m").spec(**spec))
            self.harness.run()

    def asked(self, plugin: str) -> int:
        return self.harness.machine.context.profiles["default-scheduler"].evaluations.score[plugin].n

    @property
    def on_each(self) -> Counter[str]:
        return Counter(self.harness.where.values())

    @property
    def in_each_zone(self) -> Counter[str]:
        return Counter(f"z{int(name[1:]) % ZONES}" for name in self.harness.where.values())


@pytest.mark.parametrize(
    ("spec", "plugin"),
    [
        pytest.param(APART, "InterPodAffinity", id="preferred anti-affinity"),
        pytest.param(softly(HOSTNAME), "PodTopologySpread", id="spreading"),
    ],
)
def test_where_each_node_is_a_domain_only_those_are_asked_that_pods_have_come_to(spec: Spec, plugin: str) -> None:
    fleet = Fleet()
    fleet.place(spec, 2)
    before = fleet.asked(plugin)
    fleet.place(spec, NODES - 2)
    assert fleet.on_each == Counter({f"n{i}": 1 for i in range(NODES)}), "and each found an empty one"
    assert fleet.asked(plugin) - before == NODES - 2
    fleet.place(spec, NODES)
    assert set(fleet.on_each.values()) == {2}, "now that all have one, the next round begins"


@pytest.mark.parametrize("spec", [softly(ZONE), softly(ZONE, HOSTNAME)], ids=["zones", "zones and hosts"])
def test_where_a_domain_has_many_nodes_all_are_asked(spec: Spec) -> None:
    fleet = Fleet()
    fleet.place(spec, 3 * ZONES)
    assert set(fleet.in_each_zone.values()) == {3}
    assert fleet.asked("PodTopologySpread") >= 3 * ZONES * NODES


def test_nodes_that_share_a_host_name_are_one_domain() -> None:
    fleet = Fleet(hosts=NODES // 2)
    fleet.place(APART, NODES // 2)
    hosts = Counter(int(name[1:]) % (NODES // 2) for name in fleet.harness.where.values())
    assert set(hosts.values()) == {1}


def test_what_was_said_of_zones_stands_while_no_pod_that_counts_comes_to_them() -> None:
    fleet = Fleet()
    fleet.place({}, 4)
    fleet.place(softly(ZONE), 2, app="guest")
    before = fleet.asked("PodTopologySpread")
    fleet.place(softly(ZONE), 5, app="guest")
    assert fleet.asked("PodTopologySpread") - before == 5
    fleet.place({}, 1)
    fleet.place(softly(ZONE), 1, app="guest")
    assert fleet.asked("PodTopologySpread") - before == 5 + NODES
