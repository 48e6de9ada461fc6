"""Upper bounds of how many members of a group the nodes have room for, from columns of resources alone."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Set

import numpy as np
from numpy.typing import NDArray

from pyscheduler.api.handle import Handle
from pyscheduler.api.nodes import Ints, NodeTable
from pyscheduler.api.pod import Pod
from pyscheduler.api.quantity import MAX_INT64
from pyscheduler.api.resources import PODS, quantity
from pyscheduler.api.usable_nodes import usable_nodes
from pyscheduler.core.scheduling.failure import Failure

Floats = NDArray[np.float64]
"""Array of floats with one entry per node."""
UNLIMITED = 1 << 31
"""Number of members on a node that has enough of all resources."""
_LARGEST_REQUEST = MAX_INT64 >> 10
"""Amount that nominated pods request at most here, so that what a node has free does not overflow."""
_INSUFFICIENT = re.compile(r"Insufficient ([^\s,]+?)\.?(?=[\s,]|$)")
_TOO_MANY_PODS = "Too many pods"
"""Reasons of NodeResourcesFit in a message."""


def least_requests(members: Iterable[Pod]) -> dict[str, int]:
    """Return what each of the members requests at least; without resources that one of them does not request."""
    requests = [pod.requests.effective for pod in {pod.signature.template.id: pod for pod in members}.values()]
    least = {resource: min(each.get(resource, 0) for each in requests) for resource in requests[0]}
    return {resource: amount for resource, amount in least.items() if amount}


def without_delegated(handle: Handle, amounts: Mapping[str, int]) -> Mapping[str, int]:
    """Return these amounts without the resources that a node need not list, as devices may provide them instead."""
    delegated = handle.delegated_resources(amounts)
    return {resource: n for resource, n in amounts.items() if resource not in delegated} if delegated else amounts


def requests_of_nodes(handle: Handle, pods: Iterable[Pod]) -> list[Mapping[str, int]]:
    """Return what each of the pods requests of its node, without resources that the node need not list."""
    requests = [pod.requests.effective for pod in pods]
    delegated = handle.delegated_resources({resource for each in requests for resource in each})
    return [{r: n for r, n in each.items() if r not in delegated} for each in requests] if delegated else requests


def requests_in_columns(requests: Iterable[Mapping[str, int]], resources: Iterable[str]) -> dict[str, Ints]:
    """Return a column of amounts for each resource; as in the columns of nodes, none is above the largest int64."""
    listed = list(requests)
    return {
        resource: np.fromiter((min(each.get(resource, 0), MAX_INT64) for each in listed), np.int64, len(listed))
        for resource in resources
    }


def free_for_members(
    nodes: NodeTable, resources: Iterable[str], nominated: Iterable[tuple[int, Pod]]
) -> dict[str, Ints]:
    """Return what each node has free of the resources, without what these nominated pods request, given their rows."""
    free = {resource: nodes.allocatable(resource) - nodes.requested(resource) for resource in resources}
    for row, pod in nominated:
        for resource, amounts in free.items():
            amounts[row] -= min(pod.requests.effective.get(resource, 0), _LARGEST_REQUEST)
    return free


def members_that_fit(free: Mapping[str, Ints], least: Mapping[str, int], nodes: int) -> Ints:
    """Return how many members of these requests each node has room for, given what it has free of each resource."""
    most = np.full(nodes, UNLIMITED, np.int64)
    for resource, amount in least.items():
        most = np.minimum(most, np.maximum(free[resource], 0) // amount)
    return most


def members_per_node(nodes: NodeTable, requests: Mapping[str, int]) -> Ints:
    """Return how many pods of these requests each node has room for."""
    requests = {resource: min(amount, MAX_INT64) for resource, amount in requests.items() if amount > 0}
    free = free_for_members(nodes, requests, ())
    slots: Ints = nodes.allowed_pods - nodes.pod_counts
    return np.minimum(members_that_fit(free, requests, len(nodes)), slots)


def relative_room(nodes: NodeTable, pod: Pod) -> Floats:
    """Return what each node has free of the resources that a pod requests, as a sum of shares of the largest node."""
    room = np.zeros(len(nodes))
    for resource in pod.requests.effective:
        allocatable = nodes.allocatable(resource)
        room += (allocatable - nodes.requested(resource)) / max(1, int(allocatable.max(initial=1)))
    return room


def most_members(nodes: NodeTable, least: Mapping[str, int]) -> int:
    """Return how many members of these requests all nodes have room for."""
    free = {resource: nodes.allocatable(resource) - nodes.requested(resource) for resource in least}
    return int(members_that_fit(free, least, len(nodes)).sum())


def lacking_resources(nodes: NodeTable, requests: Mapping[str, int]) -> str:
    """Return what a pod lacks on the node with the most room for it, such as `1 cpu on node n2`; "" if nothing."""
    lacks, node = lacking_on_best_node(nodes, requests)
    return f"{lacks} on node {node}" if lacks else ""


def lacking_on_best_node(nodes: NodeTable, requests: Mapping[str, int]) -> tuple[str, str]:
    """Return what a pod lacks on the node with the most room for it, such as `1 cpu`, and the node; "" if nothing."""
    if not len(nodes):
        return "", ""
    lacks = {
        resource: np.maximum(amount - (nodes.allocatable(resource) - nodes.requested(resource)), 0)
        for resource, amount in requests.items()
    }
    share = sum((lack / requests[resource] for resource, lack in lacks.items()), np.zeros(len(nodes)))
    i = int(share.argmin())
    parts = [f"{quantity(resource, int(lack[i]))} {resource}" for resource, lack in lacks.items() if lack[i]]
    return " and ".join(parts), nodes.names[i]


def usable_amounts(nodes: NodeTable, resources: Iterable[str]) -> dict[str, int]:
    """Return how much of each resource all nodes have together that are ready and not cordoned."""
    usable = usable_nodes(nodes)
    return {resource: int(amounts(nodes, resource)[0][usable].sum()) for resource in resources}


def free_amounts(nodes: NodeTable, resources: Iterable[str]) -> dict[str, int]:
    """Return how much of each resource is free on these nodes."""
    usable, free = usable_nodes(nodes), dict[str, int]()
    for resource in resources:
        allocatable, requested = amounts(nodes, resource)
        free[resource] = int(np.maximum(allocatable - requested, 0)[usable].sum())
    return free


def amounts(nodes: NodeTable, resource: str) -> tuple[Ints, Ints]:
    """Return the allocatable and the requested amounts; of `pods`, the allowed and the running number."""
    if resource == PODS:
        return nodes.allowed_pods, nodes.pod_counts
    return nodes.allocatable(resource), nodes.requested(resource)


def fits_empty_nodes(nodes: NodeTable, least: Mapping[str, int], needed: int) -> bool:
    """Return False if so many members of these requests would not fit even if nothing else ran."""
    allocatable = {resource: nodes.allocatable(resource) for resource in least}
    return int(members_that_fit(allocatable, least, len(nodes)).sum()) >= needed


def insufficient_resources(failures: Iterable[Failure], resources: Iterable[str]) -> Set[str]:
    """Return the resources of which nodes had too little in a failed attempt; `pods` if they had too many pods.

    Nothing may be concluded from others: a profile may lack NodeResourcesFit, or let it ignore some of them.
    """
    messages = {failure.message for failure in failures}
    named = {name for message in messages for name in _INSUFFICIENT.findall(message)}
    if any(_TOO_MANY_PODS in message for message in messages):
        named.add(PODS)
    return named.intersection(resources)
