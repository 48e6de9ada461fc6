"""NodeName: place a pod that names its node on that node only."""

from __future__ import annotations

from collections.abc import Hashable, Sequence

import numpy as np

from pyscheduler.api import (
    NODE,
    Action,
    ClusterEventWithHint,
    Cycle,
    FilterPlugin,
    NodeFields,
    NodeInfo,
    NodeNames,
    NodeTable,
    NodeToStatus,
    Pod,
    PodSignatureGroup,
    PreFilterPlugin,
    Reads,
    Rejection,
)

OTHER_NODE = Rejection("node(s) didn't match the requested node name", resolvable=False)


class NodeName(PreFilterPlugin, FilterPlugin):
    """Reject every node but the one in spec.nodeName.

    The node name is not part of a pod's signature. Caching by signature is safe: queued pods have no node name.
    """

    name = "NodeName"
    reads = Reads.OWN_NODE
    reads_labels = False
    reads_claims = False
    reads_match_fields = False
    node_fields = NodeFields.NONE
    pre_reads_nodes = False

    def sign_group(self, group: PodSignatureGroup) -> Hashable:
        return ()  # spec.nodeName is not part of a group

    def events_to_register(self) -> Sequence[ClusterEventWithHint]:
        return (ClusterEventWithHint(NODE, Action.ADD),)

    def pre_filter(self, cycle: Cycle, pod: Pod, nodes: NodeTable) -> NodeNames | None:
        return NodeNames(frozenset((pod.node_name,))) if pod.node_name else None

    def filter(self, cycle: Cycle, pod: Pod, node: NodeInfo) -> Rejection | None:
        return None if not pod.node_name or pod.node_name == node.name else OTHER_NODE

    def filter_all(self, cycle: Cycle, pod: Pod, nodes: NodeTable) -> NodeToStatus:
        statuses = NodeToStatus(len(nodes))
        if pod.node_name:
            statuses.reject(np.logical_not(nodes.named(frozenset((pod.node_name,)))), OTHER_NODE)
        return statuses
