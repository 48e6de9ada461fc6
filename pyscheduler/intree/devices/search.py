"""Depth-first search for devices: the first complete solution is the result.

Claims, requests and alternatives are tried in their order; the devices of one request only in increasing order, so
that combinations are tried and not permutations. The order is that of kube-scheduler's allocator (allocateOne of
structured/internal/incubating). The search is a stack of generators: its depth is the number of requested devices,
which a user chooses.
"""

from __future__ import annotations

from collections.abc import Generator
from enum import Enum
from typing import NamedTuple

from pyscheduler.api.devices import MAX_DEVICES_PER_CLAIM
from pyscheduler.intree.devices.chosen import ChosenDevices
from pyscheduler.intree.devices.errors import AllocationError, CapacityError
from pyscheduler.intree.devices.pruning import Pruning
from pyscheduler.intree.devices.requests import Request


class SearchOutcome(Enum):
    """End of the search below a position."""

    DONE = "done"
    FAILED = "failed"
    EXCEEDED = "exceeded"
    """The rest of the claim does not fit into one allocation, whichever devices the requests before get."""


class Position(NamedTuple):
    """The device to choose next, counted within its request."""

    claim: int = 0
    request: int = 0
    alternative: int | None = None
    """Alternative of the request, None before one is chosen."""
    device: int = 0
    start: int = 0
    """Number of the first device to try."""


Step = Generator[Position, SearchOutcome, SearchOutcome]


class Search:
    """Search over the requests of claims."""

    def __init__(self, claims: list[list[list[Request]]], chosen: ChosenDevices, prunes: bool) -> None:
        self._claims = claims
        """Alternatives of each request of each claim; one alternative without parent for an ordinary request."""
        self._chosen = chosen
        self._steps = chosen.node.steps
        self._pruning = Pruning(claims, chosen) if prunes else None
        self.alternative: dict[tuple[int, int], int] = {}
        """Chosen alternative of each request, by claim and request."""

    def run(self) -> bool:
        """Return True if all devices are chosen. AllocationError if the search has to be abandoned."""
        stack: list[Step] = [self._visit(Position())]
        outcome: SearchOutcome | None = None
        while stack:
            try:
                position = stack[-1].send(outcome) if outcome else next(stack[-1])
            except StopIteration as end:
                stack.pop()
                outcome = end.value
            else:
                self._steps.take()
                stack.append(self._visit(position))
                outcome = None
        return outcome is SearchOutcome.DONE

    def _visit(self, at: Position) -> Step:
        if at.claim >= len(self._claims):
            return SearchOutcome.DONE
        requests = self._claims[at.claim]
        if at.request >= len(requests):
            outcome = yield Position(at.claim + 1)
            # Other devices for this claim may let an alternative of the next claim fit.
            return SearchOutcome.FAILED if outcome is SearchOutcome.EXCEEDED else outcome
        alternatives = requests[at.request]
        if at.alternative is None:
            if not alternatives[0].parent:
                at = at._replace(alternative=0)
            else:
                return (yield from self._try_alternatives(at, len(alternatives)))
        request = alternatives[at.alternative or 0]
        if request.takes_all and not request.all_devices:
            return SearchOutcome.FAILED
        if at.device >= request.count:
            return (yield Position(at.claim, at.request + 1))
        if request.count - at.device > MAX_DEVICES_PER_CLAIM - len(self._chosen.results[at.claim]):
            return SearchOutcome.EXCEEDED
        if request.takes_all:
            return (yield from self._take_next_of_all(at, request))
        return (yield from self._try_devices(at, request))

    def _try_alternatives(self, at: Position, number: int) -> Step:
        all_exceeded = True
        for alternative in range(number):
            outcome = yield at._replace(alternative=alternative)
            if outcome is SearchOutcome.DONE:
                self.alternative[at.claim, at.request] = alternative
                return outcome
            all_exceeded = all_exceeded and outcome is SearchOutcome.EXCEEDED
        return SearchOutcome.EXCEEDED if all_exceeded else SearchOutcome.FAILED

    def _take_next_of_all(self, at: Position, request: Request) -> Step:
        if not self._chosen.choose_all(at.claim, request, request.all_devices[at.device]):
            return SearchOutcome.FAILED
        outcome = yield at._replace(device=at.device + 1)
        if outcome is not SearchOutcome.DONE:
            self._chosen.undo(at.claim)
        return outcome

    def _try_devices(self, at: Position, request: Request) -> Step:
        chosen, node, pruning = self._chosen, self._chosen.node, self._pruning
        needed = request.count - at.device
        here = (at.claim, at.request)
        if pruning and not pruning.may_succeed(here, request, at.start, needed):
            return SearchOutcome.FAILED
        failed: set[object] = set()
        for number in range(at.start, len(node.devices)):
            self._steps.take()
            if not self._is_free_and_matches(at.claim, request, number):
                continue
            if failed and pruning and pruning.equivalence(number) in failed:
                continue
            if not chosen.choose(at.claim, request, number):
                continue
            outcome = yield at._replace(device=at.device + 1, start=number + 1)
            if outcome is SearchOutcome.DONE:
                return outcome
            chosen.undo(at.claim)
            if outcome is SearchOutcome.EXCEEDED:
                return outcome
            if pruning:
                pruning.record_failure()
                failed.add(pruning.equivalence(number))
                if not pruning.may_succeed(here, request, number + 1, needed):
                    return SearchOutcome.FAILED
        return SearchOutcome.FAILED

    def _is_free_and_matches(self, claim: int, request: Request, number: int) -> bool:
        """Return True if the device is free, satisfies the selectors and has the capacity, checked in this order."""
        chosen, node = self._chosen, self._chosen.node
        device = node.devices[number]
        if chosen.is_in_use(claim, request, device) or not node.is_selectable(request, number):
            return False
        try:
            return chosen.has_capacity(request, number)
        except CapacityError as error:
            raise AllocationError(f"{request.place}: checking capacity for device {device.id}: {error}") from None
