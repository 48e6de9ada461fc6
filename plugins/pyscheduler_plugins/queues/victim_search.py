"""Search for the smallest set of bundles that frees enough.

Sets are compared by the number of jobs that they stop, then by the highest priority among their bundles, the number of
their pods, and what they free beyond the need; of equal ones, newer pods are evicted. The search is depth-first with
bounds. It is exact up to a number of steps; after that, the best set so far is returned. No bundle can be left out of
any set that is returned.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence

from msgspec import Struct

from pyscheduler.api.resources import Amounts
from pyscheduler_plugins.queues.bundles import Bundle

MAX_STEPS = 5_000

Balance = dict[str, Amounts]
"""Amounts by resource, by queue. A resource that is not listed is not limited."""
_Cost = tuple[int, int, int]
_NO_PRIORITY = -(2**63)


class Candidate(Struct, frozen=True):
    """A bundle that may be chosen."""

    bundle: Bundle
    frees: Amounts
    """Its amounts of the missing resources."""
    queues: tuple[str, ...]
    """The queues that it takes from: its own and those above, up to the common ancestor with the reclaiming one."""


class Allowance(Struct, frozen=True):
    """Amounts that may be taken from queues."""

    above_deserved: Balance
    """Only resources that are missing, and of which the queue has more than it deserves."""
    above_guarantee: Balance


def smallest_set(candidates: Sequence[Candidate], missing: Amounts, allowance: Allowance) -> list[Bundle] | None:
    """Return the smallest set that frees the missing amounts, None if no set does.

    A set that leaves all queues at their deserved amounts comes first. Failing that, one bundle of the set takes its
    queue below them; without that bundle, the queue is above them.
    """
    search = _Search(candidates, missing, allowance)
    search.run(None)
    if search.best is None:
        search.run_with_last()
    return search.best


class _Search:
    """State of a search: the chosen candidates, and what is still missing and allowed."""

    def __init__(self, candidates: Iterable[Candidate], missing: Amounts, allowance: Allowance) -> None:
        self.best: list[Bundle] | None = None
        self._best_cost: tuple[_Cost, float] | None = None
        self._candidates = sorted(candidates, key=lambda candidate: _preference(candidate, missing))
        self._need = missing
        self._missing = dict(missing)
        self._above_deserved = {queue: dict(of) for queue, of in allowance.above_deserved.items()}
        self._above_guarantee = {queue: dict(of) for queue, of in allowance.above_guarantee.items()}
        self._chosen: list[Candidate] = []
        self._costs: list[_Cost] = [(0, _NO_PRIORITY, 0)]
        self._last: Candidate | None = None
        self._jobs: Counter[str] = Counter()
        self._stopped_jobs: set[str] = set()
        self._kinds = _kinds(self._candidates)
        self._next_kind = _next_positions(self._kinds)
        self._freed_from = _suffix_sums(self._candidates, missing)
        self._steps = 0

    def run_with_last(self) -> None:
        """Search the sets in which one bundle takes its queue below its deserved amounts."""
        self._steps = 0
        kinds = set()
        for candidate, kind in zip(self._candidates, self._kinds, strict=True):
            if kind in kinds or not (self._is_above_deserved(candidate) and self._keeps_guarantees(candidate)):
                continue
            kinds.add(kind)
            self._take(candidate, is_last=True)
            self.run(candidate)
            self._put_back(is_last=True)
            if self._steps > MAX_STEPS:
                return

    def run(self, last: Candidate | None) -> None:
        """Search all sets of which only `last`, which is chosen already, takes its queue below its deserved amounts."""
        self._last = last
        positions: list[int] = []
        position, is_first_descent = 0, True
        while True:
            covered = not any(n > 0 for n in self._missing.values())
            following = None if covered else self._next_allowed(position, is_first_descent)
            if following is not None:
                self._take(self._candidates[following])
                positions.append(following)
                position = following + 1
                continue
            if covered and (last is None or self._is_above_deserved(last)):
                self._record()
            if not positions:
                return
            is_first_descent = False
            removed = positions.pop()
            self._put_back()
            position = self._next_kind[removed]  # with another one of the same kind, the sets would be equal

    def _next_allowed(self, position: int, is_first_descent: bool) -> int | None:
        """Return the position of the next candidate that can be added, None if no set can be completed."""
        cost = self._costs[-1]
        for index in range(position, len(self._candidates)):
            self._steps += 1
            if self._steps > MAX_STEPS and not is_first_descent:
                return None
            if any(n > 0 and self._freed_from[index][r] < n for r, n in self._missing.items()):
                return None
            candidate = self._candidates[index]
            if self._is_allowed(candidate) and not self._is_too_expensive(_added(cost, candidate.bundle)):
                return index
        return None

    def _is_allowed(self, candidate: Candidate) -> bool:
        bundle = candidate.bundle
        conflicts = self._jobs[bundle.job] if bundle.is_whole else bundle.job in self._stopped_jobs
        return (
            not conflicts
            and candidate is not self._last
            and any(self._missing[r] > 0 for r in candidate.frees)
            and self._stays_deserved(candidate)
            and self._keeps_guarantees(candidate)
        )

    def _stays_deserved(self, candidate: Candidate) -> bool:
        return all(
            amount <= self._above_deserved[queue].get(resource, amount)
            for queue in candidate.queues
            for resource, amount in candidate.frees.items()
        )

    def _is_above_deserved(self, candidate: Candidate) -> bool:
        return all(
            any(self._above_deserved[queue].get(resource, 0) > 0 for resource in candidate.frees)
            for queue in candidate.queues
        )

    def _keeps_guarantees(self, candidate: Candidate) -> bool:
        return all(
            amount <= self._above_guarantee[queue].get(resource, amount)
            for queue in candidate.queues
            for resource, amount in candidate.bundle.resources.items()
            if amount > 0
        )

    def _take(self, candidate: Candidate, *, is_last: bool = False) -> None:
        self._chosen.append(candidate)
        self._costs.append(_added(self._costs[-1], candidate.bundle))
        self._jobs[candidate.bundle.job] += 1
        if candidate.bundle.is_whole:
            self._stopped_jobs.add(candidate.bundle.job)
        self._change(candidate, -1, is_last)

    def _put_back(self, *, is_last: bool = False) -> None:
        candidate = self._chosen.pop()
        self._costs.pop()
        self._jobs[candidate.bundle.job] -= 1
        if candidate.bundle.is_whole:
            self._stopped_jobs.discard(candidate.bundle.job)
        self._change(candidate, 1, is_last)

    def _change(self, candidate: Candidate, sign: int, is_last: bool) -> None:
        _add_listed(self._missing, candidate.frees, sign)
        for queue in candidate.queues:
            _add_listed(self._above_guarantee[queue], candidate.bundle.resources, sign)
            if not is_last:
                _add_listed(self._above_deserved[queue], candidate.frees, sign)

    def _is_too_expensive(self, cost: _Cost) -> bool:
        return self._best_cost is not None and cost > self._best_cost[0]

    def _record(self) -> None:
        """Compare the chosen set, without unnecessary bundles, with the best one."""
        chosen = [candidate.bundle for candidate in self._chosen]
        excess = {r: sum(bundle.resources.get(r, 0) for bundle in chosen) - n for r, n in self._need.items()}
        for bundle in sorted(chosen, key=lambda each: (each.is_whole, each.priority, len(each.pods)), reverse=True):
            if all(bundle.resources.get(r, 0) <= n for r, n in excess.items()):
                chosen.remove(bundle)
                _add_listed(excess, bundle.resources, -1)
        cost = self._costs[0]
        for bundle in chosen:
            cost = _added(cost, bundle)
        relative_excess = sum(n / self._need[r] for r, n in excess.items())
        if self._best_cost is None or (cost, relative_excess) < self._best_cost:
            self.best, self._best_cost = chosen, (cost, relative_excess)


def _added(cost: _Cost, bundle: Bundle) -> _Cost:
    return cost[0] + bundle.is_whole, max(cost[1], bundle.priority), cost[2] + len(bundle.pods)


def _add_listed(amounts: Amounts, changes: Mapping[str, int], sign: int) -> None:
    for resource, change in changes.items():
        if resource in amounts:
            amounts[resource] += sign * change


def _preference(candidate: Candidate, missing: Amounts) -> tuple[object, ...]:
    """Return the sort key: cheap bundles that cover much come first, then newer pods."""
    bundle = candidate.bundle
    covered = sum(min(n, missing[r]) / missing[r] for r, n in candidate.frees.items())
    excess = sum(max(0, n - missing[r]) / missing[r] for r, n in candidate.frees.items())
    resources = tuple(sorted(bundle.resources.items()))
    kind = (bundle.is_whole, bundle.priority, -covered, len(bundle.pods), excess, candidate.queues, resources)
    return *kind, -bundle.started, bundle.job, bundle.pods


def _kinds(candidates: Sequence[Candidate]) -> list[tuple[object, ...]]:
    """Return the kind of each candidate. Those of one kind differ in their age only, and follow each other."""
    surplus_of = {candidate.bundle.job for candidate in candidates if not candidate.bundle.is_whole}
    both = {c.bundle.job for c in candidates if c.bundle.is_whole and c.bundle.job in surplus_of}
    kinds: list[tuple[object, ...]] = []
    for candidate in candidates:
        bundle = candidate.bundle
        resources = tuple(sorted(bundle.resources.items()))
        # Surplus of a job excludes the whole job, so other surplus cannot replace it.
        job = bundle.job if bundle.job in both else ""
        kinds.append((job, bundle.is_whole, bundle.priority, len(bundle.pods), candidate.queues, resources))
    return kinds


def _next_positions(kinds: Sequence[object]) -> list[int]:
    """Return for each position the next one with another kind."""
    following = list(range(1, len(kinds) + 1))
    for position in range(len(kinds) - 2, -1, -1):
        if kinds[position] == kinds[position + 1]:
            following[position] = following[position + 1]
    return following


def _suffix_sums(candidates: Sequence[Candidate], missing: Amounts) -> list[Amounts]:
    """Return what each candidate and all after it free together."""
    sums = [dict.fromkeys(missing, 0)]
    for candidate in reversed(candidates):
        sums.append({resource: n + candidate.frees.get(resource, 0) for resource, n in sums[-1].items()})
    return sums[::-1]
