"""A queue of the tree: sums of its subtree, its claim to the share of its parent, and the division among its children.

Sums are brought up to date at once along the path to the root. The division is lazy: only queues with a changed amount
to divide, or a changed claim of a child, are marked, for the resources that changed.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence, Set

from pyscheduler.api.resources import Amounts
from pyscheduler_plugins.queues import child_columns
from pyscheduler_plugins.queues.child_columns import ChildColumns
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
        "_deserved",
        "_path",
        "allocated",
        "children",
        "claimed_by_children",
        "columns",
        "demand",
        "guarantee",
        "held_below",
        "is_held",
        "nominal",
        "order",
        "own",
        "parent",
        "position",
        "queue",
        "stale",
    )

    def __init__(self, queue: Queue, parent: QueueNode | None, own: JobTotals) -> None:
        self.queue, self.parent, self.own = queue, parent, own
        self._path: tuple[QueueNode, ...] = (self,) if parent is None else (self, *parent._path)
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
        self._deserved: Amounts = {}
        """Share, unless the parent has columns."""
        self.columns: ChildColumns | None = None
        """Columns of the children if there are many."""
        self.position = 0
        """Position among the children of the parent."""
        self.is_held = False
        """True if the queue itself is held back."""
        self.held_below = 0
        """Number of queues in the subtree that are held back."""
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
            if self.parent is not None and (columns := self.parent.columns) is not None:
                columns.claim_changed(self.position, resource)
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

    def add_child(self, child: QueueNode) -> None:
        """Add a queue below this one."""
        child.position = len(self.children)
        self.children.append(child)

    def set_columns(self) -> None:
        """Use columns for the children if there are many; called once all queues have their children."""
        if len(self.children) >= child_columns.MANY:
            self.columns = ChildColumns(self.children, [i for i, child in enumerate(self.children) if child.children])

    @property
    def _columns_of_parent(self) -> ChildColumns | None:
        return None if self.parent is None else self.parent.columns

    @property
    def deserved(self) -> Amounts:
        """Share of each resource, once the parent has been divided."""
        columns = self._columns_of_parent
        return self._deserved if columns is None else columns.shares_of(self.position)

    def share(self, resource: str) -> int:
        """Return the share of a resource, once the parent has been divided."""
        if self.parent is None or self.parent.columns is None:  # not the property: this is called most
            return self._deserved.get(resource, 0)
        return self.parent.columns.share(self.position, resource)

    def unmet(self, resource: str) -> int:
        """Return what the queue deserves and has not allocated, once the parent has been divided."""
        unmet = self.share(resource) - self.allocated.get(resource, 0)
        return unmet if unmet > 0 else 0

    def guaranteed(self, resource: str) -> int:
        """Return the guarantee as far as it is requested; the rest is lent to others."""
        return min(self.guarantee.get(resource, 0), self.demand.get(resource, 0))

    def set_held(self, *, is_held: bool) -> None:
        """Set whether the queue is held back, so that it has no claim to its share."""
        if is_held == self.is_held:
            return
        self.is_held = is_held
        for each in self.path():
            each.held_below += 1 if is_held else -1
        if (columns := self._columns_of_parent) is not None and not self.children:
            columns.set_held(self.position, is_held=is_held)

    def order_key(self, capacity: Mapping[str, int]) -> OrderKey:
        """Return the sort key among queues: priority, then those that have a share of all they request, then the ratio.

        The ratio is the largest one of an allocated amount to the share; 1 plus that to the capacity without a share.
        """
        if self.order is None or self._columns_of_parent is not None:
            deserved = self.deserved
            without = any(n > 0 and capacity.get(r) and not deserved.get(r) for r, n in self.demand.items())
            ratios = [0.0]
            for resource, allocated in self.allocated.items():
                if allocated > 0:
                    share, whole = deserved.get(resource, 0), capacity.get(resource, 0) or allocated
                    ratios.append(float(allocated) / share if share else 1.0 + float(allocated) / whole)
            self.order = -self.queue.priority, without, max(ratios), self.queue.name
        return self.order

    def reset_order(self) -> None:
        """Compute the sort keys again when they are needed next."""
        self.order = None
        if self.columns is not None:
            self.columns.reset_order()

    def first_child(
        self, among: tuple[Set[str], Set[str]], first: Callable[[str], float] | None, capacity: Mapping[str, int]
    ) -> QueueNode:
        """Return which child of the names in either set is served next: by priority, then by `first`, then by share."""
        if self.columns is not None:
            return self.children[self.columns.first(among, first, capacity)]

        def key(child: QueueNode) -> tuple[int, float, OrderKey]:
            order = child.order_key(capacity)
            return order[0], 0.0 if first is None else first(child.queue.name), order

        these, those = among
        names = [(child, child.queue.name) for child in self.children]
        return min((child for child, name in names if name in these or name in those), key=key)

    def path(self) -> Sequence[QueueNode]:
        """Return this node and all above it, up to the root."""
        return self._path

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

    def add(self, resource: str, allocated: int, *, is_started: bool = False) -> None:
        """Add an allocated amount to the path to the root, and bring the demand on it up to date.

        `is_started` is True if as much was pending here before.
        """
        if allocated:
            for each in self._path:
                each.order = None
                amount = each.allocated[resource] = each.allocated.get(resource, 0) + allocated
                parent = each.parent
                if parent is not None and parent.columns is not None:
                    parent.columns.set_allocated(each.position, resource, amount)
            if self.children:
                self.stale.add(resource)  # own jobs reduce what there is to divide
        if is_started and self.queue.state is QueueState.OPEN:
            return  # pods that get a node, the most frequent change, leave the sum of the demand as it is
        node = self
        while (difference := node._update_demand(resource)) and node.parent is not None:
            node = node.parent
            node.claimed_by_children[resource] = node.claimed_by_children.get(resource, 0) + difference
            node.stale.add(resource)

    def divide(self) -> None:
        """Divide the share among the children, for the resources that changed."""
        for resource in self.stale:
            divisible = max(0, self.share(resource) - self.own.allocated.get(resource, 0))
            if self.columns is not None:
                for i in self.columns.divide(divisible, resource):
                    self.children[i].stale.add(resource)
                continue
            shares = max_min(divisible, [child.claim(resource) for child in self.children])
            for child, share in zip(self.children, shares, strict=True):
                if child._deserved.get(resource, 0) != share:
                    child._deserved[resource] = share
                    child.order = None
                    if child.children:
                        child.stale.add(resource)
        self.stale.clear()
