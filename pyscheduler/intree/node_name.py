"""NodeName: a pod that names its node fits no other."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from pyscheduler.api import (
    NODE,
    Action,
    Cycle,
    FilterPlugin,
    Interest,
    NodeInfo,
    NodeTable,
    Pod,
    Reads,
    Rejection,
    Verdicts,
)

OTHER_NODE = Rejection("node(s) didn't match the requested node name", resolvable=False)


class NodeName(FilterPlugin):
    """Rejects every node but the one in spec.nodeName.

    The node's name is no part of a pod's shape, yet answers may be kept by shape: a pod that is in the queue has none.
    """

    name = "NodeName"
    reads = Reads.OWN_NODE
    reads_labels = False
    reads_claims = False
    reads_named_nodes = False

    def interests(self) -> Sequence[Interest]:
        return (Interest(NODE, Action.ADD),)

    def filter(self, cycle: Cycle, pod: Pod, node: NodeInfo) -> Rejection | None:
        return None if not pod.node_name or pod.node_name == node.name else OTHER_NODE

    def filter_all(self, cycle: Cycle, pod: Pod, nodes: NodeTable) -> Verdicts:
        verdicts = Verdicts(len(nodes))
        if pod.node_name:
            verdicts.reject(np.logical_not(nodes.named(frozenset((pod.node_name,)))), OTHER_NODE)
        return verdicts
