"""DynamicResources on each node: which requests it serves as devices, whether the claims fit, and how well."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Container, Hashable, Iterator
from typing import Final

import numpy as np
from numpy.typing import NDArray

from pyscheduler.api import Diagnosis, Mask, NodeInfo, NodeTable, NodeToStatus, Pod, Rejection, Scores, StatusError
from pyscheduler.api.devices import ResourceClaim
from pyscheduler.api.resources import is_extended
from pyscheduler.intree.devices.allocator import Allocator
from pyscheduler.intree.devices.errors import (
    AllocationError,
    AllocationTimeoutError,
    NodeAllocationError,
    SearchTooLongError,
)
from pyscheduler.intree.resource_claims.attempt import NodeAllocation, PodClaims
from pyscheduler.intree.resource_claims.binding_conditions import DeviceBindingFailedError, is_ready
from pyscheduler.intree.resource_claims.claims_on_nodes import ClaimsOnNodes, NodeVerdict, claims_key, encoded
from pyscheduler.intree.resource_claims.device_classes import CLASS_PREFIX, DeviceClasses
from pyscheduler.intree.resource_claims.extended_resources import RequestsOnNode, requests_on_node, with_requests
from pyscheduler.intree.resource_claims.objects import CachedClaim

_NOT_AVAILABLE: Final = Rejection("resourceclaim not available on the node", resolvable=False)
_NOT_ALLOCATABLE: Final = Rejection("cannot allocate all claims", resolvable=False)
_MAX_TOO_LONG: Final = 256
Places = NDArray[np.intp]
"""Indices of nodes in a table."""


class NodeFilter:
    """Filter and Score of DynamicResources, for one node and for all nodes at once."""

    def __init__(self, classes: DeviceClasses, on_nodes: ClaimsOnNodes, timed_out: Container[str]) -> None:
        """`timed_out` are the UIDs of claims whose binding conditions were not met in time."""
        self._classes = classes
        self._on_nodes = on_nodes
        self._timed_out = timed_out
        self._too_long: OrderedDict[Hashable, str] = OrderedDict()
        """Errors of searches that took too long, by what they depend on, the node included: they would recur."""

    def key(self, state: PodClaims, pod: Pod) -> Hashable:
        """Return a key of everything that results depend on besides the node, the devices and their use."""
        allocated = [
            (i, encoded(claim.allocation), self._is_bindable(claim))
            for i, claim in enumerate(state.claims)
            if claim.allocation is not None
        ]
        requests: Hashable = None
        if state.extended_claim is not None:
            provided = requests_on_node(pod, self._classes.provided(pod.requests.real), self._classes.of_resource)
            has_requests = bool(state.extended_claim.api.spec.devices.requests)
            requests = has_requests, encoded(provided.requests), tuple(pod.requests.real.items())
        new = claims_key([state.claims[i].api for i in state.to_allocate()])
        return new, tuple(allocated), requests, self._classes.version

    # -- filter -------------------------------------------------------------------------------------------------

    def filter(self, state: PodClaims, pod: Pod, node: NodeInfo) -> Rejection | None:
        """Return why the claims cannot be used on the node, None if they can. StatusError ends the attempt."""
        on_node = self._requests_on(state, pod, node)
        if isinstance(on_node, Rejection):
            return on_node
        if on_node is None and not state.has_user_claims:
            return None
        if state.allocator is not None:
            found = self._allocate(state, state.allocator, on_node, node)
            if isinstance(found, Rejection):
                return found
        is_unavailable = any(self._is_unavailable(state, i, node) for i in range(len(state.claims)))
        return _NOT_AVAILABLE if is_unavailable else None

    def filter_all(self, state: PodClaims, pod: Pod, nodes: NodeTable) -> NodeToStatus:
        """Return `filter` for each node of a table."""
        statuses = NodeToStatus(len(nodes))
        for on_node, places in self._by_requests(state, pod, nodes):
            if isinstance(on_node, Rejection):
                statuses.reject(_mask(nodes, places), on_node)
            elif state.allocator is not None and (on_node is not None or state.has_user_claims):
                for verdict, alike in self._verdicts(state, on_node, nodes, places):
                    if verdict.rejection is not None:
                        statuses.reject(_mask(nodes, alike), verdict.rejection)
        for i, claim in enumerate(state.claims):
            if claim.allocation is not None:
                statuses.reject(~self._available_mask(state, i, nodes), _NOT_AVAILABLE)
        return statuses

    def unavailable(self, state: PodClaims, diagnosis: Diagnosis, nodes: NodeTable, plugin: str) -> list[int]:
        """Return the claims that are allocated and cannot be used on a node that was rejected for that."""
        left = {i for i, claim in enumerate(state.claims) if claim.allocation is not None}
        found = set[int]()
        for node in nodes if left else ():
            status = diagnosis.status_of(node.name)
            if status is not None and status.plugin == plugin and status.reasons == _NOT_AVAILABLE.reasons:
                found |= {i for i in left if self._is_unavailable(state, i, node)}
                left -= found
            if not left:
                break
        return sorted(found)

    # -- score ---------------------------------------------------------------------------------------------------

    def score_all(self, state: PodClaims, pod: Pod, nodes: NodeTable) -> Scores:
        """Return the score of each node."""
        scores: Scores = np.full(len(nodes), state.allocated_score, np.int64)
        if state.has_alternatives:
            for on_node, places in self._by_requests(state, pod, nodes):
                if not isinstance(on_node, Rejection):
                    for verdict, alike in self._verdicts(state, on_node, nodes, places):
                        scores[alike] += verdict.score
        return scores

    def allocation_on(
        self, state: PodClaims, allocator: Allocator | None, pod: Pod, node: NodeInfo
    ) -> NodeAllocation | None:
        """Return what the claims that are not allocated get on a node; None if nothing."""
        on_node = self._requests_on(state, pod, node)
        if allocator is None or isinstance(on_node, Rejection) or (on_node is None and not state.has_user_claims):
            return None
        found = self._allocate(state, allocator, on_node, node)
        return None if isinstance(found, Rejection) else found

    # -- allocation ------------------------------------------------------------------------------------------------

    def _by_requests(
        self, state: PodClaims, pod: Pod, nodes: NodeTable
    ) -> Iterator[tuple[RequestsOnNode | Rejection | None, Places]]:
        """Yield each result of `_requests_on` with the places of the nodes in the table that have it."""
        groups: list[Places] = [np.arange(len(nodes))] if len(nodes) else []
        for resource in self._requested(pod) if state.extended is not None else ():
            lacks = nodes.allocatable(resource) == 0
            if not self._classes.of_resource(resource):
                for place in np.flatnonzero(lacks).tolist():
                    lacks[place] = resource not in nodes[place].allocatable
            groups = [
                part for places in groups for part in (places[lacks[places]], places[~lacks[places]]) if len(part)
            ]
        for places in groups:
            yield self._requests_on(state, pod, nodes[int(places[0])]), places

    def _verdicts(
        self, state: PodClaims, on_node: RequestsOnNode | None, nodes: NodeTable, places: Places
    ) -> Iterator[tuple[NodeVerdict, Places]]:
        allocator = state.allocator
        assert allocator is not None, "claims are to be allocated"

        def evaluate(node: NodeInfo) -> NodeVerdict:
            found = self._allocate(state, allocator, on_node, node)
            if isinstance(found, Rejection):
                return NodeVerdict(found)
            return NodeVerdict(None, found.score)

        key = state.key, None if on_node is None else encoded(on_node.requests)
        return self._on_nodes.groups(key, nodes, places, evaluate)

    def _allocate(
        self, state: PodClaims, allocator: Allocator, on_node: RequestsOnNode | None, node: NodeInfo
    ) -> NodeAllocation | Rejection:
        """Return the allocation on a node, or why there is none. StatusError ends the attempt."""
        search = state.key, state.version, node.name
        if error := self._too_long.get(search):
            raise StatusError(error)
        extended: ResourceClaim | None = None
        if on_node is not None and state.extended_claim is not None:
            extended = with_requests(state.extended_claim, on_node.requests)
        claims = [
            extended if i == state.extended and extended is not None else state.claims[i].api
            for i in state.to_allocate()
        ]
        try:
            results = allocator.allocate(node.name, node.labels, claims)
        except NodeAllocationError as reason:
            return Rejection(str(reason), resolvable=False)
        except AllocationTimeoutError as reason:
            error = f"node {node.name}: timed out trying to allocate devices"
            if isinstance(reason, SearchTooLongError):
                self._too_long[search] = error
                if len(self._too_long) > _MAX_TOO_LONG:
                    self._too_long.popitem(last=False)
            raise StatusError(error) from None
        except AllocationError as problem:
            raise StatusError(str(problem)) from None
        return _NOT_ALLOCATABLE if results is None else NodeAllocation(results, claims, extended, on_node)

    def _requested(self, pod: Pod) -> list[str]:
        """Return the extended resources that the pod requests."""
        return [
            resource
            for resource, amount in pod.requests.real.items()
            if amount and (is_extended(resource) or resource.startswith(CLASS_PREFIX))
        ]

    def _requests_on(self, state: PodClaims, pod: Pod, node: NodeInfo) -> RequestsOnNode | Rejection | None:
        """Return the requests for extended resources that the node has as devices; None if it has none."""
        claim = state.extended_claim
        if claim is None:
            return None
        if claim.api.spec.devices.requests:
            return Rejection("cannot schedule extended resource claim", resolvable=False)  # of an earlier attempt
        resources = []
        for resource in self._requested(pod):
            if not node.allocatable.get(resource) and self._classes.of_resource(resource):
                resources.append(resource)
            elif resource not in node.allocatable:
                return Rejection("cannot fit resource", resolvable=False)
        if not resources and not state.has_user_claims:
            return None
        return requests_on_node(pod, resources, self._classes.of_resource)

    def _is_unavailable(self, state: PodClaims, index: int, node: NodeInfo) -> bool:
        """Return True if the claim is allocated and its devices cannot be used on the node, or not at all."""
        claim = state.claims[index]
        if not state.allocated_nodes[index].include(node.name, node.labels):
            return True
        return claim.allocation is not None and not self._is_bindable(claim)

    def _available_mask(self, state: PodClaims, index: int, nodes: NodeTable) -> Mask:
        """Return the mask of nodes on which an allocated claim can be used."""
        if not self._is_bindable(state.claims[index]):
            return np.zeros(len(nodes), np.bool_)
        return state.allocated_nodes[index].mask(nodes)

    def _is_bindable(self, claim: CachedClaim) -> bool:
        """Return False if the binding conditions of the claim's devices have failed, or were not met in time."""
        try:
            return is_ready(claim) or claim.uid not in self._timed_out
        except DeviceBindingFailedError:
            return False


def _mask(nodes: NodeTable, places: Places) -> Mask:
    mask: Mask = np.zeros(len(nodes), np.bool_)
    mask[places] = True
    return mask
