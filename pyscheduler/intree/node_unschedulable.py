"""NodeUnschedulable: place only pods that tolerate it on a cordoned node."""

from __future__ import annotations

from collections.abc import Hashable, Sequence

from pyscheduler.api import (
    NODE,
    POD,
    Action,
    ClusterEvent,
    ClusterEventWithHint,
    Cycle,
    FilterPlugin,
    NodeFields,
    NodeInfo,
    NodeTable,
    NodeToStatus,
    Pod,
    PodSignatureGroup,
    PreFilterPlugin,
    QueueingHint,
    Reads,
    Rejection,
    Taint,
    packed,
)
from pyscheduler.api.match import NO_SCHEDULE
from pyscheduler.intree._hints import queue_if
from pyscheduler.intree._tolerations import has_untolerated

UNSCHEDULABLE = Rejection("node(s) were unschedulable", resolvable=False)
CORDON = Taint(key="node.kubernetes.io/unschedulable", effect=NO_SCHEDULE)
"""Taint that a pod must tolerate to run on a node with spec.unschedulable, even if the node lacks the taint."""


class NodeUnschedulable(PreFilterPlugin, FilterPlugin):
    """Reject nodes with spec.unschedulable."""

    name = "NodeUnschedulable"
    checks_resizes = False
    reads = Reads.OWN_NODE
    reads_labels = False
    reads_claims = False
    reads_match_fields = False
    node_fields = NodeFields.SPEC
    pre_reads_nodes = False

    def sign_group(self, group: PodSignatureGroup) -> Hashable:
        return packed(group.spec.tolerations)

    def events_to_register(self) -> Sequence[ClusterEventWithHint]:
        return (
            ClusterEventWithHint(NODE, Action.ADD | Action.UPDATE_NODE_TAINT, self._node_uncordoned),
            ClusterEventWithHint(POD, Action.UPDATE_POD_TOLERATION, self._pod_tolerates_now),
        )

    def _node_uncordoned(self, pod: Pod, event: ClusterEvent) -> QueueingHint:
        was_unschedulable = event.old is None or event.old.spec.unschedulable
        return queue_if(was_unschedulable and not event.new.spec.unschedulable)

    def _pod_tolerates_now(self, pod: Pod, event: ClusterEvent) -> QueueingHint:
        return queue_if(event.new.uid == pod.uid and _tolerates_cordon(event.new))

    def pre_filter(self, cycle: Cycle, pod: Pod, nodes: NodeTable) -> None:
        """Accept every pod: kube-scheduler runs the plugin at this point too, for an alpha feature."""

    def filter(self, cycle: Cycle, pod: Pod, node: NodeInfo) -> Rejection | None:
        return UNSCHEDULABLE if node.unschedulable and not _tolerates_cordon(pod) else None

    def filter_all(self, cycle: Cycle, pod: Pod, nodes: NodeTable) -> NodeToStatus:
        statuses = NodeToStatus(len(nodes))
        unschedulable = nodes.unschedulable
        if unschedulable.any() and not _tolerates_cordon(pod):
            statuses.reject(unschedulable, UNSCHEDULABLE)
        return statuses


def _tolerates_cordon(pod: Pod) -> bool:
    return not has_untolerated(pod.signature, (CORDON,), (CORDON.effect,))
