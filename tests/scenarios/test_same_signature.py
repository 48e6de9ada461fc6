"""Successive pods of one signature, each scheduled with the cached results of the previous one."""

from __future__ import annotations

from collections import Counter
from typing import Any

import pytest

from pyscheduler.core.result_cache.class_results import ClassResults
from pyscheduler.testing import Harness, node, pod

ZONE, HOSTNAME = "topology.kubernetes.io/zone", "kubernetes.io/hostname"
WEB = {"matchLabels": {"app": "web"}}
REQUIRED = "requiredDuringSchedulingIgnoredDuringExecution"
NODES, ZONES = 24, 3


def zones_of(pods: int, **spec: Any) -> list[str]:
    """Return the zones of equal pods in a cluster of three zones with eight hosts each."""
    harness = Harness()
    harness.add(*(node(f"n{i}").label(ZONE, f"z{i % ZONES}").label(HOSTNAME, f"n{i}") for i in range(NODES)))
    for i in range(pods):
        harness.add(pod(f"p{i}").label("app", "web").requests(cpu="100m").spec(**spec))
    harness.run()
    nodes = harness.assignments
    return [f"z{int(nodes[name][1:]) % ZONES}" for name in (f"p{i}" for i in range(pods)) if name in nodes]


def check_spreading() -> None:
    constraint = {"maxSkew": 1, "topologyKey": ZONE, "whenUnsatisfiable": "DoNotSchedule", "labelSelector": WEB}
    counts: Counter[str] = Counter({f"z{i}": 0 for i in range(ZONES)})
    for zone in zones_of(20, topologySpreadConstraints=[constraint]):
        counts[zone] += 1
        assert max(counts.values()) - min(counts.values()) <= 1, counts


def check_anti_affinity() -> None:
    term = {"topologyKey": ZONE, "labelSelector": WEB}
    assert sorted(zones_of(5, affinity={"podAntiAffinity": {REQUIRED: [term]}})) == ["z0", "z1", "z2"]


def check_affinity() -> None:
    term = {"topologyKey": ZONE, "labelSelector": WEB}
    assert len(set(zones_of(9, affinity={"podAffinity": {REQUIRED: [term]}}))) == 1


@pytest.mark.parametrize("check", [check_spreading, check_anti_affinity, check_affinity])
def test_each_pod_is_scheduled_with_the_previous_ones_counted(check: Any) -> None:
    check()


@pytest.mark.parametrize("when", ["DoNotSchedule", "ScheduleAnyway"])
def test_pods_of_one_template_that_count_others_are_not_spread_alike(when: str) -> None:
    harness = Harness()
    harness.add(*(node(f"n-{revision}").label(HOSTNAME, f"n-{revision}") for revision in "ab"))
    constraint = {"maxSkew": 1, "topologyKey": HOSTNAME, "whenUnsatisfiable": when, "labelSelector": WEB}
    for revision in "ab":
        harness.add(pod(f"old-{revision}").label("app", "web").label("revision", revision).on(f"n-{revision}"))
    for i, (revision, other) in enumerate([("a", "b"), ("b", "a")] * 2):
        new = pod(f"new-{i}").label("app", "web").label("revision", revision)
        harness.add(new.spec(topologySpreadConstraints=[{**constraint, "matchLabelKeys": ["revision"]}]))
        harness.run()
        assert harness.assignments[f"new-{i}"] == f"n-{other}"
        harness.delete_pod(f"new-{i}")


@pytest.mark.parametrize("check", [check_spreading, check_anti_affinity])
def test_stale_results_fail_the_check(check: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    run_filters = ClassResults._run_filters

    def once(self: ClassResults, *rest: Any) -> None:
        if not self._rejections:
            run_filters(self, *rest)

    monkeypatch.setattr(ClassResults, "_run_filters", once)
    with pytest.raises(AssertionError):
        check()
