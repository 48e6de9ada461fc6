"""Fake plugins of each `Reads` level that read all they are allowed to: the hardest customers of kept answers.

They answer by what they see and say in their reasons what that was, so that an answer kept too long shows.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

import numpy as np

from pyscheduler.api import (
    SKIP,
    Cycle,
    DefaultNormalizeScore,
    FilterPlugin,
    NodeEquivalence,
    NodeInfo,
    NodeNames,
    NodeTable,
    NodeToStatus,
    Normalizer,
    Pod,
    PodCount,
    PodSignature,
    PreFilterPlugin,
    PreScorePlugin,
    Reads,
    Rejection,
    ScorePlugin,
    Scores,
    Skip,
    StateKey,
)
from pyscheduler.core.framework.handle import CoreHandle
from pyscheduler.core.framework.profile import Profile, Weighted
from pyscheduler.intree import PLUGINS, PrioritySort

ZONE = "topology.kubernetes.io/zone"
weather = {"today": 0}
"""What `Weather` reads: it may change between two attempts while the cluster does not."""


class Model(PreFilterPlugin, FilterPlugin, ScorePlugin):
    """OWN_NODE: pods of a team want bigger nodes; others are left out by PreFilter. Scores in the NumPy form too."""

    name = "Model"
    reads = Reads.OWN_NODE
    reads_claims = False
    normalizer = DefaultNormalizeScore(reverse=True)

    def pre_filter(self, cycle: Cycle, pod: Pod, nodes: NodeTable) -> Skip | None:
        return None if pod.labels.get("team") else SKIP

    def filter(self, cycle: Cycle, pod: Pod, node: NodeInfo) -> Rejection | None:
        return None if node.allocatable["cpu"] > 1000 else Rejection(f"model of {node.allocatable['cpu']}m")

    def filter_all(self, cycle: Cycle, pod: Pod, nodes: NodeTable) -> NodeToStatus:
        verdicts = NodeToStatus(len(nodes))
        for cpu in sorted(set(nodes.allocatable("cpu").tolist())):
            if cpu <= 1000:
                verdicts.reject(nodes.allocatable("cpu") == cpu, Rejection(f"model of {cpu}m"))
        return verdicts

    def score(self, cycle: Cycle, pod: Pod, node: NodeInfo) -> int:
        return node.allocatable["cpu"] // 100 + 3 * len(node.taints)


class _Spread(Normalizer):
    """The least becomes 0 and the most 100."""

    def span(self, scores: Scores) -> tuple[int, int]:
        return int(scores.min()), int(scores.max())

    def rescale(self, scores: Scores, span: tuple[int, int]) -> Scores:
        least, most = span
        return (scores - least) * 100 // max(most - least, 1)


class Crowd(FilterPlugin, ScorePlugin):
    """OWN_NODE_AND_PODS: no node takes more than three pods; the more there are, the worse, except for those that leave."""

    name = "Crowd"
    reads = Reads.OWN_NODE_AND_PODS
    reads_claims = False
    reads_labels = False
    normalizer = _Spread()

    def filter(self, cycle: Cycle, pod: Pod, node: NodeInfo) -> Rejection | None:
        crowd = len(node.pods) - _leaving(node)
        return Rejection(f"crowd of {crowd}") if crowd > 2 else None

    def score(self, cycle: Cycle, pod: Pod, node: NodeInfo) -> int:
        return 10 - len(node.pods) + 3 * _leaving(node) + node.requested.get("cpu", 0) // 1000


def _leaving(node: NodeInfo) -> int:
    return sum(pod.deleting for pod in node.pods.values())


@dataclass(frozen=True)
class _Census:
    """How many nodes there are of each label value."""

    teams: Counter[str]
    total: int


_CENSUS: StateKey[_Census] = StateKey("Census")


class Census(PreFilterPlugin, FilterPlugin, PreScorePlugin, ScorePlugin):
    """ALL_NODES: rejects nodes of a team that has more than half of all nodes, and scores by share."""

    name = "Census"
    reads = Reads.ALL_NODES
    reads_claims = False
    reads_labels = False

    def pre_filter(self, cycle: Cycle, pod: Pod, nodes: NodeTable) -> None:
        teams = Counter(node.labels.get("team", "") for node in nodes)
        cycle[_CENSUS] = _Census(teams, nodes.total)

    def pre_score(self, cycle: Cycle, pod: Pod, nodes: NodeTable) -> Skip | None:
        return SKIP if cycle[_CENSUS].total % 5 == 4 else None

    def filter(self, cycle: Cycle, pod: Pod, node: NodeInfo) -> Rejection | None:
        census, team = cycle[_CENSUS], node.labels.get("team", "")
        share = f"{census.teams[team]} of {census.total}"
        return Rejection(f"census: {share}") if team and census.teams[team] * 2 > census.total else None

    def score(self, cycle: Cycle, pod: Pod, node: NodeInfo) -> int:
        census = cycle[_CENSUS]
        return (1000 * census.teams[node.labels.get("team", "")] // census.total) % 101


_ZONES: StateKey[Counter[str]] = StateKey("Zones")


def _count_zones(nodes: Iterable[NodeInfo], team: str) -> Counter[str]:
    return Counter(
        node.labels.get(ZONE, "")
        for node in nodes
        for other in node.pods.values()
        if other.labels.get("team") == team and not other.deleting
    )


class Zones(PreFilterPlugin, FilterPlugin, PreScorePlugin, ScorePlugin):
    """DOMAINS: a team has at most three pods in a zone; free-form normalisation; no say on pods without a team."""

    name = "Zones"
    reads = Reads.DOMAINS
    reads_claims = False

    def pre_filter(self, cycle: Cycle, pod: Pod, nodes: NodeTable) -> Skip | None:
        cycle[_ZONES] = _count_zones(nodes, pod.labels.get("team", ""))
        return None if pod.labels.get("team") else SKIP

    def add_pod(self, cycle: Cycle, pod: Pod, added: Pod, node: NodeInfo) -> None:
        if added.labels.get("team") == pod.labels.get("team"):
            cycle[_ZONES] = cycle[_ZONES] + Counter([node.labels.get(ZONE, "")])  # what was there is kept for others

    def filter(self, cycle: Cycle, pod: Pod, node: NodeInfo) -> Rejection | None:
        there = cycle[_ZONES][node.labels.get(ZONE, "")]
        return Rejection(f"zone has {there}", resolvable=False) if there > 2 else None

    def pre_score(self, cycle: Cycle, pod: Pod, nodes: NodeTable) -> Skip | None:
        return SKIP if pod.labels.get("team") == "blue" else None

    def score(self, cycle: Cycle, pod: Pod, node: NodeInfo) -> int:
        return 7 * cycle[_ZONES][node.labels.get(ZONE, "")] + len(node.labels)

    def normalize(self, cycle: Cycle, pod: Pod, scores: Scores) -> Scores:
        best = int(scores.max()) if len(scores) else 0
        return np.maximum(100 - 5 * (best - scores), 0)


@dataclass(frozen=True, slots=True)
class _Team(PodCount):
    """Pods of a team, but those on their way out."""

    name: str

    @property
    def terminating(self) -> bool:
        return False

    def of(self, signature: PodSignature) -> int:
        return int(signature.labels.get("team") == self.name)


_TEAM: StateKey[str] = StateKey("Mates team")
_MATES: StateKey[int] = StateKey("Mates")


class Mates(PreScorePlugin, ScorePlugin):
    """DOMAINS: a node's own pods of the team, and what its zone comes to in the light of all; says what is alike."""

    name = "Mates"
    reads = Reads.DOMAINS
    reads_claims = False
    normalizer = _Spread()

    def pre_score(self, cycle: Cycle, pod: Pod, nodes: NodeTable) -> None:
        cycle[_TEAM] = team = pod.labels.get("team", "")
        cycle[_MATES] = sum(_count_zones(nodes.all_nodes, team).values()) // 3

    def score(self, cycle: Cycle, pod: Pod, node: NodeInfo) -> int:
        own = sum(_count_zones([node], cycle[_TEAM]).values())
        return 5 * own + cycle[_MATES] * sum(map(ord, node.labels.get(ZONE, "")))

    def score_equivalence(self, cycle: Cycle) -> NodeEquivalence:
        return NodeEquivalence((ZONE,), (_Team(cycle[_TEAM]),))


class Weather(FilterPlugin, PreScorePlugin, ScorePlugin):
    """EVERYTHING: reads what no event tells of."""

    name = "Weather"

    def filter(self, cycle: Cycle, pod: Pod, node: NodeInfo) -> Rejection | None:
        wet = len(node.name) + weather["today"]
        return Rejection(f"weather {wet}") if (wet + int(node.name[1:])) % 4 == 0 else None

    def pre_score(self, cycle: Cycle, pod: Pod, nodes: NodeTable) -> Skip | None:
        return SKIP if weather["today"] % 3 == 1 else None

    def score(self, cycle: Cycle, pod: Pod, node: NodeInfo) -> int:
        return (int(node.name[1:]) * 7 + weather["today"]) % 100


class Namesake(FilterPlugin, ScorePlugin):
    """Reads the pod's name: its answers hold for no other pod of the signature."""

    name = "Namesake"
    reads = Reads.OWN_NODE
    reads_claims = False
    reads_identity = True

    def filter(self, cycle: Cycle, pod: Pod, node: NodeInfo) -> Rejection | None:
        return Rejection(f"namesake of {pod.name}") if pod.name[-1] == node.name[-1] else None

    def score(self, cycle: Cycle, pod: Pod, node: NodeInfo) -> int:
        return 50 * (int(pod.name[1:]) % 3)


class Colours(FilterPlugin, ScorePlugin):
    """OWN_NODE_AND_PODS: what it says of a node is new whenever a pod comes, and is another thing for another team."""

    name = "Colours"
    reads = Reads.OWN_NODE_AND_PODS
    reads_claims = False

    def filter(self, cycle: Cycle, pod: Pod, node: NodeInfo) -> Rejection | None:
        team, ours = pod.labels.get("team", ""), node.labels.get("team", "")
        return Rejection(f"{ours} is not {team}") if team and ours and len(node.pods) > len(ours) - len(team) else None

    def score(self, cycle: Cycle, pod: Pod, node: NodeInfo) -> int:
        return 10 * len(node.pods) + (len(pod.labels.get("team", "")) * int(node.name[1:])) % 10


class Taste(ScorePlugin):
    """OWN_NODE: each team likes other nodes."""

    name = "Taste"
    reads = Reads.OWN_NODE
    reads_claims = False

    def score(self, cycle: Cycle, pod: Pod, node: NodeInfo) -> int:
        return (len(pod.labels.get("team", "")) * 13 * int(node.name[1:]) + len(node.taints)) % 101


class Narrow(PreFilterPlugin, FilterPlugin):
    """OWN_NODE: keeps some pods to a few nodes."""

    name = "Narrow"
    reads = Reads.OWN_NODE
    reads_claims = False

    def pre_filter(self, cycle: Cycle, pod: Pod, nodes: NodeTable) -> NodeNames | None:
        return NodeNames(frozenset(f"n{i:02}" for i in range(5))) if pod.priority < 0 else None

    def filter(self, cycle: Cycle, pod: Pod, node: NodeInfo) -> None:
        return None


class Cellar(PreFilterPlugin, FilterPlugin, ScorePlugin):
    """OWN_NODE: a claim keeps a pod off some nodes and likes others; no say on pods without claims."""

    name = "Cellar"
    reads = Reads.OWN_NODE
    reads_labels = False

    def pre_filter(self, cycle: Cycle, pod: Pod, nodes: NodeTable) -> Skip | None:
        return None if pod.signature.volume_claims else SKIP

    def filter(self, cycle: Cycle, pod: Pod, node: NodeInfo) -> Rejection | None:
        far = (_letters(pod) + int(node.name[1:])) % 3 == 0
        return Rejection(f"cellar of {_letters(pod)}") if far else None

    def score(self, cycle: Cycle, pod: Pod, node: NodeInfo) -> int:
        return (_letters(pod) * 11 * int(node.name[1:])) % 101


def _letters(pod: Pod) -> int:
    return sum(len(claim.name) for claim in pod.signature.volume_claims)


LEVELS = (Model, Crowd, Census, Zones, Mates, Weather, Namesake, Colours, Taste, Narrow, Cellar)
Class = type[Any]


def profile_of(classes: Iterable[Class], handle: CoreHandle | None = None) -> Profile:
    """A profile of these plugins, each at every point of the decision that it serves."""
    handle = handle or CoreHandle()
    plugins = [cls(cls.Args(), handle) for cls in classes]

    def at(base: Class) -> tuple[Any, ...]:
        return tuple(plugin for plugin in plugins if isinstance(plugin, base))

    return Profile(
        "default-scheduler",
        PrioritySort(PrioritySort.Args(), handle),
        pre_filter=at(PreFilterPlugin),
        filter=at(FilterPlugin),
        pre_score=at(PreScorePlugin),
        score=tuple(Weighted(plugin, 1 + i % 3) for i, plugin in enumerate(at(ScorePlugin))),
    )


IN_TREE: tuple[Class, ...] = PLUGINS
