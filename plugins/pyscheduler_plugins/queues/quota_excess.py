"""The jobs to evict from a queue that has allocated more than its quota, which was lowered below what its jobs use.

It is the smallest set of bundles that brings the queue within its quota, in the order of reclaim. Queues below it give
up what they have above their shares first: these add up to the lowered quota.
"""

from __future__ import annotations

from collections.abc import Iterable

from pyscheduler.api.resources import Amounts
from pyscheduler.api.steps import exhaust
from pyscheduler_plugins.queues.bundles import Bundle
from pyscheduler_plugins.queues.tree import QueueTree
from pyscheduler_plugins.queues.victim_search import Allowance, CandidateBundle, smallest_set


def excess(tree: QueueTree, queue: str) -> Amounts:
    """Return what the queue has allocated above its quota; without resources in which it is not above."""
    allocated, quota = tree.counted(queue), tree.queue(queue).capability
    return {r: allocated.get(r, 0) - most for r, most in quota.items() if allocated.get(r, 0) > most}


def surplus_of(tree: QueueTree, queue: str, bundles: Iterable[Bundle]) -> list[Bundle]:
    """Return the smallest set of bundles without which the queue is within its quota.

    If all of them do not suffice, such as without critical pods, they are evicted as far as they help.
    """
    over = excess(tree, queue)
    candidates = [each for bundle in bundles if (each := _candidate(tree, queue, bundle, over)) is not None]
    jobs_frees: dict[str, dict[bool, Amounts]] = {}
    for each in candidates:
        sums = jobs_frees.setdefault(each.bundle.job, {}).setdefault(each.bundle.is_whole, {})
        for resource, n in each.frees.items():
            sums[resource] = sums.get(resource, 0) + n
    # A job is counted once: by all its pods, or by those above its minimum.
    freed = {r: sum(max(s.get(r, 0) for s in sums.values()) for sums in jobs_frees.values()) for r in over}
    missing = {r: min(n, freed[r]) for r, n in over.items() if freed[r]}
    if not missing:
        return []
    below = {name for each in candidates for name in each.queues}
    above_shares = {
        name: {r: n for r, n in tree.over_deserved(name).items() if r in missing} if name != queue else {}
        for name in below
    }
    within_shares = [c for c in candidates if all(_is_above(above_shares[name], c) for name in c.queues[:-1])]
    found = exhaust(smallest_set(within_shares, missing, Allowance(above_shares, {name: {} for name in below})))
    if found is None:
        without_shares: dict[str, Amounts] = {name: {} for name in below}
        found = exhaust(smallest_set(candidates, missing, Allowance(without_shares, without_shares)))
    return found or []


def _candidate(tree: QueueTree, queue: str, bundle: Bundle, over: Amounts) -> CandidateBundle | None:
    """Return a bundle of the queue, or of one below it, that frees some of what is above the quota; None otherwise."""
    path = tree.path(bundle.queue) if bundle.queue in tree else ()
    frees = {r: n for r, n in bundle.resources.items() if r in over and n > 0}
    return CandidateBundle(bundle, frees, path[: path.index(queue) + 1]) if queue in path and frees else None


def _is_above(above_share: Amounts, candidate: CandidateBundle) -> bool:
    return not above_share.keys().isdisjoint(candidate.frees)
