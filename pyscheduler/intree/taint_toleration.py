"""TaintToleration: taints on nodes repel pods unless the pods tolerate them."""

from __future__ import annotations

from collections.abc import Hashable, Sequence

from pyscheduler.api import (
    NODE,
    POD,
    Action,
    ClusterEvent,
    ClusterEventWithHint,
    Cycle,
    DefaultNormalizeScore,
    FilterPlugin,
    NodeFields,
    NodeInfo,
    NodeObject,
    NodeTable,
    NodeToStatus,
    Pod,
    PodSignature,
    PodSignatureGroup,
    PreFilterPlugin,
    PreScorePlugin,
    QueueingHint,
    Reads,
    Rejection,
    ScorePlugin,
    Scores,
    Skip,
    Taint,
    packed,
)
from pyscheduler.api.match import NO_EXECUTE, NO_SCHEDULE, PREFER_NO_SCHEDULE
from pyscheduler.intree._hints import queue_if
from pyscheduler.intree._tolerations import has_untolerated, untolerated

UNTOLERATED = Rejection("node(s) had untolerated taint(s)", resolvable=False)

_HARD = (NO_SCHEDULE, NO_EXECUTE)
_SOFT = (PREFER_NO_SCHEDULE,)


class TaintToleration(PreFilterPlugin, FilterPlugin, PreScorePlugin, ScorePlugin):
    """Reject nodes with untolerated NoSchedule or NoExecute taints; prefer few untolerated PreferNoSchedule taints."""

    name = "TaintToleration"
    checks_resizes = False
    reads = Reads.OWN_NODE
    reads_labels = False
    reads_claims = False
    reads_match_fields = False
    node_fields = NodeFields.SPEC
    pre_reads_nodes = False
    normalizer = DefaultNormalizeScore(reverse=True)

    def sign_group(self, group: PodSignatureGroup) -> Hashable:
        return packed(group.spec.tolerations)

    def events_to_register(self) -> Sequence[ClusterEventWithHint]:
        return (
            ClusterEventWithHint(NODE, Action.ADD | Action.UPDATE_NODE_TAINT, self._taints_gone),
            ClusterEventWithHint(POD, Action.UPDATE_POD_TOLERATION, self._own_tolerations_changed),
        )

    def _taints_gone(self, pod: Pod, event: ClusterEvent) -> QueueingHint:
        was_rejected = event.old is None or _has_untolerated_taint(event.old, pod)
        return queue_if(was_rejected and not _has_untolerated_taint(event.new, pod))

    def _own_tolerations_changed(self, pod: Pod, event: ClusterEvent) -> QueueingHint:
        return queue_if(event.new.uid == pod.uid)

    def pre_filter(self, cycle: Cycle, pod: Pod, nodes: NodeTable) -> None:
        """Accept every pod: kube-scheduler runs the plugin at this point too, for an alpha feature."""

    def filter(self, cycle: Cycle, pod: Pod, node: NodeInfo) -> Rejection | None:
        return UNTOLERATED if node.taints and has_untolerated(pod.signature, node.taints, _HARD) else None

    def filter_all(self, cycle: Cycle, pod: Pod, nodes: NodeTable) -> NodeToStatus:
        statuses = NodeToStatus(len(nodes))
        signature = pod.signature
        rejected = nodes.by_taints(lambda taints: has_untolerated(signature, taints, _HARD))
        if rejected.any():
            statuses.reject(rejected != 0, UNTOLERATED)
        return statuses

    def pre_score(self, cycle: Cycle, pod: Pod, nodes: NodeTable) -> Skip | None:
        return None

    def score(self, cycle: Cycle, pod: Pod, node: NodeInfo) -> int:
        return _count_untolerated(pod.signature, node.taints) if node.taints else 0

    def score_all(self, cycle: Cycle, pod: Pod, nodes: NodeTable) -> Scores:
        signature = pod.signature
        return nodes.by_taints(lambda taints: _count_untolerated(signature, taints) if taints else 0)


def _count_untolerated(signature: PodSignature, taints: tuple[Taint, ...]) -> int:
    return sum(1 for _ in untolerated(signature, taints, _SOFT))


def _has_untolerated_taint(node: NodeObject, pod: Pod) -> bool:
    return has_untolerated(pod.signature, node.spec.taints or (), _HARD)
