"""Dominant resource fairness (DRF) of jobs, and hierarchical DRF of queues.

The dominant share of a job is the largest share of any resource of the cluster that it has allocated. DRF serves the
job, or the queue, with the smallest one next.

In a hierarchy, a queue's dominant share covers only the resources that it can still be served with: those that the next
jobs of its queues request which fit into the free resources. Otherwise a queue that has all GPUs, with a next job that
waits for one more, would count as well served, and its sibling would lose its cpus to other queues whenever a job ends.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from fractions import Fraction

from pyscheduler_plugins.queues.tree import QueueTree


def dominant_share(
    allocated: Mapping[str, int], capacity: Mapping[str, int], among: Collection[str] | None = None
) -> Fraction:
    """Return the largest share of a resource, of those in `among`; 1 for a resource that the cluster does not have."""
    resources = allocated if among is None else among
    shares = [Fraction(0)]
    for resource in resources:
        amount, total = allocated.get(resource, 0), capacity.get(resource, 0)
        if amount > 0:
            shares.append(Fraction(amount, total) if total > 0 else Fraction(1))
    return max(shares)


def next_queue(tree: QueueTree, next_requests: Mapping[str, Mapping[str, int]], free: Mapping[str, int]) -> str | None:
    """Return the queue to serve next by hierarchical DRF, None if nothing fits.

    `next_requests` has the request of the next job of each queue with pending jobs. From the root down, the queue with
    the smallest dominant share divided by its weight comes first; equal ones by name, those without a weight last.
    """
    wanted = _wanted(tree, next_requests, free)
    queue = next(iter(tree))
    if queue not in wanted:
        return None
    while children := [child for child in tree.children(queue) if child in wanted]:
        queue = min(children, key=lambda child: _rank(tree, child, wanted[child]))
    return queue


def _wanted(
    tree: QueueTree, next_requests: Mapping[str, Mapping[str, int]], free: Mapping[str, int]
) -> dict[str, set[str]]:
    """Return the resources that can still be allocated to each queue; without queues that cannot be served."""
    wanted: dict[str, set[str]] = {}
    for queue, request in next_requests.items():
        if queue in tree and all(amount <= free.get(resource, 0) for resource, amount in request.items() if amount > 0):
            requested = {resource for resource, amount in request.items() if amount > 0}
            for above in tree.path(queue):
                wanted.setdefault(above, set()).update(requested)
    return wanted


def _rank(tree: QueueTree, queue: str, wanted: Collection[str]) -> tuple[bool, Fraction, str]:
    weight = tree.queue(queue).weight
    share = dominant_share(tree.allocated(queue), tree.capacity(), wanted)
    return weight == 0, share / weight if weight else share, queue
