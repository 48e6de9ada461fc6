"""Children of a queue that has many: their claims, shares and allocated amounts, a column for each.

Without columns, each event of one of a thousand queues with the same parent costs some milliseconds: the share of each
depends on all of them, and so does what the others have a claim to.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from pyscheduler.api.resources import Amounts
from pyscheduler_plugins.queues.max_min import Claim, max_min
from pyscheduler_plugins.queues.max_min_columns import MAX_AMOUNT, ClaimColumns, Ints, exact_sum, max_min_columns

if TYPE_CHECKING:
    from pyscheduler_plugins.queues.queue_node import QueueNode

MANY = 48
"""Number of children from which on columns are faster than a loop."""
_NO_CLAIM = Claim(0, 0)


class _Resource:
    """Columns of one resource."""

    def __init__(self, weights: Ints) -> None:
        count = len(weights)
        self.claims = [_NO_CLAIM] * count
        self.outdated: set[int] = set()
        """Positions of the children with another claim."""
        limits, guarantees, deserved, self.shares, self.allocated = np.zeros((5, count), np.int64)
        self.columns = ClaimColumns(weights, limits, guarantees, deserved)
        self.is_requested = np.zeros(count, np.bool_)

    def divide(self, amount: int, children: Sequence[QueueNode], resource: str) -> Ints:
        """Compute the shares. Return the positions of those that are others than before."""
        columns = self.columns
        for i in self.outdated:
            claim = self.claims[i] = children[i].claim(resource)
            columns.limits[i] = min(claim.limit, MAX_AMOUNT)
            columns.guarantees[i] = min(claim.guarantee, MAX_AMOUNT)
            columns.deserved[i] = min(claim.deserved, MAX_AMOUNT)
            self.is_requested[i] = children[i].demand.get(resource, 0) > 0
        self.outdated.clear()
        shares = max_min_columns(amount, columns)
        if shares is None:
            shares = np.array([min(share, MAX_AMOUNT) for share in max_min(amount, self.claims)], np.int64)
        changed: Ints = (shares != self.shares).nonzero()[0]
        self.shares = shares
        return changed


class ChildColumns:
    """Columns of the children of one queue."""

    def __init__(self, children: Sequence[QueueNode]) -> None:
        self._children = children
        self._weights = np.array([child.queue.weight for child in children], np.int64)
        self._priorities = np.array([child.queue.priority for child in children], np.int64)
        self.is_held = np.zeros(len(children), np.bool_)
        """True for children without children that are held back."""
        self.inner = [i for i, child in enumerate(children) if child.children]
        """Positions of the children with children."""
        self._resources: dict[str, _Resource] = {}
        self._order: tuple[NDArray[np.bool_], NDArray[np.float64]] | None = None

    def _of(self, resource: str) -> _Resource:
        columns = self._resources.get(resource)
        if columns is None:
            columns = self._resources[resource] = _Resource(self._weights)
        return columns

    # -- changes -------------------------------------------------------------------------------------------------

    def claim_changed(self, position: int, resource: str) -> None:
        """Read the claim of a child again before the next division."""
        self._of(resource).outdated.add(position)
        self._order = None

    def set_allocated(self, position: int, resource: str, amount: int) -> None:
        """Set what a child has allocated."""
        self._of(resource).allocated[position] = min(amount, MAX_AMOUNT)
        self._order = None

    def set_held(self, position: int, *, is_held: bool) -> None:
        """Set whether a child without children is held back."""
        self.is_held[position] = is_held

    def reset_order(self) -> None:
        """Compute the order again when it is needed next."""
        self._order = None

    def divide(self, amount: int, resource: str) -> Iterable[QueueNode]:
        """Divide an amount among the children. Return the children with children whose share has changed."""
        changed = self._of(resource).divide(amount, self._children, resource)
        if not len(changed):
            return ()
        self._order = None
        if not self.inner:
            return ()
        among = set(changed.tolist())
        return [self._children[i] for i in self.inner if i in among]

    # -- reading -------------------------------------------------------------------------------------------------

    def share(self, position: int, resource: str) -> int:
        """Return the share of a child."""
        columns = self._resources.get(resource)
        return 0 if columns is None else int(columns.shares[position])

    def shares_of(self, position: int) -> Amounts:
        """Return the share of a child of each resource."""
        return {resource: int(columns.shares[position]) for resource, columns in self._resources.items()}

    def unmet(self, resource: str) -> Ints:
        """Return what each child deserves and has not allocated."""
        columns = self._of(resource)
        return np.maximum(columns.shares - columns.allocated, 0)

    def first(self, among: Sequence[int], keys: Mapping[int, float] | None, capacity: Amounts) -> list[int]:
        """Return which of the children come first: by priority, by the key, by share. Several are equal."""
        found = np.fromiter(among, np.intp, len(among))
        priorities = self._priorities[found]
        found = found[priorities == priorities.max()]
        if keys is not None:
            values = np.array([keys[i] for i in found.tolist()])
            found = found[values == values.min()]
        without, ratios = self._computed_order(capacity)
        if not without[found].all():
            found = found[~without[found]]
        least = ratios[found]
        return [int(i) for i in found[least == least.min()]]

    def _computed_order(self, capacity: Amounts) -> tuple[NDArray[np.bool_], NDArray[np.float64]]:
        """Return which children have no share of something that they request, and the largest ratios to the shares."""
        if self._order is not None:
            return self._order
        without = np.zeros(len(self._children), np.bool_)
        ratios = np.zeros(len(self._children))
        for resource, columns in self._resources.items():
            whole, has_share = capacity.get(resource, 0), columns.shares > 0
            if whole:
                without |= columns.is_requested & ~has_share
            allocated = columns.allocated.astype(np.float64)
            beyond = 1.0 + allocated / whole if whole else np.full(len(allocated), 2.0)
            np.divide(allocated, columns.shares, out=beyond, where=has_share)
            np.maximum(ratios, beyond, out=ratios, where=columns.allocated > 0)
        self._order = without, ratios
        return self._order
