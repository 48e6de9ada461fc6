"""Nodes that cease to fit and fit again, a zone at a time: what they came to before holds if nothing else happened."""

from __future__ import annotations

import pytest

from pyscheduler.core.decide.scoring import INFEASIBLE, ScoreColumns
from pyscheduler.testing import Harness, NodeBuilder, PodBuilder, node, pod

ZONE = "topology.kubernetes.io/zone"
PER_ZONE = 8
HARD = {
    "maxSkew": 1,
    "topologyKey": ZONE,
    "whenUnsatisfiable": "DoNotSchedule",
    "labelSelector": {"matchLabels": {"app": "web"}},
}


def _has(label: str) -> dict[str, object]:
    return {"matchExpressions": [{"key": label, "operator": "Exists"}]}


def web(name: str) -> PodBuilder:
    """It must be spread over zones, and likes silver and gold: the best there is counts in full."""
    wishes = [{"weight": weight, "preference": _has(label)} for label, weight in (("silver", 50), ("gold", 100))]
    affinity = {"nodeAffinity": {"preferredDuringSchedulingIgnoredDuringExecution": wishes}}
    return pod(name).label("app", "web").spec(topologySpreadConstraints=[HARD], affinity=affinity)


def host(name: str, *labels: str) -> NodeBuilder:
    built = node(name).label(ZONE, name[0])
    for label in labels:
        built = built.label(label, "yes")
    return built


class Fleet:
    """Eight nodes in each of three zones; in each zone one is of silver, and that of c of gold, too."""

    def __init__(self) -> None:
        self.harness = Harness()
        for zone in "abc":
            self.harness.add(*(host(f"{zone}{i}") for i in range(1, PER_ZONE)), host(f"{zone}0", "silver"))
        self.harness.add(host("c0", "silver", "gold"))

    def asked(self, plugin: str) -> int:
        return self.harness.machine.context.profiles["default-scheduler"].evaluations.score[plugin].n

    def place(self, name: str) -> str:
        """Where a pod goes; it does not stay there."""
        self.harness.add(web(name))
        self.harness.run()
        where = self.harness.assignments[name]
        self.harness.delete_pod(name)
        return where


def the_one_of_silver_that_is_empty() -> str:
    """Zone a ceases to fit, then c with the best of all, and a comes back."""
    fleet = Fleet()
    assert fleet.place("first") == "c0"
    fleet.harness.add(web("there").on("a1"))
    assert fleet.place("second") == "c0", "a must wait for the others"
    fleet.harness.add(web("too").on("c1"))
    assert fleet.place("third") == "b0", "so must c, and silver is the best there is now"
    fleet.harness.delete_pod("there")
    fleet.harness.add(pod("busy").on("b0").requests(cpu="3"))
    return fleet.place("fourth")


def test_a_zone_that_fits_again_is_weighed_like_the_others() -> None:
    assert the_one_of_silver_that_is_empty() == "a0"


def test_it_is_noticed_if_it_is_weighed_as_it_was_when_it_ceased_to_fit(monkeypatch: pytest.MonkeyPatch) -> None:
    sum_resting = ScoreColumns._sum_stable

    def summed(self: ScoreColumns, everywhere: bool, due: object) -> None:
        out = (self._row_total >= INFEASIBLE) & (self._row_total < 0)
        before = self._row_total[out]
        sum_resting(self, everywhere, due)  # type: ignore[arg-type]
        self._row_total[out] = before

    monkeypatch.setattr(ScoreColumns, "_sum_stable", summed)
    assert the_one_of_silver_that_is_empty() != "a0"


def test_only_nodes_are_scored_anew_that_pods_have_come_to() -> None:
    fleet = Fleet()
    for zone in "aba":
        fleet.harness.add(web(f"in-{zone}").on(f"{zone}1"))
        fleet.place(f"beside-{zone}")
        fleet.harness.delete_pod(f"in-{zone}")
    fleet.place("last")
    touched = 2 * 4  # by the pod that made the zone full, and by the one that was placed
    assert fleet.asked("NodeResourcesFit") <= 3 * PER_ZONE + touched
