"""Test plugins of each `Reads` level that read everything they are allowed to: the hardest cases for cached results.

Their results and reasons contain what they read, so that a stale cached result shows.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Hashable, Iterable
from dataclasses import dataclass
from typing import Any

import numpy as np

from pyscheduler.api import (
    SKIP,
    SKIP_SIGNATURE,
    Cycle,
    DefaultNormalizeScore,
    FilterPlugin,
    Handle,
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
    Requirement,
    ScorePlugin,
    Scores,
    Skip,
    StateKey,
)
from pyscheduler.core.framework.handle import CoreHandle, empty_handle
from pyscheduler.core.framework.profile import Profile, Weighted
from pyscheduler.intree import PLUGINS, PrioritySort
from pyscheduler.intree.volumes.objects import CSI_NODE

ZONE = "topology.kubernetes.io/zone"
external = {"today": 0}
"""Read by `External`: it may change between two attempts while the cluster does not."""


class TeamCpu(PreFilterPlugin, FilterPlugin, ScorePlugin):
    """OWN_NODE: pods of a team require bigger nodes, others are skipped in PreFilter. Scores have a vectorised method
    too.
    """

    name = "TeamCpu"
    reads = Reads.OWN_NODE
    reads_claims = False
    normalizer = DefaultNormalizeScore(reverse=True)

    def pre_filter(self, cycle: Cycle, pod: Pod, nodes: NodeTable) -> Skip | None:
        return None if pod.labels.get("team") else SKIP

    def filter(self, cycle: Cycle, pod: Pod, node: NodeInfo) -> Rejection | None:
        return None if node.allocatable["cpu"] > 1000 else Rejection(f"cpu of {node.allocatable['cpu']}m")

    def filter_all(self, cycle: Cycle, pod: Pod, nodes: NodeTable) -> NodeToStatus:
        verdicts = NodeToStatus(len(nodes))
        for cpu in sorted(set(nodes.allocatable("cpu").tolist())):
            if cpu <= 1000:
                verdicts.reject(nodes.allocatable("cpu") == cpu, Rejection(f"cpu of {cpu}m"))
        return verdicts

    def score(self, cycle: Cycle, pod: Pod, node: NodeInfo) -> int:
        return node.allocatable["cpu"] // 100 + 3 * len(node.taints)


class _Spread(Normalizer):
    """Scale the lowest score to 0 and the highest to 100."""

    def span(self, scores: Scores) -> tuple[int, int]:
        return int(scores.min()), int(scores.max())

    def rescale(self, scores: Scores, span: tuple[int, int]) -> Scores:
        least, most = span
        return (scores - least) * 100 // max(most - least, 1)


class PodLimit(FilterPlugin, ScorePlugin):
    """OWN_NODE_AND_PODS: at most three pods per node; fewer pods score higher, terminating ones count as gone."""

    name = "PodLimit"
    reads = Reads.OWN_NODE_AND_PODS
    reads_claims = False
    reads_labels = False
    normalizer = _Spread()

    def filter(self, cycle: Cycle, pod: Pod, node: NodeInfo) -> Rejection | None:
        count = len(node.pods) - _terminating(node)
        return Rejection(f"pod count {count}") if count > 2 else None

    def score(self, cycle: Cycle, pod: Pod, node: NodeInfo) -> int:
        return 10 - len(node.pods) + 3 * _terminating(node) + node.requested.get("cpu", 0) // 1000


def _terminating(node: NodeInfo) -> int:
    return sum(pod.deleting for pod in node.pods.values())


@dataclass(frozen=True)
class _TeamCounts:
    """Number of nodes per label value."""

    teams: Counter[str]
    total: int


_TEAM_COUNTS: StateKey[_TeamCounts] = StateKey("TeamShare")


class TeamShare(PreFilterPlugin, FilterPlugin, PreScorePlugin, ScorePlugin):
    """ALL_NODES: reject nodes of a team with more than half of all nodes, and score by the share."""

    name = "TeamShare"
    reads = Reads.ALL_NODES
    reads_claims = False
    reads_labels = False

    def pre_filter(self, cycle: Cycle, pod: Pod, nodes: NodeTable) -> None:
        teams = Counter(node.labels.get("team", "") for node in nodes)
        cycle[_TEAM_COUNTS] = _TeamCounts(teams, nodes.total)

    def pre_score(self, cycle: Cycle, pod: Pod, nodes: NodeTable) -> Skip | None:
        return SKIP if cycle[_TEAM_COUNTS].total % 5 == 4 else None

    def filter(self, cycle: Cycle, pod: Pod, node: NodeInfo) -> Rejection | None:
        team_counts, team = cycle[_TEAM_COUNTS], node.labels.get("team", "")
        share = f"{team_counts.teams[team]} of {team_counts.total}"
        return Rejection(f"share: {share}") if team and team_counts.teams[team] * 2 > team_counts.total else None

    def score(self, cycle: Cycle, pod: Pod, node: NodeInfo) -> int:
        team_counts = cycle[_TEAM_COUNTS]
        return (1000 * team_counts.teams[node.labels.get("team", "")] // team_counts.total) % 101


_TEAM_SIZES: StateKey[frozenset[tuple[str, int]]] = StateKey("TeamRank")


class TeamRank(PreScorePlugin, ScorePlugin):
    """ALL_NODES with a cache key: prefer nodes of small teams; PreScore counts the teams, up to 2 nodes of each."""

    name = "TeamRank"
    reads = Reads.ALL_NODES
    reads_claims = False
    reads_labels = False

    def pre_score(self, cycle: Cycle, pod: Pod, nodes: NodeTable) -> None:
        teams = Counter(node.labels.get("team", "") for node in nodes.all_nodes)
        cycle[_TEAM_SIZES] = frozenset((team, min(n, 2)) for team, n in teams.items())

    def score_cache_key(self, cycle: Cycle) -> Hashable:
        return cycle[_TEAM_SIZES]

    def score(self, cycle: Cycle, pod: Pod, node: NodeInfo) -> int:
        sizes = cycle[_TEAM_SIZES]
        return 10 // dict(sizes)[node.labels.get("team", "")]


_ZONES: StateKey[Counter[str]] = StateKey("ZoneLimit")


def _count_zones(nodes: Iterable[NodeInfo], team: str) -> Counter[str]:
    return Counter(
        node.labels.get(ZONE, "")
        for node in nodes
        for other in node.pods.values()
        if other.labels.get("team") == team and not other.deleting
    )


class ZoneLimit(PreFilterPlugin, FilterPlugin, PreScorePlugin, ScorePlugin):
    """DOMAINS: at most three pods of a team in a zone; overrides `normalize`; skips pods without a team."""

    name = "ZoneLimit"
    reads = Reads.DOMAINS
    reads_claims = False

    def pre_filter(self, cycle: Cycle, pod: Pod, nodes: NodeTable) -> Skip | None:
        cycle[_ZONES] = _count_zones(nodes, pod.labels.get("team", ""))
        return None if pod.labels.get("team") else SKIP

    def add_pod(self, cycle: Cycle, pod: Pod, added: Pod, node: NodeInfo) -> None:
        if added.labels.get("team") == pod.labels.get("team"):
            cycle[_ZONES] = cycle[_ZONES] + Counter([node.labels.get(ZONE, "")])  # a new object: the old one is shared

    def filter(self, cycle: Cycle, pod: Pod, node: NodeInfo) -> Rejection | None:
        pods = cycle[_ZONES][node.labels.get(ZONE, "")]
        return Rejection(f"zone has {pods}", resolvable=False) if pods > 2 else None

    def pre_score(self, cycle: Cycle, pod: Pod, nodes: NodeTable) -> Skip | None:
        return SKIP if pod.labels.get("team") == "blue" else None

    def score(self, cycle: Cycle, pod: Pod, node: NodeInfo) -> int:
        return 7 * cycle[_ZONES][node.labels.get(ZONE, "")] + len(node.labels)

    def normalize(self, cycle: Cycle, pod: Pod, scores: Scores) -> Scores:
        best = int(scores.max()) if len(scores) else 0
        return np.maximum(100 - 5 * (best - scores), 0)


@dataclass(frozen=True, slots=True)
class _Team(PodCount):
    """Count the pods of a team, except terminating ones."""

    name: str

    @property
    def terminating(self) -> bool:
        return False

    def of(self, signature: PodSignature) -> int:
        return int(signature.labels.get("team") == self.name)


_TEAM: StateKey[str] = StateKey("TeamScore team")
_ZONE_WEIGHT: StateKey[int] = StateKey("TeamScore")


class TeamScore(PreScorePlugin, ScorePlugin):
    """DOMAINS: score by the node's own pods of the team and by its zone; defines node equivalence."""

    name = "TeamScore"
    reads = Reads.DOMAINS
    reads_claims = False
    normalizer = _Spread()

    def pre_score(self, cycle: Cycle, pod: Pod, nodes: NodeTable) -> None:
        cycle[_TEAM] = team = pod.labels.get("team", "")
        cycle[_ZONE_WEIGHT] = sum(_count_zones(nodes.all_nodes, team).values()) // 3

    def score(self, cycle: Cycle, pod: Pod, node: NodeInfo) -> int:
        own = sum(_count_zones([node], cycle[_TEAM]).values())
        return 5 * own + cycle[_ZONE_WEIGHT] * sum(map(ord, node.labels.get(ZONE, "")))

    def score_all(self, cycle: Cycle, pod: Pod, nodes: NodeTable) -> Scores:
        zones = nodes.topology(ZONE)
        by_zone = np.array([sum(map(ord, value or "")) for value in zones.known], np.int64)
        return 5 * nodes.count_pods(_Team(cycle[_TEAM])) + cycle[_ZONE_WEIGHT] * by_zone.take(zones.ids)

    def score_equivalence(self, cycle: Cycle) -> NodeEquivalence:
        return NodeEquivalence((ZONE,), (_Team(cycle[_TEAM]),))


class External(FilterPlugin, PreScorePlugin, ScorePlugin):
    """EVERYTHING: read a value that no event reports."""

    name = "External"

    def filter(self, cycle: Cycle, pod: Pod, node: NodeInfo) -> Rejection | None:
        value = len(node.name) + external["today"]
        return Rejection(f"external {value}") if (value + int(node.name[1:])) % 4 == 0 else None

    def pre_score(self, cycle: Cycle, pod: Pod, nodes: NodeTable) -> Skip | None:
        return SKIP if external["today"] % 3 == 1 else None

    def score(self, cycle: Cycle, pod: Pod, node: NodeInfo) -> int:
        return (int(node.name[1:]) * 7 + external["today"]) % 100


_PARITY: StateKey[int] = StateKey("OddDays")


class OddDays(PreFilterPlugin, FilterPlugin):
    """OWN_NODE with a cache key: PreFilter reads a value that no event reports."""

    name = "OddDays"
    reads = Reads.OWN_NODE
    reads_claims = False
    reads_labels = False

    def pre_filter(self, cycle: Cycle, pod: Pod, nodes: NodeTable) -> None:
        cycle[_PARITY] = external["today"] % 2

    def filter_cache_key(self, cycle: Cycle) -> Hashable:
        return cycle[_PARITY]

    def filter(self, cycle: Cycle, pod: Pod, node: NodeInfo) -> Rejection | None:
        cpu = node.allocatable["cpu"]
        return Rejection(f"odd day and {cpu}m") if cycle[_PARITY] and cpu > 1000 else None


_DAY: StateKey[int] = StateKey("ZoneOfDay")


class ZoneOfDay(PreFilterPlugin, FilterPlugin):
    """OWN_NODE, on some days by class: PreFilter reads a value that no event reports, it selects zones."""

    name = "ZoneOfDay"
    reads = Reads.OWN_NODE
    reads_claims = False
    reads_labels = False

    def pre_filter(self, cycle: Cycle, pod: Pod, nodes: NodeTable) -> Skip | None:
        cycle[_DAY] = external["today"]
        return SKIP if external["today"] == 5 else None

    def filter_cache_key(self, cycle: Cycle) -> Hashable:
        return cycle[_DAY] % 2

    def filter_equivalence(self, cycle: Cycle) -> NodeEquivalence | None:
        return NodeEquivalence((ZONE,)) if cycle[_DAY] % 3 else None

    def filter(self, cycle: Cycle, pod: Pod, node: NodeInfo) -> Rejection | None:
        return None if _is_open(node.labels.get(ZONE), cycle[_DAY]) else Rejection("zone of another day")

    def filter_all(self, cycle: Cycle, pod: Pod, nodes: NodeTable) -> NodeToStatus:
        verdicts = NodeToStatus(len(nodes))
        zones = [value for value in nodes.topology(ZONE).known if value is not None and _is_open(value, cycle[_DAY])]
        is_open = nodes.matches_requirement(Requirement(ZONE, "In", tuple(zones)))
        if _is_open(None, cycle[_DAY]):
            is_open |= nodes.matches_requirement(Requirement(ZONE, "DoesNotExist"))
        verdicts.reject(~is_open, Rejection("zone of another day"))
        return verdicts


def _is_open(zone: str | None, day: int) -> bool:
    return (sum(map(ord, zone or "")) + day) % 2 == 0


class NameReader(FilterPlugin, ScorePlugin):
    """Read the pod's name: results hold for no other pod of the signature."""

    name = "NameReader"
    reads = Reads.OWN_NODE
    reads_claims = False
    reads_identity = True

    def filter(self, cycle: Cycle, pod: Pod, node: NodeInfo) -> Rejection | None:
        return Rejection(f"name of {pod.name}") if pod.name[-1] == node.name[-1] else None

    def score(self, cycle: Cycle, pod: Pod, node: NodeInfo) -> int:
        return 50 * (int(pod.name[1:]) % 3)


class TeamFilter(FilterPlugin, ScorePlugin):
    """OWN_NODE_AND_PODS: the result changes with every pod on the node and differs between teams."""

    name = "TeamFilter"
    reads = Reads.OWN_NODE_AND_PODS
    reads_claims = False

    def filter(self, cycle: Cycle, pod: Pod, node: NodeInfo) -> Rejection | None:
        team, ours = pod.labels.get("team", ""), node.labels.get("team", "")
        return Rejection(f"{ours} is not {team}") if team and ours and len(node.pods) > len(ours) - len(team) else None

    def score(self, cycle: Cycle, pod: Pod, node: NodeInfo) -> int:
        return 10 * len(node.pods) + (len(pod.labels.get("team", "")) * int(node.name[1:])) % 10


class TeamPreference(ScorePlugin):
    """OWN_NODE: each team prefers other nodes."""

    name = "TeamPreference"
    reads = Reads.OWN_NODE
    reads_claims = False

    def score(self, cycle: Cycle, pod: Pod, node: NodeInfo) -> int:
        return (len(pod.labels.get("team", "")) * 13 * int(node.name[1:]) + len(node.taints)) % 101


class NamedNodes(PreFilterPlugin, FilterPlugin):
    """OWN_NODE: restrict some pods to a few nodes."""

    name = "NamedNodes"
    reads = Reads.OWN_NODE
    reads_claims = False

    def pre_filter(self, cycle: Cycle, pod: Pod, nodes: NodeTable) -> NodeNames | None:
        return NodeNames(frozenset(f"n{i:02}" for i in range(5))) if pod.priority < 0 else None

    def filter(self, cycle: Cycle, pod: Pod, node: NodeInfo) -> None:
        return None


class ClaimReader(PreFilterPlugin, FilterPlugin, ScorePlugin):
    """OWN_NODE: filter and score nodes by the pod's claims; skips pods without claims."""

    name = "ClaimReader"
    reads = Reads.OWN_NODE
    reads_labels = False

    def pre_filter(self, cycle: Cycle, pod: Pod, nodes: NodeTable) -> Skip | None:
        return None if pod.signature.volume_claims else SKIP

    def filter(self, cycle: Cycle, pod: Pod, node: NodeInfo) -> Rejection | None:
        rejected = (_letters(pod) + int(node.name[1:])) % 3 == 0
        return Rejection(f"claim letters {_letters(pod)}") if rejected else None

    def score(self, cycle: Cycle, pod: Pod, node: NodeInfo) -> int:
        return (_letters(pod) * 11 * int(node.name[1:])) % 101


def _letters(pod: Pod) -> int:
    return sum(len(claim.name) for claim in pod.signature.volume_claims)


class ObjectReader(PreFilterPlugin, FilterPlugin):
    """EVERYTHING: reject some nodes while the number of CSINodes is odd, else skip pods of the signature."""

    name = "ObjectReader"
    watches = (CSI_NODE,)

    def __init__(self, args: object, handle: Handle) -> None:
        self._csi_nodes = handle.objects[CSI_NODE]

    def pre_filter(self, cycle: Cycle, pod: Pod, nodes: NodeTable) -> Skip | None:
        return None if len(self._csi_nodes) % 2 else SKIP_SIGNATURE

    def filter(self, cycle: Cycle, pod: Pod, node: NodeInfo) -> Rejection | None:
        return Rejection("number of CSINodes") if int(node.name[1:]) % 2 else None


LEVELS = (
    TeamCpu,
    PodLimit,
    TeamShare,
    TeamRank,
    ZoneLimit,
    TeamScore,
    External,
    OddDays,
    ZoneOfDay,
    NameReader,
    TeamFilter,
    TeamPreference,
    NamedNodes,
    ClaimReader,
)
Class = type[Any]


def profile_of(classes: Iterable[Class], handle: CoreHandle | None = None) -> Profile:
    """Return a profile of these plugins, each at every extension point of the decision that it implements."""
    handle = handle or empty_handle()
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
