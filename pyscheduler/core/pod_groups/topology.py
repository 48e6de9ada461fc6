"""Topology domains in which a pod group may be placed, those first that it leaves the least room in.

Small groups in large domains would strand the large groups that come later.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence

import numpy as np

from pyscheduler.api.nodes import Mask, NodeTable
from pyscheduler.api.pod import Pod
from pyscheduler.api.pod_group import PodGroup
from pyscheduler.api.topology import NO_DOMAIN

_MAX_DOMAINS = 32
"""Number of domains of a topology that are tried: each costs an attempt to place all members."""


def candidate_domains(
    nodes: NodeTable, group: PodGroup, members: Sequence[Pod], started: Sequence[int], needed: int
) -> Iterator[Mask]:
    """Yield masks of the nodes among which the group may be placed, in the order in which they are tried.

    Within each domain of the required topologies, first the domains of the preferred ones in their order, the narrowest
    first, then all of its nodes. `started` are the rows with members of the group; they must be in the domain. At least
    `needed` of the pending members have to be placed.
    """
    rooms = _Rooms(nodes, members, needed)
    whole = np.ones(len(nodes), np.bool_)
    required = [whole]
    for constraint in group.topology:
        if constraint.required:
            required = [part for mask in required for part in _domains(nodes, constraint.key, mask)]
    for mask in rooms.tightest([mask for mask in required if mask[[*started]].all()]):
        for constraint in group.topology:
            if not constraint.required:
                parts = [part for part in _domains(nodes, constraint.key, mask) if part[[*started]].all()]
                yield from rooms.tightest(parts)
        yield mask


def _domains(nodes: NodeTable, key: str, mask: Mask) -> list[Mask]:
    """Return the nodes of each domain that has some of the nodes of a mask; nodes without the label are in none."""
    ids = nodes.topology(key).ids
    return [mask & (ids == domain) for domain in np.unique(ids[mask]).tolist() if domain != NO_DOMAIN]


class _Rooms:
    """Free resources of domains, compared with what a group requests."""

    def __init__(self, nodes: NodeTable, members: Sequence[Pod], needed: int) -> None:
        requests = sorted((pod.requests.effective for pod in members), key=lambda each: sum(each.values()))
        self._all, self._least = _sum(requests), _sum(requests[:needed])
        self._free = {
            resource: np.maximum(nodes.allocatable(resource) - nodes.requested(resource), 0) for resource in self._all
        }

    def tightest(self, masks: Sequence[Mask]) -> list[Mask]:
        """Return the domains with room for as many members as are needed; first those with room for all, ascending."""
        ranked: list[tuple[bool, float, int]] = []
        for i, mask in enumerate(masks):
            free = {resource: int(amounts[mask].sum()) for resource, amounts in self._free.items()}
            if all(free[resource] >= amount for resource, amount in self._least.items()):
                room = sum(free[resource] / amount for resource, amount in self._all.items() if amount)
                ranked.append((any(free[resource] < amount for resource, amount in self._all.items()), room, i))
        return [masks[i] for _, _, i in sorted(ranked)[:_MAX_DOMAINS]]


def _sum(requests: Sequence[Mapping[str, int]]) -> Counter[str]:
    total = Counter[str]()
    for each in requests:
        total.update(each)
    return total
