"""TaintToleration: nodes keep pods away with taints, pods come nevertheless with tolerations."""

from __future__ import annotations

from collections.abc import Sequence

from pyscheduler.api import (
    NODE,
    POD,
    Action,
    ByMax,
    ClusterEvent,
    Cycle,
    FilterPlugin,
    Hint,
    Interest,
    NodeInfo,
    NodeObject,
    NodeTable,
    Pod,
    PreScorePlugin,
    Reads,
    Rejection,
    ScorePlugin,
    Scores,
    Skip,
    StateKey,
    Taint,
    Toleration,
    Verdicts,
)
from pyscheduler.api.match import NO_EXECUTE, NO_SCHEDULE, PREFER_NO_SCHEDULE, first_untolerated, tolerates
from pyscheduler.intree._hints import queue_if

UNTOLERATED = Rejection("node(s) had untolerated taint(s)", resolvable=False)

_HARD = (NO_SCHEDULE, NO_EXECUTE)
_SOFT_TOLERATIONS: StateKey[tuple[Toleration, ...]] = StateKey("TaintToleration")


class TaintToleration(FilterPlugin, PreScorePlugin, ScorePlugin):
    """Rejects nodes with a NoSchedule or NoExecute taint that the pod does not tolerate, and prefers nodes with few
    untolerated PreferNoSchedule taints."""

    name = "TaintToleration"
    reads = Reads.OWN_NODE
    reads_labels = False
    reads_claims = False
    reads_named_nodes = False
    normalizer = ByMax(reverse=True)

    def interests(self) -> Sequence[Interest]:
        return (
            Interest(NODE, Action.ADD | Action.UPDATE_NODE_TAINT, self._taints_gone),
            Interest(POD, Action.UPDATE_POD_TOLERATION, self._own_tolerations_changed),
        )

    def _taints_gone(self, pod: Pod, event: ClusterEvent) -> Hint:
        was_kept_away = event.old is None or _keeps_away(event.old, pod)
        return queue_if(was_kept_away and not _keeps_away(event.new, pod))

    def _own_tolerations_changed(self, pod: Pod, event: ClusterEvent) -> Hint:
        return queue_if(event.new.uid == pod.uid)

    def filter(self, cycle: Cycle, pod: Pod, node: NodeInfo) -> Rejection | None:
        if not node.taints or first_untolerated(node.taints, pod.shape.tolerations, _HARD) is None:
            return None
        return UNTOLERATED

    def filter_all(self, cycle: Cycle, pod: Pod, nodes: NodeTable) -> Verdicts:
        verdicts = Verdicts(len(nodes))
        tolerations = pod.shape.tolerations
        kept_away = nodes.by_taints(lambda taints: first_untolerated(taints, tolerations, _HARD) is not None)
        if kept_away.any():
            verdicts.reject(kept_away != 0, UNTOLERATED)
        return verdicts

    def pre_score(self, cycle: Cycle, pod: Pod, nodes: NodeTable) -> Skip | None:
        cycle[_SOFT_TOLERATIONS] = tuple(t for t in pod.shape.tolerations if t.effect in ("", PREFER_NO_SCHEDULE))
        return None

    def score(self, cycle: Cycle, pod: Pod, node: NodeInfo) -> int:
        return _count_untolerated(node.taints, cycle[_SOFT_TOLERATIONS]) if node.taints else 0

    def score_all(self, cycle: Cycle, pod: Pod, nodes: NodeTable) -> Scores:
        tolerations = cycle[_SOFT_TOLERATIONS]
        return nodes.by_taints(lambda taints: _count_untolerated(taints, tolerations))


def _count_untolerated(taints: tuple[Taint, ...], tolerations: tuple[Toleration, ...]) -> int:
    soft = (t for t in taints if t.effect == PREFER_NO_SCHEDULE)
    return sum(not any(tolerates(toleration, taint) for toleration in tolerations) for taint in soft)


def _keeps_away(node: NodeObject, pod: Pod) -> bool:
    return first_untolerated(node.spec.taints or (), pod.shape.tolerations, _HARD) is not None
