"""Children of a queue that has many: their claims, shares and allocated amounts, a column for each.

Without columns, each event of one of a thousand queues with the same parent costs some milliseconds: the share of each
depends on all of them, and so does what the others have a claim to.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence, Set
from typing import Protocol

import numpy as np
from numpy.typing import NDArray

from pyscheduler.api.resources import Amounts
from pyscheduler_plugins.queues.max_min import Claim, max_min
from pyscheduler_plugins.queues.max_min_columns import MAX_AMOUNT, ClaimColumns, Ints, max_min_columns
from pyscheduler_plugins.queues.queue import Queue

MANY = 48
"""Number of children from which on columns are faster than a loop."""
_NO_CLAIM = Claim(0, 0)


class Child(Protocol):
    """A queue of which the parent has columns."""

    queue: Queue
    demand: Amounts

    def claim(self, resource: str) -> Claim:
        """Return the claim to the parent's share."""


class _ResourceColumns:
    """Columns of one resource."""

    def __init__(self, weights: Ints) -> None:
        count = len(weights)
        self.claims = [_NO_CLAIM] * count
        self.outdated: set[int] = set()
        """Positions of the children with another claim."""
        limits, guarantees, deserved, self.shares, self.allocated = np.zeros((5, count), np.int64)
        self.columns = ClaimColumns(weights, limits, guarantees, deserved)
        self.is_requested = np.zeros(count, np.bool_)

    def divide(self, amount: int, children: Sequence[Child], resource: str) -> Ints:
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

    def __init__(self, children: Sequence[Child], inner: Sequence[int]) -> None:
        """Create the columns; `inner` are the positions of the children with children."""
        self._children = children
        self._names = [child.queue.name for child in children]
        self._weights = np.array([child.queue.weight for child in children], np.int64)
        self._priorities = np.array([child.queue.priority for child in children], np.int64)
        self.is_held = np.zeros(len(children), np.bool_)
        """True for children without children that are held back."""
        self.inner = inner
        self._resources: dict[str, _ResourceColumns] = {}
        self._order: tuple[NDArray[np.bool_], NDArray[np.float64]] | None = None

    def _of(self, resource: str) -> _ResourceColumns:
        columns = self._resources.get(resource)
        if columns is None:
            columns = self._resources[resource] = _ResourceColumns(self._weights)
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

    def divide(self, amount: int, resource: str) -> Iterable[int]:
        """Divide an amount among the children. Return the positions of those with children and another share."""
        changed = self._of(resource).divide(amount, self._children, resource)
        if not len(changed):
            return ()
        self._order = None
        if not self.inner:
            return ()
        among = set(changed.tolist())
        return [i for i in self.inner if i in among]

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
        unmet: Ints = np.maximum(columns.shares - columns.allocated, 0)
        return unmet

    def first(
        self, among: tuple[Set[str], Set[str]], key: Callable[[str], float] | None, capacity: Mapping[str, int]
    ) -> int:
        """Return the position of the first child of the names in either set: by priority, key, share and name."""
        these, those = among
        found = np.array([i for i, name in enumerate(self._names) if name in these or name in those], np.intp)
        priorities = self._priorities[found]
        found = found[priorities == priorities.max()]
        if key is not None:
            keys = np.array([key(self._names[i]) for i in found.tolist()])
            found = found[keys == keys.min()]
        without, ratios = self._computed_order(capacity)
        if not without[found].all():
            found = found[~without[found]]
        least = ratios[found]
        equal: list[int] = found[least == least.min()].tolist()
        return min(equal, key=self._names.__getitem__)

    def _computed_order(self, capacity: Mapping[str, int]) -> tuple[NDArray[np.bool_], NDArray[np.float64]]:
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
