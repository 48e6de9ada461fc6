"""Upper bounds of how many members of a group fit, wherever each of them is placed.

A search with alternatives takes several times as long as the first search, and finds nothing if there are more members
than places. Only rules that rejected nodes in the first search are used: a profile may lack the plugin of the others.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence

import numpy as np

from pyscheduler.api.match import Selector, label_selector
from pyscheduler.api.nodes import Ints, Mask
from pyscheduler.api.objects import PodAffinityTerm
from pyscheduler.api.pod import Pod, PodSignature
from pyscheduler.api.resources import PODS
from pyscheduler.api.topology import NO_DOMAIN
from pyscheduler.core.context import Context
from pyscheduler.core.pod_groups.member_kinds import required_anti_affinity
from pyscheduler.core.pod_groups.room import (
    insufficient_resources,
    least_requests,
    members_that_fit,
    requests_in_columns,
)
from pyscheduler.core.scheduling.failure import Failure
from pyscheduler.core.state.cluster import ClusterState

_ANTI_AFFINITY = "InterPodAffinity"
"""Plugin that checks required anti-affinity."""


def may_fit(
    context: Context, pods: Sequence[Pod], needed: int, failures: Collection[Failure], within: Mask | None
) -> bool:
    """Return False if it is certain that fewer than `needed` of these members fit on the nodes of a mask.

    `failures` are those of a search that has placed too few; its members are no longer on their nodes.
    """
    state = context.state
    rows = np.arange(len(state)) if within is None else np.flatnonzero(within)
    requested = {resource for pod in pods for resource in pod.requests.effective}
    named = insufficient_resources(failures, {*requested, PODS} - context.handle.delegated_resources(requested))
    free = _free(state, named, rows)
    for resource, column in requests_in_columns((pod.requests.effective for pod in pods), named - {PODS}).items():
        if sum(np.sort(column)[:needed].tolist()) > sum(np.maximum(free[resource], 0).tolist()):
            return False
    least = {resource: amount for resource, amount in least_requests(pods).items() if resource in named}
    room = members_that_fit(free, least | ({PODS: 1} if PODS in named else {}), len(rows))
    if room.sum() < needed:
        return False
    if not any(_ANTI_AFFINITY in failure.unschedulable_plugins for failure in failures):
        return True
    signatures = {pod.signature for pod in pods}
    return all(
        _one_per_domain(state, term.topology_key, selector, pods[0].namespace, rows, room) >= needed
        for term, selector in _repels_all(signatures)
    )


def _free(state: ClusterState, resources: Collection[str], rows: Ints) -> Mapping[str, Ints]:
    """Return how much of each resource is free on these rows."""
    nodes = state.table(rows)
    free = {
        resource: nodes.allocatable(resource) - nodes.requested(resource) for resource in resources if resource != PODS
    }
    return free | {PODS: nodes.allowed_pods - nodes.pod_counts}


def _repels_all(signatures: Collection[PodSignature]) -> Iterator[tuple[PodAffinityTerm, Selector]]:
    """Yield the terms of required anti-affinity that all signatures have and that match all of them."""
    for term in required_anti_affinity(next(iter(signatures))):
        selector = label_selector(term.label_selector)
        if selector is None or term.namespaces or term.namespace_selector is not None:
            continue
        if all(selector.matches(each.labels) and term in required_anti_affinity(each) for each in signatures):
            yield term, selector


def _one_per_domain(state: ClusterState, key: str, selector: Selector, namespace: str, rows: Ints, room: Ints) -> int:
    """Return how many members fit if a domain has one, or none if it has a pod that the selector matches.

    `room` is what the nodes have room for; on nodes in no domain there is no other limit.
    """
    domains = state.table().topology(key).ids
    is_free = np.zeros(int(domains.max(initial=0)) + 1, np.bool_)
    is_free[domains[rows[room > 0]]] = True
    for placed in state.placed.sets:
        if placed.signature.namespace == namespace and selector.matches(placed.signature.labels):
            is_free[domains[[node.row for node in placed.nodes]]] = False
    is_free[NO_DOMAIN] = False
    return int(np.count_nonzero(is_free)) + int(room[domains[rows] == NO_DOMAIN].sum())
