"""Pods of one signature one after the other, each decided on from what is kept of the one before."""

from __future__ import annotations

from collections import Counter
from typing import Any

import pytest

from pyscheduler.intree.affinity.domain_counts import DomainCounts
from pyscheduler.intree.spread.counts import Skew
from pyscheduler.testing import Harness, node, pod

ZONE, HOSTNAME = "topology.kubernetes.io/zone", "kubernetes.io/hostname"
WEB = {"matchLabels": {"app": "web"}}
REQUIRED = "requiredDuringSchedulingIgnoredDuringExecution"
NODES, ZONES = 24, 3


def zones_of(pods: int, **spec: Any) -> list[str]:
    """The zone of each of some equal pods in a cluster of three zones of eight hosts each."""
    harness = Harness()
    harness.add(*(node(f"n{i}").label(ZONE, f"z{i % ZONES}").label(HOSTNAME, f"n{i}") for i in range(NODES)))
    for i in range(pods):
        harness.add(pod(f"p{i}").label("app", "web").requests(cpu="100m").spec(**spec))
    harness.run()
    where = harness.assignments
    return [f"z{int(where[name][1:]) % ZONES}" for name in (f"p{i}" for i in range(pods)) if name in where]


def spread_evenly() -> None:
    constraint = {"maxSkew": 1, "topologyKey": ZONE, "whenUnsatisfiable": "DoNotSchedule", "labelSelector": WEB}
    seen: Counter[str] = Counter({f"z{i}": 0 for i in range(ZONES)})
    for zone in zones_of(20, topologySpreadConstraints=[constraint]):
        seen[zone] += 1
        assert max(seen.values()) - min(seen.values()) <= 1, seen


def keep_apart() -> None:
    term = {"topologyKey": ZONE, "labelSelector": WEB}
    assert sorted(zones_of(5, affinity={"podAntiAffinity": {REQUIRED: [term]}})) == ["z0", "z1", "z2"]


def keep_together() -> None:
    term = {"topologyKey": ZONE, "labelSelector": WEB}
    assert len(set(zones_of(9, affinity={"podAffinity": {REQUIRED: [term]}}))) == 1


STORIES = (spread_evenly, keep_apart, keep_together)


@pytest.mark.parametrize("story", STORIES)
def test_each_counts_those_before_it(story: Any) -> None:
    story()


@pytest.mark.parametrize(
    ("cls", "story"), [(Skew, spread_evenly), (DomainCounts, keep_apart)], ids=["spread", "affinity"]
)
def test_a_basis_that_never_changes_is_noticed(cls: Any, story: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(cls, "cache_key", 7)
    with pytest.raises(AssertionError):
        story()
