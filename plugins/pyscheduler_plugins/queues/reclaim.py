"""Reclaim: the pods that a queue may evict from queues which have allocated more than they deserve.

Bundles are evicted while their queue stays at its deserved amounts. Only if that frees too little, the last bundle of a
queue may take it below them, of as few queues as possible. None may take a queue below its guarantee, and the one that
reclaims never exceeds its own deserved amounts. So it is not reclaimed from, and reclaiming ends.

In a hierarchy, this holds for all queues below the common ancestor of the two queues.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from itertools import pairwise

from msgspec import Struct

from pyscheduler.api.counts import counted
from pyscheduler.api.resources import Amounts
from pyscheduler.api.steps import Steps
from pyscheduler_plugins.queues.bundles import Bundle
from pyscheduler_plugins.queues.quantities import format_amount, format_amounts
from pyscheduler_plugins.queues.tree import QueueTree
from pyscheduler_plugins.queues.victim_search import Allowance, CandidateBundle, smallest_set

BUNDLES_PER_STEP = 512
"""Bundles that are created or compared with their queues in a step, at 20 µs each."""
MAX_REASONS = 3
"""Number of queues that the reason names."""


class Reclaim(Struct, frozen=True):
    """Outcome of a search for victims."""

    victims: tuple[Bundle, ...] = ()
    """Empty if the request fits without evictions, or if there is a reason."""
    reason: str = ""
    """Reason why no set of victims serves the request; "" if one does, or if none is needed."""


def find_victims(
    tree: QueueTree, queue: str, request: Mapping[str, int], free: Mapping[str, int], bundles: Iterable[Bundle]
) -> Steps[Reclaim]:
    """Return the smallest set of bundles that makes room for a request of the queue when evicted.

    The request is part of the queue's pending usage; `free` is what it can use without evictions. The caller leaves out
    bundles that must not be evicted, such as critical pods.
    """
    missing = {r: n - max(0, free.get(r, 0)) for r, n in request.items() if n > max(0, free.get(r, 0))}
    if not missing:
        return Reclaim()
    excesses = _excesses(tree, queue, request)
    if queue in excesses:
        return Reclaim(reason=_reclaimer_reason(tree, queue, request, free, excesses[queue]))
    found = _CandidateBundles(tree, queue, missing, excesses)
    for i, bundle in enumerate(bundles, 1):
        found.add(bundle)
        if i % BUNDLES_PER_STEP == 0:
            yield
    victims = yield from smallest_set(found.candidates, missing, found.allowance)
    return Reclaim(reason=found.reason()) if victims is None else Reclaim(tuple(victims))


def is_within_share(tree: QueueTree, queue: str, request: Mapping[str, int]) -> bool:
    """Return True if the queue would not exceed its deserved amounts with the request."""
    return queue in tree and queue not in _excesses(tree, queue, request)


def is_within_guarantee(tree: QueueTree, queue: str, request: Mapping[str, int]) -> bool:
    """Return True if the queue would not exceed its guarantee with the request, of all that it requests."""
    if queue not in tree:
        return False
    allocated, guarantee = tree.allocated(queue), tree.guarantee(queue)
    return all(allocated.get(r, 0) + n <= guarantee.get(r, 0) for r, n in request.items() if n > 0)


def may_reclaim(tree: QueueTree, queue: str, request: Mapping[str, int]) -> bool:
    """Return False if there are no victims for the request, whatever runs in the other queues."""
    if not is_within_share(tree, queue, request):
        return False
    requested = [resource for resource, amount in request.items() if amount > 0]
    path = tree.path(queue)
    return any(
        tree.queue(other).reclaimable and not tree.over_deserved(other).keys().isdisjoint(requested)
        for child, parent in pairwise(path)
        for other in tree.children(parent)
        if other != child
    )


def may_reclaim_from(tree: QueueTree, queue: str, request: Mapping[str, int], other: str) -> bool:
    """Return False if no bundles of the other queue are victims for the request, whatever runs there."""
    if other not in tree or not is_within_share(tree, queue, request):
        return False
    requested, path = {resource for resource, amount in request.items() if amount > 0}, tree.path(queue)
    below = [each for each in tree.path(other) if each not in path]
    return bool(below) and all(tree.over_deserved(each).keys() & requested for each in below)


def _excesses(tree: QueueTree, queue: str, request: Mapping[str, int]) -> dict[str, tuple[str, int]]:
    """Return the queues from this one up that would exceed their deserved amounts: one resource, and by how much."""
    excesses: dict[str, tuple[str, int]] = {}
    for name in tree.path(queue)[:-1]:
        allocated, deserved = tree.allocated(name), tree.deserved(name)
        for resource, amount in request.items():
            excess = allocated.get(resource, 0) + amount - deserved.get(resource, 0)
            if amount > 0 and excess > 0 and name not in excesses:
                excesses[name] = (resource, excess)
    return excesses


def _reclaimer_reason(
    tree: QueueTree, queue: str, request: Mapping[str, int], free: Mapping[str, int], excess: tuple[str, int]
) -> str:
    resource, amount = excess
    amounts = (
        amount,
        tree.deserved(queue).get(resource, 0),
        tree.allocated(queue).get(resource, 0),
        request[resource],
        max(0, free.get(resource, 0)),
    )
    over, deserved, allocated, requested, available = (format_amount(resource, each) for each in amounts)
    reason = (
        f"queue {queue} would be {over} over its deserved:"
        f" {requested} requested, {available} free, {allocated} allocated, {deserved} deserved"
    )
    for each, n in request.items():
        if n > 0 and n > (most := tree.most_besides_guarantees(queue, each)):
            others = f"other queues have guarantees to all but {format_amount(each, max(0, most))}"
            return f"{reason}; {others}, fewer than the {format_amount(each, n)} requested"
    return reason


class _CandidateBundles:
    """Bundles of queues that have more than they deserve."""

    def __init__(self, tree: QueueTree, queue: str, missing: Amounts, excesses: Mapping[str, object]) -> None:
        self.candidates: list[CandidateBundle] = []
        self.allowance = Allowance({}, {})
        self._tree, self._missing = tree, missing
        self._path = tree.path(queue)
        # A queue above the reclaiming one that would exceed its deserved amounts can reclaim from its own subtree only.
        self._within = next((name for name in reversed(self._path) if name in excesses), self._path[-1])
        self._affected: dict[str, tuple[str, ...]] = {}
        self._victims: dict[str, list[CandidateBundle]] = {}
        self._kept: dict[str, Amounts] = {}
        """Amounts of queues that do not exist or are invalid, from which nothing is reclaimed."""

    def add(self, bundle: Bundle) -> None:
        """Add the bundle to the candidates if all its queues have more than they deserve."""
        frees = {r: n for r, n in bundle.resources.items() if r in self._missing and n > 0}
        if bundle.queue not in self._tree:
            kept = self._kept.setdefault(bundle.queue, {})
            kept.update({r: kept.get(r, 0) + n for r, n in frees.items()})
            return
        queues = self._affected.get(bundle.queue)
        if queues is None:
            queues = self._affected[bundle.queue] = self._below_common_ancestor(bundle.queue)
        if not frees or not queues or not all(self._above_deserved(queue).keys() & frees.keys() for queue in queues):
            return
        candidate = CandidateBundle(bundle, frees, queues)
        self._victims.setdefault(bundle.queue, []).append(candidate)
        if self._protected(queues) is None:
            self.candidates.append(candidate)

    def reason(self) -> str:
        """Return the reason why the bundles free too little."""
        reasons = [self._reason_of(queue, candidates) for queue, candidates in self._victims.items()]
        if not reasons:
            reasons = [f"no pods of another queue that is over its deserved {', '.join(sorted(self._missing))}"]
        kept = {queue: amounts for queue, amounts in self._kept.items() if amounts}
        reasons += [f"queue {q}, which does not exist or is invalid, keeps {format_amounts(kept[q])}" for q in kept]
        more = [counted(len(reasons) - MAX_REASONS, "more queue")] if len(reasons) > MAX_REASONS else []
        return "; ".join(reasons[:MAX_REASONS] + more)

    def _reason_of(self, queue: str, candidates: list[CandidateBundle]) -> str:
        over = format_amounts(self._above_deserved(queue))
        protected = self._protected(candidates[0].queues)
        if protected is not None:
            return f"queue {queue} is {over} over its deserved, queue {protected} is not reclaimable"
        obstacles = [self._guarantee_obstacle(candidate) for candidate in candidates]
        if obstacles[0] and len(candidates) == 1:
            only = f"its only victim is {candidates[0].bundle}"
            return f"queue {queue} is {over} over its deserved, {only}, which would leave {obstacles[0]}"
        if all(obstacles):
            each = f"each of its {len(candidates)} victims"
            return f"queue {queue} is {over} over its deserved, {each} would leave {obstacles[0]}"
        return f"queue {queue} is {over} over its deserved, {format_amounts(self._missing)} must be freed"

    def _guarantee_obstacle(self, candidate: CandidateBundle) -> str:
        """Return the guarantee that the bundle violates, as text; "" if none."""
        for queue in candidate.queues:
            for resource, spare in self.allowance.above_guarantee[queue].items():
                if candidate.bundle.resources.get(resource, 0) > max(0, spare):
                    guarantee = format_amount(resource, self._tree.guarantee(queue)[resource])
                    return f"{queue} below its guarantee {guarantee}"
        return ""

    def _below_common_ancestor(self, queue: str) -> tuple[str, ...]:
        """Return the queues that reclaiming takes from; () for the reclaiming queue and those above it."""
        path = self._tree.path(queue) if queue in self._tree else ()
        if self._within not in path:
            return ()
        return path[: next(index for index, name in enumerate(path) if name in self._path)]

    def _above_deserved(self, queue: str) -> Amounts:
        if queue not in self.allowance.above_deserved:
            over = self._tree.over_deserved(queue)
            allocated, guarantee = self._tree.allocated(queue), self._tree.guarantee(queue)
            self.allowance.above_deserved[queue] = {r: n for r, n in over.items() if r in self._missing}
            # Guarantees that exceed the capacity are reduced in proportion, and the shares are what is left of them.
            deserved = self._tree.deserved(queue)
            kept = {r: min(n, deserved.get(r, 0)) for r, n in guarantee.items()}
            self.allowance.above_guarantee[queue] = {r: allocated.get(r, 0) - n for r, n in kept.items()}
        return self.allowance.above_deserved[queue]

    def _protected(self, queues: Iterable[str]) -> str | None:
        """Return the first of the queues that is not reclaimable, None if all are."""
        return next((queue for queue in queues if not self._tree.queue(queue).reclaimable), None)
