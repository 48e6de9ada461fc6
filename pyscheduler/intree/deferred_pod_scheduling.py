"""DeferredPodScheduling: make room on its node for an assigned pod whose in-place resize the kubelet has deferred.

Such pods are in the queue only with the feature gate InPlacePodVerticalScalingSchedulerPreemption (KEP-1287). Their
attempts check the node that they have: NodeResourcesFit compares what the pod grows by, and DefaultPreemption evicts
pods of lower priority. The resize itself is the kubelet's.
"""

from __future__ import annotations

from collections.abc import Hashable, Sequence

from pyscheduler.api import (
    NODE,
    POD,
    SKIP_SIGNATURE_GROUP,
    Action,
    ClusterEvent,
    ClusterEventWithHint,
    Cycle,
    FilterPlugin,
    NodeInfo,
    NodeObject,
    NodeTable,
    PermitPlugin,
    Pod,
    PodSignatureGroup,
    PreFilterPlugin,
    QueueingHint,
    Reads,
    Rejection,
    Skip,
)
from pyscheduler.intree._hints import queue_if

OTHER_NODE = Rejection("pod assigned to different node", resolvable=False)
DISABLED = Rejection("node had resize preemption disabled", resolvable=False)
FITS = Rejection("pod resize fits, waiting for Kubelet actuation", resolvable=False)


class DeferredPodScheduling(PreFilterPlugin, FilterPlugin, PermitPlugin):
    """Reject nodes without resize preemption, and keep a pod whose resize fits waiting for the kubelet."""

    name = "DeferredPodScheduling"
    reads = Reads.OWN_NODE
    reads_labels = False
    reads_claims = False
    reads_match_fields = False
    pre_reads_nodes = False

    def sign_group(self, group: PodSignatureGroup) -> Hashable:
        return ()  # attempts for resizes are not cached

    def events_to_register(self) -> Sequence[ClusterEventWithHint]:
        # The events of pods and of allocatable resources are ours: a pod that fits needs room again when others take
        # it. In kube-scheduler it does not wait for events, see `end_resize_attempt`.
        lost_room = Action.ADD | Action.UPDATE_POD_SCALE_UP
        return (
            ClusterEventWithHint(NODE, Action.UPDATE_NODE_PREEMPTION_POLICY, _preemption_enabled),
            ClusterEventWithHint(NODE, Action.ADD, _preemption_enabled),
            ClusterEventWithHint(NODE, Action.UPDATE_NODE_ALLOCATABLE, _is_own_node),
            ClusterEventWithHint(POD, lost_room, _is_on_own_node),
        )

    def pre_filter(self, cycle: Cycle, pod: Pod, nodes: NodeTable) -> Skip | None:
        return None if cycle.is_resize else SKIP_SIGNATURE_GROUP

    def filter(self, cycle: Cycle, pod: Pod, node: NodeInfo) -> Rejection | None:
        if not cycle.is_resize:
            return None
        if pod.node_name != node.name:
            return OTHER_NODE
        return DISABLED if _is_disabled(node.node) else None

    def permit(self, cycle: Cycle, pod: Pod, node: NodeInfo) -> Rejection | None:
        return FITS if cycle.is_resize else None


def _is_disabled(node: NodeObject) -> bool:
    policy = node.spec.pod_preemption_policy
    return policy is not None and bool(policy.disable_resize_preemption)


def _preemption_enabled(pod: Pod, event: ClusterEvent) -> QueueingHint:
    """Return QUEUE if the pod's node has been added, or allows preemption for resizes now and did not before."""
    old: NodeObject | None = event.old
    new: NodeObject = event.new
    was_disabled = old is None or _is_disabled(old)
    return queue_if(new.metadata.name == pod.node_name and was_disabled and not _is_disabled(new))


def _is_own_node(pod: Pod, event: ClusterEvent) -> QueueingHint:
    return queue_if(event.new.metadata.name == pod.node_name)


def _is_on_own_node(pod: Pod, event: ClusterEvent) -> QueueingHint:
    return queue_if(event.new.node_name == pod.node_name)
