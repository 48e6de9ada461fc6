"""Score of an allocation: the earlier the chosen alternative of a request, the higher."""

from __future__ import annotations

from collections.abc import Iterable

from pyscheduler.api.devices import AllocationResult, ResourceClaim

MAX_ALTERNATIVES = 8
"""Most alternatives of one request (FirstAvailableDeviceRequestMaxSize)."""


def allocation_score(allocations: Iterable[tuple[ResourceClaim, AllocationResult]]) -> int:
    """Return the sum over all requests with alternatives: 8 for the first alternative, 7 for the second, and so on."""
    return sum(_claim_score(claim, allocation) for claim, allocation in allocations)


def _claim_score(claim: ResourceClaim, allocation: AllocationResult) -> int:
    names = {result.request for result in allocation.devices.results or ()}
    total = 0
    for request in claim.spec.devices.requests or ():
        for index, alternative in enumerate(request.first_available or ()):
            if f"{request.name}/{alternative.name}" in names:
                total += MAX_ALTERNATIVES - index
    return total
