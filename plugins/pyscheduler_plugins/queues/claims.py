"""Claims to what is free: what queues deserve, request and have not allocated.

A queue has none while its own next job is held back, or those of all queues below it that have an unmet share: such a
claim would never end.
"""

from __future__ import annotations

from pyscheduler_plugins.queues.max_min_columns import exact_sum
from pyscheduler_plugins.queues.queue_node import QueueNode


def others_claim(parent: QueueNode, child: QueueNode, resource: str) -> int:
    """Return the sum of what children of a divided queue have a claim to, without one of them."""
    columns = parent.columns
    if columns is None:
        total = 0
        for each in parent.children:
            amount = each.unmet(resource)
            if amount and each is not child and not (each.held_below and is_held_back(each, resource)):
                total += amount
        return total
    unmet = columns.unmet(resource)
    unmet[child.position] = 0
    unmet[columns.is_held] = 0
    for i in columns.inner:
        if unmet[i] and is_held_back(parent.children[i], resource):
            unmet[i] = 0
    return exact_sum(unmet)


def is_held_back(node: QueueNode, resource: str) -> bool:
    """Return True if a queue has no claim though it deserves more than it has allocated. Its parent is divided."""
    if not node.held_below or not node.children:
        return node.is_held
    node.divide()
    columns = node.columns
    if columns is None:
        below = [child for child in node.children if child.unmet(resource)]
        return all(is_held_back(child, resource) for child in below) if below else node.is_held
    positions = columns.unmet(resource).nonzero()[0]
    if not len(positions):
        return node.is_held
    left = positions[~columns.is_held[positions]].tolist()
    return all(is_held_back(node.children[i], resource) for i in left)
