"""Score cache with zones that become infeasible and feasible again: unchanged nodes are not scored again."""

from __future__ import annotations

import pytest

from pyscheduler.api import Mask
from pyscheduler.core.result_cache.row_results import RowResults
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
    """Return a pod with hard spreading over zones that prefers nodes labelled silver and, more, gold."""
    preferred = [{"weight": weight, "preference": _has(label)} for label, weight in (("silver", 50), ("gold", 100))]
    affinity = {"nodeAffinity": {"preferredDuringSchedulingIgnoredDuringExecution": preferred}}
    return pod(name).label("app", "web").spec(topologySpreadConstraints=[HARD], affinity=affinity)


def host(name: str, *labels: str) -> NodeBuilder:
    built = node(name).label(ZONE, name[0])
    for label in labels:
        built = built.label(label, "yes")
    return built


class Cluster:
    """Cluster of eight nodes in each of three zones; one per zone is labelled silver, that of zone c also gold."""

    def __init__(self) -> None:
        self.harness = Harness()
        for zone in "abc":
            self.harness.add(*(host(f"{zone}{i}") for i in range(1, PER_ZONE)), host(f"{zone}0", "silver"))
        self.harness.add(host("c0", "silver", "gold"))

    def scored(self, plugin: str) -> int:
        """Return how many nodes the plugin has scored."""
        return self.harness.machine.context.profiles["default-scheduler"].evaluations.score[plugin].n

    def place(self, name: str) -> str:
        """Schedule a pod, delete it, and return its node."""
        self.harness.add(web(name))
        self.harness.run()
        node_name = self.harness.assignments[name]
        self.harness.delete_pod(name)
        return node_name


def node_after_zone_changes() -> str:
    """Make zone a infeasible, then c with its best node, then a feasible again; return the node of the next pod."""
    cluster = Cluster()
    assert cluster.place("first") == "c0"
    cluster.harness.add(web("there").on("a1"))
    assert cluster.place("second") == "c0", "zone a is infeasible"
    cluster.harness.add(web("too").on("c1"))
    assert cluster.place("third") == "b0", "zone c is infeasible too, so silver is preferred most"
    cluster.harness.delete_pod("there")
    cluster.harness.add(pod("busy").on("b0").requests(cpu="3"))
    return cluster.place("fourth")


def test_zone_that_is_feasible_again_is_scored_like_the_others() -> None:
    assert node_after_zone_changes() == "a0"


def test_zone_that_stays_excluded_fails_the_check(monkeypatch: pytest.MonkeyPatch) -> None:
    exclude = RowResults.exclude

    def more(self: RowResults, rows: Mask | None) -> None:
        before = self.excluded
        exclude(self, rows if before is None else before if rows is None else before | rows)

    monkeypatch.setattr(RowResults, "exclude", more)
    assert node_after_zone_changes() != "a0"


def test_preferences_of_unchanged_nodes_are_scored_once() -> None:
    cluster = Cluster()
    for zone in "aba":
        cluster.harness.add(web(f"in-{zone}").on(f"{zone}1"))
        cluster.place(f"next-{zone}")
        cluster.harness.delete_pod(f"in-{zone}")
    cluster.place("last")
    assert cluster.scored("NodeAffinity") <= 3 * PER_ZONE
