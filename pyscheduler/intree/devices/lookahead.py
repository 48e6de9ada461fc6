"""Necessary conditions over all requests that are still open, with the devices that are chosen so far.

Each condition relaxes the problem: what is impossible here is impossible in the search. The caller makes sure that the
search cannot end with an error instead.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence

import msgspec

from pyscheduler.intree.devices.chosen import ChosenDevices
from pyscheduler.intree.devices.constraints import MatchAttribute, Value
from pyscheduler.intree.devices.counters import PoolCounters
from pyscheduler.intree.devices.inventory import CounterName
from pyscheduler.intree.devices.requests import Request
from pyscheduler.intree.devices.steps import Steps

Numbers = Sequence[int]


class OpenRequest(msgspec.Struct, frozen=True):
    """Alternatives of a request, and how many devices it still needs of those from `start` on."""

    claim: int
    alternatives: list[Request]
    chosen: int = 0
    start: int = 0


class _Demand(msgspec.Struct, frozen=True):
    """Devices that a request needs at least, whichever alternative is chosen, and those it can have."""

    open: OpenRequest
    needed: int
    candidates: Numbers


def may_succeed(chosen: ChosenDevices, requests: Iterable[OpenRequest]) -> bool:
    """Return False if the open requests cannot all be satisfied. AllocationTimeoutError if there are too many steps."""
    demands: list[_Demand] = []
    for request in requests:
        demand = _demand(chosen, request)
        if demand is None:
            return False
        demands.append(demand)
    return _have_distinct_devices(chosen, demands) and _have_values(chosen, demands) and _have_counters(chosen, demands)


def is_candidate(chosen: ChosenDevices, claim: int, request: Request, number: int) -> bool:
    """Return True if the device can be chosen now. AllocationError or CapacityError as in the search."""
    node = chosen.node
    if chosen.is_in_use(claim, request, node.devices[number]) or not node.is_selectable(request, number):
        return False
    if not chosen.has_capacity(request, number):
        return False
    counters = chosen.counters_to_charge(number)
    if counters is not None and not counters.is_monotonic:
        return True
    return chosen.admits(claim, request, number)


def _demand(chosen: ChosenDevices, request: OpenRequest) -> _Demand | None:
    """Return the demand; None if no alternative can be satisfied on its own."""
    needed: list[int] = []
    candidates: set[int] = set()
    devices = range(request.start, len(chosen.node.devices))
    for alternative in request.alternatives:
        numbers = alternative.all_devices[request.chosen :] if alternative.takes_all else devices
        chosen.node.steps.take(len(numbers))
        possible = [n for n in numbers if is_candidate(chosen, request.claim, alternative, n)]
        left = alternative.count - request.chosen
        if len(possible) >= left and (alternative.count or not alternative.takes_all):
            needed.append(left)
            candidates.update(possible)
    return _Demand(request, min(needed), sorted(candidates)) if needed else None


def _have_distinct_devices(chosen: ChosenDevices, demands: Sequence[_Demand]) -> bool:
    """Return False if there is no assignment of one device to each place of the requests (bipartite matching).

    Shared devices can serve several requests, and admin access does not exclude others, so they are left out.
    """
    assigned: dict[int, int] = {}
    places: list[list[int]] = []
    for demand in demands:
        if any(alternative.admin_access for alternative in demand.open.alternatives):
            continue
        own = [n for n in demand.candidates if not chosen.node.devices[n].is_shared]
        places += [own] * (demand.needed - (len(demand.candidates) - len(own)))
    steps = chosen.node.steps
    return all(_assign(place, places, assigned, steps) for place in range(len(places)))


def _assign(place: int, places: list[list[int]], assigned: dict[int, int], steps: Steps) -> bool:
    """Find a free device for the place, moving other places (an augmenting path, breadth first)."""
    came_from: dict[int, int] = {}
    front = [place]
    while front:
        reached: list[int] = []
        for each in front:
            steps.take(len(places[each]))
            for number in places[each]:
                if number in came_from:
                    continue
                came_from[number] = each
                if number not in assigned:
                    _move(number, place, came_from, assigned)
                    return True
                reached.append(assigned[number])
        front = reached
    return False


def _move(number: int, place: int, came_from: dict[int, int], assigned: dict[int, int]) -> None:
    device_of = {owner: device for device, owner in assigned.items()}
    while True:
        owner = came_from[number]
        before = device_of.get(owner)
        assigned[number] = owner
        if owner == place or before is None:
            return
        number = before


def _have_values(chosen: ChosenDevices, demands: Sequence[_Demand]) -> bool:
    """Return False if a constraint rejects too many candidates of a request, or of all requests that it links."""
    for claim, constraints in enumerate(chosen.constraints):
        for index, constraint in enumerate(constraints):
            linked = [
                (demand.needed, [constraint.value(chosen.node.devices[n]) for n in demand.candidates])
                for demand in demands
                if demand.open.claim == claim and demand.needed and _applies(index, demand.open.alternatives)
            ]
            chosen.node.steps.take(sum(len(values) for _, values in linked))
            if any(constraint.limit(values) < needed for needed, values in linked):
                return False
            if isinstance(constraint, MatchAttribute) and linked and not _common_values(linked):
                return False
    return True


def _applies(constraint: int, alternatives: Sequence[Request]) -> bool:
    return all(constraint in alternative.constraints for alternative in alternatives)


def _common_values(linked: Sequence[tuple[int, list[Value | None]]]) -> set[Value | None]:
    """Return the values of which each request has enough devices."""
    enough = [{value for value, count in Counter(values).items() if count >= needed} for needed, values in linked]
    return set.intersection(*enough)


def _have_counters(chosen: ChosenDevices, demands: Sequence[_Demand]) -> bool:
    """Return False if even the devices with the smallest amounts of a counter consume more than is left."""
    total: dict[tuple[int, CounterName], int] = {}
    of_pool: dict[int, PoolCounters] = {}
    for demand in demands:
        amounts: dict[tuple[int, CounterName], list[int]] = {}
        for number in demand.candidates:
            device = chosen.node.devices[number]
            counters = chosen.counters_to_charge(number)
            if counters is None or device.is_shared:
                continue  # a further share does not consume counters
            if not counters.is_monotonic:
                return True
            of_pool[id(counters)] = counters
            for name, amount in device.counters:
                amounts.setdefault((id(counters), name), []).append(amount)
        for key, consumed in amounts.items():
            needed = demand.needed - (len(demand.candidates) - len(consumed))
            total[key] = total.get(key, 0) + sum(sorted(consumed)[: max(needed, 0)])
    return all(amount <= of_pool[pool].left(name) for (pool, name), amount in total.items())
