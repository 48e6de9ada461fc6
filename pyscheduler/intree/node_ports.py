"""NodePorts: place a pod only where its host ports are free."""

from __future__ import annotations

from collections.abc import Hashable, Sequence
from functools import partial

from pyscheduler.api import (
    NODE,
    POD,
    SKIP,
    Action,
    ClusterEvent,
    ClusterEventWithHint,
    Cycle,
    FilterPlugin,
    HostPort,
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
    Skip,
)
from pyscheduler.api.pod import WILDCARD_IP, host_ports
from pyscheduler.intree._hints import occupied_node, queue_if

PORT_TAKEN = Rejection("node(s) didn't have free ports for the requested pod ports")


class NodePorts(PreFilterPlugin, FilterPlugin):
    """Reject nodes where a hostPort of the pod is in use. Only 0.0.0.0 collides with all other addresses."""

    name = "NodePorts"
    checks_resizes = False
    reads = Reads.OWN_NODE_AND_PODS
    reads_labels = False
    reads_claims = False
    reads_match_fields = False
    node_fields = NodeFields.NONE
    pre_reads_nodes = False

    def sign_group(self, group: PodSignatureGroup) -> Hashable:
        return host_ports(group.spec)

    def events_to_register(self) -> Sequence[ClusterEventWithHint]:
        return (ClusterEventWithHint(POD, Action.DELETE, self._port_freed), ClusterEventWithHint(NODE, Action.ADD))

    def _port_freed(self, pod: Pod, event: ClusterEvent) -> QueueingHint:
        gone: Pod = event.old
        return queue_if(occupied_node(event) and _conflict(pod.signature.host_ports, gone.signature.host_ports))

    def pre_filter(self, cycle: Cycle, pod: Pod, nodes: NodeTable) -> Skip | None:
        return None if pod.signature.host_ports else SKIP

    def filter(self, cycle: Cycle, pod: Pod, node: NodeInfo) -> Rejection | None:
        used = node.used_ports
        return PORT_TAKEN if used and _conflict(pod.signature.host_ports, used) else None

    def filter_all(self, cycle: Cycle, pod: Pod, nodes: NodeTable) -> NodeToStatus:
        statuses = NodeToStatus(len(nodes))
        wanted = pod.signature.host_ports
        taken = nodes.by_ports(partial(_conflict, wanted))
        if taken.any():
            statuses.reject(taken != 0, PORT_TAKEN)
        return statuses


def _conflict(wanted: frozenset[HostPort], used: frozenset[HostPort]) -> bool:
    for a in wanted:
        port = a.port
        # Not `any`, which takes twice as long: this runs for each changed node in each attempt.
        for b in used:
            if b.port == port and _collide(a, b):
                return True
    return False


def _collide(a: HostPort, b: HostPort) -> bool:
    """Return True if two host ports of equal number conflict."""
    return a.protocol == b.protocol and (a.ip == b.ip or WILDCARD_IP in (a.ip, b.ip))
