"""Checks of claims before the search, in kube-scheduler's order: the first problem is the one that is reported."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from pyscheduler.api.devices import ALL, EXACT_COUNT, MAX_DEVICES_PER_CLAIM, DeviceClass, ResourceClaim
from pyscheduler.intree.devices.allocated import NOTHING
from pyscheduler.intree.devices.capacity import fits
from pyscheduler.intree.devices.constraints import Constraint, constraint
from pyscheduler.intree.devices.errors import AllocationError, CapacityError
from pyscheduler.intree.devices.matching import NodeDevices
from pyscheduler.intree.devices.requests import Request, alternatives, object_name


class CheckedClaim:
    """A claim with its requests and constraints, for one search on one node."""

    def __init__(self, claim: ResourceClaim, classes: Mapping[str, DeviceClass], node: NodeDevices) -> None:
        """Check the claim. AllocationError if it cannot be handled."""
        self.claim = claim
        self.name = object_name(claim)
        self.requests: list[list[Request]] = []
        least = 0
        for given in claim.spec.devices.requests or ():
            checked = []
            for parent, name, spec in alternatives(given):
                request = Request((self.name, parent, name), spec, classes)
                _determine_count(request, node)
                checked.append(request)
            self.requests.append(checked)
            fewest = min(request.count for request in checked)
            if fewest > MAX_DEVICES_PER_CLAIM - least:
                problem = f"adding {fewest} devices exceeds the claim limit of {MAX_DEVICES_PER_CLAIM}"
                raise AllocationError(
                    f"claim {self.name}, request {given.name}: {problem}, with {least} already accounted for"
                )
            least += fewest
        given_constraints = claim.spec.devices.constraints or ()
        self.constraints: Sequence[Constraint] = [
            constraint(self.name, number, each) for number, each in enumerate(given_constraints)
        ]
        for request in (each for checked in self.requests for each in checked):
            request.constraints = [n for n, each in enumerate(self.constraints) if request.is_listed(each.requests)]


def _determine_count(request: Request, node: NodeDevices) -> None:
    if request.mode == ALL:
        request.all_devices = _all_devices(request, node)
        request.count = len(request.all_devices)
    elif request.mode != EXACT_COUNT:
        raise AllocationError(f"{request.place}: unsupported count mode {request.mode}")


def _all_devices(request: Request, node: NodeDevices) -> list[int]:
    """Return all devices that the request selects and whose capacity is large enough, whether or not they are free."""
    node.steps.take(len(node.devices))
    numbers: list[int] = []
    first = 0
    for pool in node.pools:
        if not pool.is_usable:
            state = "being updated" if pool.is_incomplete else "invalid"
            problem = f"asks for all devices, but resource pool {pool.id} is currently {state}"
            raise AllocationError(f"{request.place}: {problem}")
        for number in range(first, first + len(pool.devices)):
            if node.is_selectable(request, number) and _is_large_enough(request, number, node):
                numbers.append(number)
        first += len(pool.devices)
    return numbers


def _is_large_enough(request: Request, number: int, node: NodeDevices) -> bool:
    device = node.devices[number]
    try:
        consumed = node.consumed(request, number)
    except CapacityError as error:
        name = device.id.device
        raise AllocationError(f"{request.place}: checking capacity for device {name}: {error}") from None
    return consumed is not None and fits(consumed, device.capacities, NOTHING, NOTHING)
