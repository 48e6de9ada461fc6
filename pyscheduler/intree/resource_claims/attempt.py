"""Claims of one pod in one scheduling attempt, and their allocation on a node."""

from __future__ import annotations

from collections.abc import Hashable, Iterator
from dataclasses import dataclass, field

from pyscheduler.api.devices import AllocationResult, ResourceClaim
from pyscheduler.intree.devices.allocator import Allocator
from pyscheduler.intree.devices.score import allocation_score
from pyscheduler.intree.resource_claims.extended_resources import RequestsOnNode
from pyscheduler.intree.resource_claims.objects import AllocatedNodes, CachedClaim


@dataclass(slots=True, eq=False)
class NodeAllocation:
    """Allocation of a pod's claims on one node."""

    results: list[AllocationResult]
    """Results of the claims that are not allocated yet, in their order."""
    claims: list[ResourceClaim]
    """These claims."""
    extended: ResourceClaim | None
    """Claim for extended resources with its requests on this node."""
    on_node: RequestsOnNode | None
    """Its requests."""

    @property
    def score(self) -> int:
        """Sum of the scores of the chosen alternatives."""
        return allocation_score(zip(self.claims, self.results, strict=True))


@dataclass(slots=True, eq=False)
class PodClaims:
    """Claims of one pod in one attempt."""

    claims: list[CachedClaim] = field(default_factory=list)
    extended: int | None = None
    """Place of the claim for extended resources, which is the last one."""
    allocated_nodes: list[AllocatedNodes] = field(default_factory=list)
    """Nodes on which each claim can be used, as far as it is allocated."""
    allocator: Allocator | None = None
    """None if all claims are allocated."""
    key: Hashable = ()
    """Equal for pods that have equal results on equal nodes."""
    version: int = 0
    """Version of the devices and their use."""
    on_node: NodeAllocation | None = None
    """Allocation on the selected node."""
    reserved: dict[int, AllocationResult] = field(default_factory=dict)
    """Allocations on the selected node that are not written yet, by claim."""
    shared: dict[int, AllocationResult] = field(default_factory=dict)
    """Allocations, not written yet, that another pod of the group has reserved, by claim."""
    in_flight: list[str] = field(default_factory=list)
    """UIDs under which these are in flight."""

    def to_allocate(self) -> Iterator[int]:
        """Yield the claims that are not allocated."""
        return (i for i, claim in enumerate(self.claims) if claim.allocation is None)

    @property
    def extended_claim(self) -> CachedClaim | None:
        """Claim for extended resources."""
        return None if self.extended is None else self.claims[self.extended]

    @property
    def has_user_claims(self) -> bool:
        """True if the pod names claims."""
        return len(self.claims) > (self.extended is not None)

    @property
    def has_alternatives(self) -> bool:
        """True if a request of a claim that is not allocated has alternatives."""
        claims = (self.claims[i].api for i in self.to_allocate())
        return any(request.first_available for claim in claims for request in claim.spec.devices.requests or ())

    @property
    def allocated_score(self) -> int:
        """Sum of the scores of the chosen alternatives of the claims that are allocated."""
        return allocation_score((claim.api, claim.allocation) for claim in self.claims if claim.allocation is not None)
