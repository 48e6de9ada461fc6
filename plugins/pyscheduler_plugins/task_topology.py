"""TaskTopology: place roles of one pod group together or apart (Volcano's task-topology).

Two annotations of the group have sets of roles, separated by semicolons: `ps,worker;ps,evaluator`. The roles of a set
attract each other in `volcano.sh/task-topology-affinity` and repel each other in `-anti-affinity`; a role that is alone
in its set attracts or repels its own pods.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final

import numpy as np

from pyscheduler.api import (
    MAX_NODE_SCORE,
    SKIP,
    Cycle,
    NodeInfo,
    NodeTable,
    Normalizer,
    Pod,
    PodCount,
    PodGroupKey,
    PodSignature,
    PreScorePlugin,
    Reads,
    ScorePlugin,
    Scores,
    Skip,
    StateKey,
)
from pyscheduler_plugins.pod_groups import membership, volcano

AFFINITY: Final = "volcano.sh/task-topology-affinity"
ANTI_AFFINITY: Final = "volcano.sh/task-topology-anti-affinity"

Weights = Mapping[str, int]
"""Number that a pod of a role counts for."""


@dataclass(frozen=True, slots=True)
class RoleCount(PodCount):
    """Sum of weights by role over the pods of one group."""

    group: PodGroupKey
    weights: tuple[tuple[str, int], ...]

    @property
    def terminating(self) -> bool:
        return False

    def of(self, signature: PodSignature) -> int:
        if signature.namespace != self.group.namespace:
            return 0
        pod = Pod("", "", signature)
        weight = dict(self.weights).get(membership.role_of(pod), 0)
        return weight if weight and membership.group_of(pod) == self.group else 0


_COUNT: StateKey[RoleCount] = StateKey("TaskTopology")


@dataclass(frozen=True, slots=True)
class LowestToHighest(Normalizer):
    """Scale scores from the lowest, which becomes 0, to the highest, which becomes 100; 0 if all are equal."""

    def span(self, scores: Scores) -> tuple[int, int]:
        return int(scores.min()), int(scores.max())

    def span_between(self, least: int, most: int) -> tuple[int, int]:
        return least, most

    def rescale(self, scores: Scores, span: tuple[int, int]) -> Scores:
        least, most = span
        return np.zeros_like(scores) if least == most else MAX_NODE_SCORE * (scores - least) // (most - least)


class TaskTopology(PreScorePlugin, ScorePlugin):
    """Score nodes by the pods of the group on them: plus one for each that attracts the pod, minus one that repels it.

    The annotations are read from the pod, otherwise from its PodGroup of Volcano.
    """

    name = "TaskTopology"
    reads = Reads.EVERYTHING  # annotations of PodGroups; pods without a topology are skipped
    watches = (volcano.KIND,)
    normalizer = LowestToHighest()

    def pre_score(self, cycle: Cycle, pod: Pod, nodes: NodeTable) -> Skip | None:
        role = membership.role_of(pod)
        group = membership.group_of(pod) if role else None
        weights = {} if group is None else role_weights(role, self._annotations(pod, group))
        if group is None or not weights:
            return SKIP
        cycle[_COUNT] = RoleCount(group, tuple(sorted(weights.items())))
        return None

    def _annotations(self, pod: Pod, group: PodGroupKey) -> Mapping[str, str]:
        if AFFINITY in pod.annotations or ANTI_AFFINITY in pod.annotations or group.api != volcano.GROUP:
            return pod.annotations
        obj = self.handle.objects[volcano.KIND].get((group.namespace, group.name), {})
        annotations: Mapping[str, str] = obj.get("metadata", {}).get("annotations") or {}
        return annotations

    def score(self, cycle: Cycle, pod: Pod, node: NodeInfo) -> int:
        count = cycle[_COUNT]
        return sum(count.of(other.signature) for other in node.pods.values() if not other.deleting)

    def score_all(self, cycle: Cycle, pod: Pod, nodes: NodeTable) -> Scores:
        return nodes.count_pods(cycle[_COUNT])


def role_weights(role: str, annotations: Mapping[str, str]) -> Weights:
    """Return the roles that attract (1) or repel (-1) a role; repulsion wins, as a pod apart is the stronger wish."""
    attracting = _partners(role, annotations.get(AFFINITY, ""))
    repelling = _partners(role, annotations.get(ANTI_AFFINITY, ""))
    return {**dict.fromkeys(attracting, 1), **dict.fromkeys(repelling, -1)}


def _partners(role: str, text: str) -> set[str]:
    """Return the roles that are in a set with this one; the role itself if it is alone in a set."""
    sets = [{name for each in part.split(",") if (name := each.strip())} for part in text.split(";")]
    return {other for roles in sets if role in roles for other in (roles - {role} or roles)}
