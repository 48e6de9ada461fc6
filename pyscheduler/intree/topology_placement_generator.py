"""TopologyPlacementGenerator: place a pod group in one domain of its topology (KEP-5732)."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from pyscheduler.api import (
    NO_DOMAIN,
    NODE,
    Action,
    ClusterEventWithHint,
    NodeInfo,
    NodeTable,
    PlacementCandidate,
    PlacementGeneratePlugin,
    Pod,
    PodGroup,
    StatusError,
    TopologyConstraint,
)


class TopologyPlacementGenerator(PlacementGeneratePlugin):
    """Generate a candidate for each value of the node label in spec.schedulingConstraints.topology of a PodGroup.

    Once pods of the group have a node, only their domain is one. A group without constraints may be placed on all
    nodes. Groups with preferred or several topologies, which kube-scheduler's API does not have, are left to the
    scheduler.
    """

    name = "TopologyPlacementGenerator"

    def events_to_register(self) -> Sequence[ClusterEventWithHint]:
        return (ClusterEventWithHint(NODE, Action.ADD | Action.UPDATE_NODE_LABEL),)

    def generate_placements(
        self, group: PodGroup, scheduled: Sequence[tuple[Pod, NodeInfo]], nodes: NodeTable
    ) -> Sequence[PlacementCandidate] | None:
        if not group.topology:
            return [PlacementCandidate("", np.arange(len(nodes), dtype=np.int64))]
        if not _is_one_label(group.topology):
            return None
        key = group.topology[0].key
        required = _domain_of(key, scheduled) if scheduled else None
        ids = nodes.topology(key).ids
        rows = np.flatnonzero(ids != NO_DOMAIN)
        by_domain = rows[np.argsort(ids[rows], kind="stable")]
        starts = np.flatnonzero(np.diff(ids[by_domain])) + 1
        parts = np.split(by_domain, starts) if len(by_domain) else []
        candidates = [PlacementCandidate(nodes[int(part[0])].labels[key], part) for part in parts]
        return [each for each in candidates if required in (None, each.name)]


def _is_one_label(topology: Sequence[TopologyConstraint]) -> bool:
    return len(topology) == 1 and topology[0].required and topology[0].domains is None


def _domain_of(key: str, scheduled: Sequence[tuple[Pod, NodeInfo]]) -> str:
    """Return the domain of the pods of the group that have a node. StatusError if it is not one, as kube-scheduler."""
    domain = None
    for pod, node in scheduled:
        found = node.labels.get(key)
        if found is None:
            why = f"no topology domain found for pod {pod.key}"
        elif domain not in (None, found):
            why = f"more than 1 domain found for pod group: {domain}, {found}"
        else:
            domain = found
            continue
        raise StatusError(f"cannot determine domain for already scheduled pods: {why}")
    assert domain is not None, "there are scheduled pods"
    return domain
