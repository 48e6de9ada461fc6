"""NodeDeclaredFeatures: place a pod only where the kubelet declares the features that it needs (KEP-5328)."""

from __future__ import annotations

from collections.abc import Hashable, Sequence

import numpy as np

from pyscheduler.api import (
    NODE,
    POD,
    SKIP,
    Action,
    ClusterEvent,
    ClusterEventWithHint,
    Cycle,
    FilterPlugin,
    NodeFields,
    NodeInfo,
    NodeObject,
    NodeTable,
    NodeToStatus,
    Pod,
    PodSignatureGroup,
    PreFilterPlugin,
    QueueingHint,
    Reads,
    Rejection,
    Skip,
    StateKey,
)
from pyscheduler.api.objects import PodSpec
from pyscheduler.intree._hints import queue_if

RESTART_ALL = "RestartAllContainersOnContainerExits"
"""The exit of one container restarts the whole pod (restartPolicyRules, KEP-5532)."""
HOST_NETWORK = "UserNamespacesHostNetworkSupport"
"""User namespaces together with the host network (hostUsers and hostNetwork, KEP-5607)."""
BIND_MOUNT_OPTIONS = "VolumeBindMountOptions"
"""Options of bind mounts (bindMountOptions of a volume mount)."""
LACKS_FEATURE = Rejection("node(s) didn't match Pod's required features", resolvable=False)

_NEEDED = StateKey[frozenset[str]]("NodeDeclaredFeatures needed")


class NodeDeclaredFeatures(PreFilterPlugin, FilterPlugin):
    """Reject nodes that do not declare a feature that the pod's spec uses (status.declaredFeatures).

    Of the features that kubelets declare, only these three decide where a new pod can run.
    """

    name = "NodeDeclaredFeatures"
    checks_resizes = False
    reads = Reads.OWN_NODE
    reads_labels = False
    reads_claims = False
    reads_match_fields = False
    node_fields = NodeFields.OTHER
    pre_reads_nodes = False

    def sign_group(self, group: PodSignatureGroup) -> Hashable:
        return needed_features(group.spec)

    def events_to_register(self) -> Sequence[ClusterEventWithHint]:
        declared = Action.ADD | Action.UPDATE_NODE_DECLARED_FEATURE
        return (
            ClusterEventWithHint(NODE, declared, _declared_features_changed),
            ClusterEventWithHint(POD, Action.UPDATE, _needs_changed),
        )

    def pre_filter(self, cycle: Cycle, pod: Pod, nodes: NodeTable) -> Skip | None:
        needed = needed_features(pod.spec)
        if not needed:
            return SKIP
        cycle[_NEEDED] = needed
        return None

    def filter(self, cycle: Cycle, pod: Pod, node: NodeInfo) -> Rejection | None:
        return None if cycle[_NEEDED] <= _features(node.node) else LACKS_FEATURE

    def filter_all(self, cycle: Cycle, pod: Pod, nodes: NodeTable) -> NodeToStatus:
        statuses, needed = NodeToStatus(len(nodes)), cycle[_NEEDED]
        has = (needed <= _features(node.node) for node in nodes)
        statuses.reject(~np.fromiter(has, np.bool_, len(nodes)), LACKS_FEATURE)
        return statuses


def needed_features(spec: PodSpec) -> frozenset[str]:
    """Return the names of the features that a pod's spec uses."""
    containers = (*spec.containers, *(spec.init_containers or ()))
    needed = set()
    if any(rule.action == "RestartAllContainers" for c in containers for rule in c.restart_policy_rules or ()):
        needed.add(RESTART_ALL)
    if any(mount.bind_mount_options for c in containers for mount in c.volume_mounts or ()):
        needed.add(BIND_MOUNT_OPTIONS)
    if spec.host_network and spec.host_users is False:
        needed.add(HOST_NETWORK)
    return frozenset(needed)


def _features(node: NodeObject) -> frozenset[str]:
    return frozenset(node.status.declared_features or ())


def _declared_features_changed(_: Pod, event: ClusterEvent) -> QueueingHint:
    """Return QUEUE on any change of the declared features, also of unrelated ones, as kube-scheduler does."""
    old, new = event.old, event.new
    return queue_if(old is None or (old.status.declared_features or ()) != (new.status.declared_features or ()))


def _needs_changed(pod: Pod, event: ClusterEvent) -> QueueingHint:
    return queue_if(event.new.uid == pod.uid and needed_features(event.old.spec) != needed_features(event.new.spec))
