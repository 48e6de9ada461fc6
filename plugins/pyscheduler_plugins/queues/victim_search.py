"""Search for the smallest set of bundles that frees enough.

Sets are compared by the number of queues that they take below their deserved amounts, then by the number of jobs that
they stop, the highest priority among their bundles, the number of their pods, and what they free beyond the need; of
equal ones, newer pods are evicted. The search is depth-first with bounds. It is exact up to a number of steps; after
that, the best set so far is returned. No bundle can be left out of any set that is returned.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from heapq import nsmallest
from itertools import count

from msgspec import Struct

from pyscheduler.api.resources import Amounts
from pyscheduler.api.steps import Steps
from pyscheduler_plugins.queues.bundles import Bundle

MAX_STEPS = 2_000
"""Steps of one search after its first complete set."""

_TURNS_PER_STEP = 256
"""Candidates that are taken or put back before the search pauses, at 30 µs each."""
Balance = dict[str, Amounts]
"""Amounts by resource, by queue. A resource that is not listed is not limited."""
_Cost = tuple[int, int, int]
"""Stopped jobs, highest priority, pods."""
_NO_PRIORITY = -(2**63)


class CandidateBundle(Struct, frozen=True):
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


def smallest_set(
    candidates: Sequence[CandidateBundle], missing: Amounts, allowance: Allowance
) -> Steps[list[Bundle] | None]:
    """Return the smallest set that frees the missing amounts, None if no set does.

    The last bundle that is taken from a queue may take it below its deserved amounts; before, the queue is above them.
    """
    search = _Search(_few_of_each_kind(candidates, missing), missing, allowance)
    max_below, queues = 0, len(allowance.above_deserved)
    while search.best is None and max_below < 2 * queues:
        yield from search.run(max_below)
        max_below = 2 * max_below or 1
    return search.best


class _QueueBalance:
    """Amounts that a queue has above what it deserves, less those of the chosen bundles."""

    def __init__(self, above_deserved: Amounts) -> None:
        self._left = dict(above_deserved)
        self._chosen: Counter[frozenset[tuple[str, int]]] = Counter()

    def is_below(self, frees: Mapping[str, int]) -> bool:
        """Return True if another bundle takes the queue below its deserved amounts, or if it is below already."""
        return any(left < frees.get(resource, 0) for resource, left in self._left.items())

    def allows(self, frees: Mapping[str, int]) -> bool:
        """Return True if the queue stays above its deserved amounts until the last one of its bundles is taken."""
        left = {resource: n - frees.get(resource, 0) for resource, n in self._left.items()}
        return any(self._is_last(dict(bundle), left) for bundle in (frees.items(), *self._chosen))

    @staticmethod
    def _is_last(bundle: Mapping[str, int], left: Amounts) -> bool:
        without = {resource: n + bundle.get(resource, 0) for resource, n in left.items()}
        return all(n >= 0 for n in without.values()) and any(bundle.get(r, 0) and n > 0 for r, n in without.items())

    def change(self, frees: Mapping[str, int], sign: int) -> None:
        """Add a bundle (-1) or remove it (1)."""
        _add_listed(self._left, frees, sign)
        kind = frozenset(frees.items())
        self._chosen[kind] -= sign
        if not self._chosen[kind]:
            del self._chosen[kind]


class _Search:
    """State of a search: the chosen candidates, and what is still missing and allowed."""

    def __init__(self, candidates: Iterable[CandidateBundle], missing: Amounts, allowance: Allowance) -> None:
        self.best: list[Bundle] | None = None
        self._best_cost: tuple[int, _Cost, float] | None = None
        self._allowance = allowance
        self._candidates = _by_preference(candidates, missing)
        self._need = missing
        self._missing = dict(missing)
        self._balances = {queue: _QueueBalance(of) for queue, of in allowance.above_deserved.items()}
        self._below = 0
        self._above_guarantee = {queue: dict(of) for queue, of in allowance.above_guarantee.items()}
        self._chosen: list[CandidateBundle] = []
        self._costs: list[_Cost] = [(0, _NO_PRIORITY, 0)]
        self._jobs: Counter[str] = Counter()
        self._stopped_jobs: set[str] = set()
        self._next_kind = _next_positions(_kinds(self._candidates))
        self._freed_from = _suffix_sums(self._candidates, missing)
        self._max_below = 0
        self._steps = 0

    def run(self, max_below: int) -> Steps[None]:
        """Search all sets that take at most so many queues below their deserved amounts."""
        self._max_below, self._steps = max_below, 0
        positions: list[int] = []
        position, is_first_descent = 0, True
        for turn in count(1):
            if turn % _TURNS_PER_STEP == 0:
                yield
            covered = not any(n > 0 for n in self._missing.values())
            following = None if covered else self._next_allowed(position, is_first_descent)
            if following is not None:
                self._take(self._candidates[following])
                positions.append(following)
                position = following + 1
                continue
            if covered:
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
            if self._is_allowed(candidate, _added(cost, candidate.bundle)):
                return index
        return None

    def _is_allowed(self, candidate: CandidateBundle, cost: _Cost) -> bool:
        bundle = candidate.bundle
        conflicts = self._jobs[bundle.job] if bundle.is_whole else bundle.job in self._stopped_jobs
        if conflicts or not any(self._missing[r] > 0 for r in candidate.frees):
            return False
        balances = [self._balances[queue] for queue in candidate.queues]
        newly_below = [
            balance for balance in balances if balance.is_below(candidate.frees) and not balance.is_below({})
        ]
        below = self._below + len(newly_below)
        is_too_expensive = self._best_cost is not None and (below, cost) > self._best_cost[:2]
        return (
            below <= self._max_below
            and not is_too_expensive
            and all(not balance.is_below(candidate.frees) or balance.allows(candidate.frees) for balance in balances)
            and self._keeps_guarantees(candidate)
        )

    def _keeps_guarantees(self, candidate: CandidateBundle) -> bool:
        return all(
            amount <= self._above_guarantee[queue].get(resource, amount)
            for queue in candidate.queues
            for resource, amount in candidate.bundle.resources.items()
            if amount > 0
        )

    def _take(self, candidate: CandidateBundle) -> None:
        self._chosen.append(candidate)
        self._costs.append(_added(self._costs[-1], candidate.bundle))
        self._jobs[candidate.bundle.job] += 1
        if candidate.bundle.is_whole:
            self._stopped_jobs.add(candidate.bundle.job)
        self._change(candidate, -1)

    def _put_back(self) -> None:
        candidate = self._chosen.pop()
        self._costs.pop()
        self._jobs[candidate.bundle.job] -= 1
        if candidate.bundle.is_whole:
            self._stopped_jobs.discard(candidate.bundle.job)
        self._change(candidate, 1)

    def _change(self, candidate: CandidateBundle, sign: int) -> None:
        _add_listed(self._missing, candidate.frees, sign)
        for queue in candidate.queues:
            _add_listed(self._above_guarantee[queue], candidate.bundle.resources, sign)
            balance = self._balances[queue]
            self._below -= balance.is_below({})
            balance.change(candidate.frees, sign)
            self._below += balance.is_below({})

    def _record(self) -> None:
        """Compare the chosen set, without unnecessary bundles, with the best one."""
        chosen = list(self._chosen)
        excess = {r: sum(each.frees.get(r, 0) for each in chosen) - n for r, n in self._need.items()}
        for candidate in sorted(chosen, key=lambda each: _added(self._costs[0], each.bundle), reverse=True):
            if all(candidate.frees.get(r, 0) <= n for r, n in excess.items()):
                chosen.remove(candidate)
                _add_listed(excess, candidate.frees, -1)
        cost = self._costs[0]
        for candidate in chosen:
            cost = _added(cost, candidate.bundle)
        total = (self._count_below(chosen), cost, sum(n / self._need[r] for r, n in excess.items()))
        if self._best_cost is None or total < self._best_cost:
            self.best, self._best_cost = [candidate.bundle for candidate in chosen], total

    def _count_below(self, chosen: Iterable[CandidateBundle]) -> int:
        """Return the number of queues that the candidates take below their deserved amounts."""
        taken: Balance = {}
        for candidate in chosen:
            for queue in candidate.queues:
                _add_listed(taken.setdefault(queue, dict.fromkeys(self._need, 0)), candidate.frees, 1)
        above = self._allowance.above_deserved
        return sum(any(amounts[r] > n for r, n in above[queue].items()) for queue, amounts in taken.items())


def _added(cost: _Cost, bundle: Bundle) -> _Cost:
    return cost[0] + bundle.is_whole, max(cost[1], bundle.priority), cost[2] + len(bundle.pods)


def _add_listed(amounts: Amounts, changes: Mapping[str, int], sign: int) -> None:
    for resource, change in changes.items():
        if resource in amounts:
            amounts[resource] += sign * change


def _few_of_each_kind(candidates: Sequence[CandidateBundle], missing: Amounts) -> list[CandidateBundle]:
    """Return the candidates without equal ones beyond the number that frees all that is missing, the newest ones.

    A queue may run 100,000 equal pods. Surplus of a job that may be evicted as a whole is not left out: no other
    surplus can replace it.
    """
    whole = {candidate.bundle.job for candidate in candidates if candidate.bundle.is_whole}
    few: list[CandidateBundle] = []
    equal: dict[tuple[object, ...], list[CandidateBundle]] = {}
    for candidate in candidates:
        bundle = candidate.bundle
        if bundle.job in whole:
            few.append(candidate)
        else:
            kind = bundle.queue, bundle.priority, len(bundle.pods), *bundle.resources.items()
            equal.setdefault(kind, []).append(candidate)
    for same in equal.values():
        most = max(-(-missing[r] // n) for r, n in same[0].frees.items())
        few += same if len(same) <= most else nsmallest(most, same, key=_age)
    return few


def _age(candidate: CandidateBundle) -> tuple[float, str, tuple[str, ...]]:
    bundle = candidate.bundle
    return -bundle.started, bundle.job, bundle.pods


def _by_preference(candidates: Iterable[CandidateBundle], missing: Amounts) -> list[CandidateBundle]:
    """Return cheap bundles that cover much first, then newer pods. Those of one kind follow each other."""
    newest: dict[tuple[object, ...], float] = {}
    kinds = [(candidate, _kind(candidate, missing)) for candidate in candidates]
    for candidate, kind in kinds:
        newest[kind] = max(candidate.bundle.started, newest.get(kind, candidate.bundle.started))

    def preference(of: tuple[CandidateBundle, tuple[object, ...]]) -> tuple[object, ...]:
        (*cheapness, queues, resources), bundle = of[1], of[0].bundle
        return *cheapness, -newest[of[1]], queues, resources, -bundle.started, bundle.job, bundle.pods

    return [candidate for candidate, _ in sorted(kinds, key=preference)]


def _kind(candidate: CandidateBundle, missing: Amounts) -> tuple[object, ...]:
    bundle = candidate.bundle
    covered = sum(min(n, missing[r]) / missing[r] for r, n in candidate.frees.items())
    excess = sum(max(0, n - missing[r]) / missing[r] for r, n in candidate.frees.items())
    resources = tuple(sorted(bundle.resources.items()))
    return bundle.is_whole, bundle.priority, -covered, len(bundle.pods), excess, candidate.queues, resources


def _kinds(candidates: Sequence[CandidateBundle]) -> list[tuple[object, ...]]:
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


def _suffix_sums(candidates: Sequence[CandidateBundle], missing: Amounts) -> list[Amounts]:
    """Return what each candidate and all after it free together."""
    sums = [dict.fromkeys(missing, 0)]
    for candidate in reversed(candidates):
        sums.append({resource: n + candidate.frees.get(resource, 0) for resource, n in sums[-1].items()})
    return sums[::-1]
