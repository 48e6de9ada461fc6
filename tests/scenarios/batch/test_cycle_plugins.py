"""PlacementGenerate, PlacementScore, PlacementFeasible and PodGroupPostFilter plugins in the cycle of a pod group."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, ClassVar

import numpy as np
import pytest

from pyscheduler.api import (
    NodeInfo,
    NodeTable,
    NominateGroup,
    Placement,
    PlacementCandidate,
    PlacementFeasiblePlugin,
    PlacementGeneratePlugin,
    PlacementScorePlugin,
    Pod,
    PodGroup,
    PodGroupPostFilterPlugin,
    Rejection,
)
from tests.scenarios.batch.cluster import CONFIG, Cluster
from tests.scenarios.batch.manifests import RACK, gang, node, pod


class NotInRackOne(PlacementFeasiblePlugin):
    """Rejects placements with a pod in rack r1."""

    name = "NotInRackOne"
    placements: ClassVar[list[tuple[list[str], list[str]]]] = []

    def placement_feasible(self, placement: Placement) -> Rejection | None:
        names = [f"{pod.name} on {node.name}" for pod, node in placement.members]
        self.placements.append((names, [pod.name for pod in placement.remaining]))
        racks = {node.labels.get(RACK) for _, node in placement.members}
        return Rejection("rack r1 is for others") if "r1" in racks else None


class BrokenCheck(PlacementFeasiblePlugin):
    """Raises."""

    name = "BrokenCheck"

    def placement_feasible(self, placement: Placement) -> Rejection | None:
        raise RuntimeError("no check")


class EachNode(PlacementGeneratePlugin):
    """Generates a candidate for each node, or what a test sets."""

    name = "EachNode"
    instead: ClassVar[object] = None
    scheduled: ClassVar[list[list[str]]] = []

    def generate_placements(self, group: PodGroup, scheduled: Sequence[tuple[Pod, NodeInfo]], nodes: NodeTable) -> Any:
        self.scheduled.append([pod.name for pod, _ in scheduled])
        if self.instead is not None:
            return self.instead
        return [PlacementCandidate(name, np.array([i])) for i, name in enumerate(nodes.names)]


class LastByName(PlacementScorePlugin):
    """Prefers the last node by name, or returns what a test sets."""

    name = "LastByName"
    score: ClassVar[Any] = None
    normalized: ClassVar[Any] = None
    calls: ClassVar[list[tuple[int, list[str]]]] = []

    def score_placement(self, placement: Placement, nodes: NodeTable) -> Any:
        self.calls.append((len(placement.members), list(nodes.names)))
        return int(nodes.names[0].removeprefix("n")) if self.score is None else self.score

    def normalize_placement_scores(self, group: PodGroup, scores: Sequence[int]) -> Any:
        if self.score == "raise":
            raise RuntimeError("no scores")
        return scores if self.normalized is None else self.normalized


class EvictVictims(PodGroupPostFilterPlugin):
    """Nominates the group to the nodes of the pods with the label victim, and evicts them."""

    name = "EvictVictims"
    indexes = ("victim",)
    message: ClassVar[str] = ""

    def pod_group_post_filter(self, group: PodGroup, pods: Sequence[Pod], message: str) -> NominateGroup | Rejection:
        EvictVictims.message = message
        victims = list(self.handle.pods.by_label("victim", group.key.namespace, "yes").values())
        if len(victims) < len(pods):
            return Rejection("too few victims")
        pairs = list(zip(pods, victims, strict=False))
        return NominateGroup({pod.uid: victim.node_name for pod, victim in pairs}, [victim for _, victim in pairs])


class NoPreemption(PodGroupPostFilterPlugin):
    """Rejects as unresolvable."""

    name = "NoPreemption"

    def pod_group_post_filter(self, group: PodGroup, pods: Sequence[Pod], message: str) -> NominateGroup | Rejection:
        return Rejection("nothing may be evicted today", resolvable=False)


class BrokenPostFilter(PodGroupPostFilterPlugin):
    """Returns a wrong value."""

    name = "BrokenPostFilter"

    def pod_group_post_filter(self, group: PodGroup, pods: Sequence[Pod], message: str) -> NominateGroup | Rejection:
        return None  # type: ignore[return-value]


@pytest.fixture(autouse=True)
def no_placements() -> None:
    NotInRackOne.placements.clear()
    EachNode.scheduled.clear()
    LastByName.calls.clear()
    EachNode.instead = LastByName.score = LastByName.normalized = None


def config(*plugins: type) -> str:
    """Return the configuration of batch scenarios with plugins of this module."""
    enabled = "        enabled:\n"
    ours = "".join(f'          - name: "{__name__}:{each.__name__}"\n' for each in plugins)
    return CONFIG.read_text(encoding="utf-8").replace(enabled, enabled + ours)


def rack(name: str, *slots: str) -> list[dict[str, object]]:
    return [node(slot, labels={RACK: name}) for slot in slots]


def test_next_domain_is_tried_after_a_placement_was_rejected() -> None:
    cluster = Cluster(*rack("r1", "n1", "n2"), *rack("r2", "n3", "n4", "n5"), config=config(NotInRackOne))
    cluster.submit(gang("a", 2, topology=RACK))
    assert set(cluster.bindings.values()) <= {"n3", "n4", "n5"}
    assert len(cluster.bindings) == 2


def test_group_without_a_feasible_placement_waits_with_the_reason() -> None:
    cluster = Cluster(*rack("r1", "n1", "n2"), config=config(NotInRackOne))
    cluster.submit(gang("a", 2), pod("single"))
    cluster.advance(10)
    assert set(cluster.bindings) == {"default/single"}, "the check is for groups"
    assert cluster.reason("a0") == "Unschedulable"
    cluster.delete("Pod", "single")
    cluster.advance(10)
    assert "pod group default/a may not be placed so: rack r1 is for others" in cluster.message("a0")
    cluster.submit(*rack("r2", "n3", "n4"))
    cluster.delete("Node", "n1")
    cluster.delete("Node", "n2")
    cluster.advance(10)
    assert sorted(cluster.bindings.values()) == ["n3", "n4"]


def test_placement_has_the_pods_that_run_and_those_without_a_node() -> None:
    cluster = Cluster(*rack("r2", "n1", "n2"), config=config(NotInRackOne))
    group = gang("a", 1, 3)
    cluster.submit(*group.objects, group.pods[0])
    cluster.submit(*group.pods[1:])
    bound = {key.partition("/")[2]: at for key, at in cluster.bindings.items()}
    assert NotInRackOne.placements[0] == ([f"a0 on {bound['a0']}"], [])
    assert NotInRackOne.placements[1] == ([f"a0 on {bound['a0']}", f"a1 on {bound['a1']}"], ["a2"])


def test_preemption_evicts_nothing_for_a_placement_that_would_be_rejected() -> None:
    cluster = Cluster(*rack("r1", "n1", "n2"), config=config(NotInRackOne))
    cluster.submit(pod("low0"), pod("low1"))
    cluster.submit(gang("a", 2, [pod(f"a{i}", priority=10) for i in range(2)]))
    cluster.advance(60)
    assert cluster.evicted_names == []


def test_plugin_that_raises_holds_its_group_only() -> None:
    cluster = Cluster(*rack("r1", "n1", "n2", "n3"), config=config(BrokenCheck))
    cluster.submit(gang("a", 2), pod("single"))
    cluster.advance(5)
    assert set(cluster.bindings) == {"default/single"}
    assert cluster.reason("a0") == "SchedulerError"
    assert "BrokenCheck" in cluster.message("a0")


def roomy(*names: str) -> list[dict[str, object]]:
    return [node(name, 3) for name in names]


def test_group_is_placed_on_the_candidate_with_the_best_score() -> None:
    cluster = Cluster(*roomy("n1", "n3", "n2"), config=config(EachNode, LastByName))
    cluster.submit(gang("a", 2), pod("single"))
    placed = [node for key, node in cluster.bindings.items() if key.startswith("default/a")]
    assert placed == ["n3", "n3"]
    assert sorted(LastByName.calls) == [(2, ["n1"]), (2, ["n2"]), (2, ["n3"])], "no call for the single pod"


def test_pods_of_a_group_that_run_are_given_to_the_generator() -> None:
    cluster = Cluster(*roomy("n1", "n2"), config=config(EachNode))
    group = gang("a", 1, 2)
    cluster.submit(*group.objects, group.pods[0])
    cluster.submit(group.pods[1])
    assert EachNode.scheduled == [[], ["a0"]]


def test_candidates_without_room_are_not_tried_and_at_most_32_are() -> None:
    names = [f"n{i}" for i in range(50)]
    cluster = Cluster(
        *(node(name, 2 if i >= 10 else 1) for i, name in enumerate(names)), config=config(EachNode, LastByName)
    )
    cluster.submit(gang("a", 2))
    tried = {name for _, (name,) in LastByName.calls}
    assert len(tried) == 32
    assert tried <= set(names[10:])


def test_group_for_which_no_candidate_is_generated_waits_with_the_reason() -> None:
    EachNode.instead = Rejection("no rack is reserved for it")
    cluster = Cluster(*roomy("n1"), config=config(EachNode))
    cluster.submit(gang("a", 2))
    assert cluster.bindings == {}
    assert cluster.reason("a0") == "Unschedulable"
    assert "no rack is reserved for it" in cluster.message("a0")


@pytest.mark.parametrize(
    ("score", "normalized", "text"),
    [
        pytest.param("high", None, "score_placement returned str, expected an integer", id="no number"),
        pytest.param(1, [1], "expected a sequence of 2 scores", id="too few"),
        pytest.param(1, [1, 101], "returned 101, expected scores from 0 to 100", id="too high"),
        pytest.param("raise", None, "expected an integer", id="not normalized"),
    ],
)
def test_wrong_score_holds_the_group_with_the_reason(score: object, normalized: object, text: str) -> None:
    LastByName.score, LastByName.normalized = score, normalized
    cluster = Cluster(*roomy("n1", "n2"), config=config(EachNode, LastByName))
    cluster.submit(gang("a", 2), pod("single"))
    cluster.advance(5)
    assert set(cluster.bindings) == {"default/single"}
    assert cluster.reason("a0") == "SchedulerError"
    assert "LastByName" in cluster.message("a0")
    assert text in cluster.message("a0")


def test_wrong_candidates_hold_the_group_with_the_reason() -> None:
    EachNode.instead = "n1"
    cluster = Cluster(*roomy("n1"), config=config(EachNode))
    cluster.submit(gang("a", 2), pod("single"))
    cluster.advance(5)
    assert set(cluster.bindings) == {"default/single"}
    assert "expected PlacementCandidates, Rejection or None" in cluster.message("a0")


@pytest.mark.parametrize(
    "candidates",
    [
        pytest.param(["n1"], id="a name"),
        pytest.param([PlacementCandidate("a", np.array([7]))], id="no such node"),
        pytest.param([PlacementCandidate("a", np.array([True]))], id="a mask"),
        pytest.param([PlacementCandidate("a", [0])], id="a list"),  # type: ignore[arg-type]
    ],
)
def test_candidates_of_something_else_than_rows_hold_the_group(candidates: object) -> None:
    EachNode.instead = candidates
    cluster = Cluster(*roomy("n1"), config=config(EachNode))
    cluster.submit(gang("a", 2), pod("single"))
    cluster.advance(5)
    assert set(cluster.bindings) == {"default/single"}
    assert "EachNode" in cluster.message("a0")
    assert "generate_placements" in cluster.message("a0")


def test_post_filter_plugin_evicts_and_nominates() -> None:
    cluster = Cluster(*rack("r1", "n1", "n2"), config=config(EvictVictims))
    victims = [pod(f"victim{i}", priority=100) for i in range(2)]
    for each in victims:
        each["metadata"]["labels"] = {"victim": "yes"}
    cluster.submit(*victims)
    cluster.submit(gang("a", 2))
    cluster.advance(0.5)
    assert sorted(cluster.evicted_names) == ["victim0", "victim1"]
    assert "pod group default/a does not fit: 0 of 2 required pods have a node" in EvictVictims.message
    assert len([key for key in cluster.bindings if key.startswith("default/a")]) == 2


def test_preemption_follows_the_post_filter_plugins() -> None:
    cluster = Cluster(*rack("r1", "n1", "n2"), config=config(EvictVictims))
    cluster.submit(pod("low0"), pod("low1"))
    cluster.submit(gang("a", 2, [pod(f"a{i}", priority=10) for i in range(2)]))
    cluster.advance(0.5)
    assert sorted(cluster.evicted_names) == ["low0", "low1"]


@pytest.mark.parametrize(
    ("plugin", "text"),
    [
        pytest.param(NoPreemption, "nothing may be evicted today", id="unresolvable"),
        pytest.param(BrokenPostFilter, "NominateGroup or Rejection", id="wrong value"),
    ],
)
def test_preemption_does_not_follow_the_post_filter_plugin(plugin: type, text: str) -> None:
    cluster = Cluster(*rack("r1", "n1", "n2"), config=config(plugin))
    cluster.submit(pod("low0"), pod("low1"))
    cluster.submit(gang("a", 2, [pod(f"a{i}", priority=10) for i in range(2)]))
    cluster.advance(60)
    assert cluster.evicted_names == []
    assert text in cluster.message("a0")


def test_reason_of_a_post_filter_plugin_is_in_the_message() -> None:
    cluster = Cluster(*rack("r1", "n1"), config=config(EvictVictims))
    cluster.submit(gang("a", 2))
    cluster.advance(5)
    assert cluster.message("a0").count("too few victims") >= 1


def test_plugins_are_enabled_by_the_names_of_the_extension_points() -> None:
    points = (("placementFeasible", NotInRackOne), ("podGroupPostFilter", NoPreemption))
    sets = "".join(f'      {point}: {{enabled: [{{name: "{__name__}:{each.__name__}"}}]}}\n' for point, each in points)
    text = CONFIG.read_text(encoding="utf-8").replace("    plugins:\n", f"    plugins:\n{sets}")
    cluster = Cluster(*rack("r1", "n1", "n2"), config=text)
    cluster.submit(gang("a", 2))
    cluster.advance(5)
    message = cluster.message("a0")
    assert "pod group default/a may not be placed so: rack r1 is for others. nothing may be evicted today" in message
