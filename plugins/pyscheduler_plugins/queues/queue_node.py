"""A queue of the tree: sums of its subtree, its claim to the share of its parent, and the division among its children.

Sums are brought up to date at once along the path to the root. The division is lazy: only queues with a changed amount
to divide, or a changed claim of a child, are marked, for the resources that changed.
"""

from __future__ import annotations

from collections.abc import Iterator

from pyscheduler.api.resources import Amounts
from pyscheduler_plugins.queues.max_min import Claim, max_min
from pyscheduler_plugins.queues.queue import Queue, QueueState

OrderKey = tuple[int, bool, float, str]
"""Sort key of queues with one parent."""


class JobTotals:
    """Sums over the jobs of one queue, without its children. They outlive a change of the queues."""

    __slots__ = ("allocated", "pending")

    def __init__(self) -> None:
        self.allocated: Amounts = {}
        self.pending: Amounts = {}


class QueueNode:
    """A queue in the tree."""

    __slots__ = (
        "_claims",
        "allocated",
        "children",
        "claimed_by_children",
        "demand",
        "deserved",
        "guarantee",
        "nominal",
        "order",
        "own",
        "parent",
        "queue",
        "stale",
    )

    def __init__(self, queue: Queue, parent: QueueNode | None, own: JobTotals) -> None:
        self.queue, self.parent, self.own = queue, parent, own
        self.children: list[QueueNode] = []
        self.guarantee: Amounts = {}
        """At least the sum of the children's."""
        self.nominal: Amounts = {}
        """`deserved` of the spec; where it has none, the sum of the children's. At least the guarantee."""
        self.allocated: Amounts = {}
        """Sum of the subtree."""
        self.claimed_by_children: Amounts = {}
        self.demand: Amounts = {}
        """Allocated and pending of the subtree, as far as the capabilities in it allow."""
        self._claims: dict[str, Claim] = {}
        self.deserved: Amounts = {}
        self.order: OrderKey | None = None
        """Sort key among the queues with the same parent; None if it has to be computed."""
        self.stale: set[str] = set()
        """Resources that must be divided among the children again."""

    def _update_demand(self, resource: str) -> int:
        """Compute the demand from the jobs and the children. Return the difference to the previous one."""
        before, after = self.demand.get(resource, 0), self._compute_demand(resource)
        if before != after:
            self.demand[resource] = after
            self.order = None
            self._claims.pop(resource, None)
        return after - before

    def _compute_demand(self, resource: str) -> int:
        amount = self.claimed_by_children.get(resource, 0) + self.own.allocated.get(resource, 0)
        if self.queue.state is QueueState.OPEN:  # a closed one starts no more jobs
            amount += self.own.pending.get(resource, 0)
        capability = self.queue.capability.get(resource)
        return amount if capability is None else min(amount, capability)

    def claim(self, resource: str) -> Claim:
        """Return the claim to the parent's share."""
        claim = self._claims.get(resource)
        if claim is None:
            claim = self._claims[resource] = self._compute_claim(resource)
        return claim

    def _compute_claim(self, resource: str) -> Claim:
        limit = self.demand.get(resource, 0)
        nominal = self.nominal.get(resource, 0)
        if resource in self.queue.deserved:
            limit = min(limit, nominal)
        guarantee = self.guarantee.get(resource, 0)
        return Claim(self.queue.weight, limit, min(guarantee, limit), min(nominal, limit))

    def path(self) -> Iterator[QueueNode]:
        """Yield this node and all above it, up to the root."""
        node: QueueNode | None = self
        while node is not None:
            yield node
            node = node.parent

    def sum_guarantees(self) -> None:
        """Compute guarantee and nominal, and add them to the parent's; called for children before their parent."""
        self.nominal.update(self.queue.deserved)
        for resource, amount in self.queue.guarantee.items():
            self.guarantee[resource] = max(self.guarantee.get(resource, 0), amount)
        for resource, amount in self.guarantee.items():
            self.nominal[resource] = max(self.nominal.get(resource, 0), amount)
        if self.parent is not None:
            for sums, own in ((self.parent.guarantee, self.guarantee), (self.parent.nominal, self.nominal)):
                for resource, amount in own.items():
                    sums[resource] = sums.get(resource, 0) + amount

    def add(self, resource: str, allocated: int) -> None:
        """Add an allocated amount to the path to the root, and bring the demand on it up to date."""
        if allocated:
            for each in self.path():
                each.order = None
                each.allocated[resource] = each.allocated.get(resource, 0) + allocated
            if self.children:
                self.stale.add(resource)  # own jobs reduce what there is to divide
        node = self
        while (difference := node._update_demand(resource)) and node.parent is not None:
            node = node.parent
            node.claimed_by_children[resource] = node.claimed_by_children.get(resource, 0) + difference
            node.stale.add(resource)

    def divide(self) -> None:
        """Divide the share among the children, for the resources that changed."""
        for resource in self.stale:
            divisible = max(0, self.deserved.get(resource, 0) - self.own.allocated.get(resource, 0))
            shares = max_min(divisible, [child.claim(resource) for child in self.children])
            for child, share in zip(self.children, shares, strict=True):
                if child.deserved.get(resource, 0) != share:
                    child.deserved[resource] = share
                    child.order = None
                    if child.children:
                        child.stale.add(resource)
        self.stale.clear()
