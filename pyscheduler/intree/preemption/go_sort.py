"""Port of Go's sort.Slice (Go 1.19 and later): pattern-defeating quicksort, which is not stable.

The order of equally important pods decides which are evicted, so parity with kube-scheduler needs Go's exact order.
Even for an inconsistent comparison (`less(a, b)` and `less(b, a)`) the result is the one of Go.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Generic, TypeVar

T = TypeVar("T")
INSERTION = 12
"""Ranges of at most this many items are sorted by insertion, which is stable."""
_NINTHER = 50
_MOST_SWAPS = 12
_MOST_STEPS = 5
_UINT64 = (1 << 64) - 1


def go_sort(items: list[T], less: Callable[[T, T], bool]) -> None:
    """Sort the list in place."""
    _Sorting(items, less).quick(0, len(items), len(items).bit_length())


class _Sorting(Generic[T]):
    """Sort state; indexes refer to the list, ranges are half open."""

    def __init__(self, items: list[T], less: Callable[[T, T], bool]) -> None:
        self._items = items
        self._of_items = less
        self._swaps = 0

    def _less(self, i: int, j: int) -> bool:
        return self._of_items(self._items[i], self._items[j])

    def _swap(self, i: int, j: int) -> None:
        items = self._items
        items[i], items[j] = items[j], items[i]

    def quick(self, a: int, b: int, limit: int) -> None:
        """Sort a range, by heapsort after `limit` bad pivots."""
        balanced = partitioned = True
        while b - a > INSERTION:
            if limit == 0:
                self._heap(a, b)
                return
            if not balanced:
                self._break_patterns(a, b)
                limit -= 1
            pivot, swaps = self._pivot(a, b)
            if swaps == _MOST_SWAPS:
                self._items[a:b] = self._items[a:b][::-1]
                pivot, swaps = b - 1 - (pivot - a), 0
            if balanced and partitioned and swaps == 0 and self._nearly_sorted(a, b):
                return
            if a > 0 and not self._less(a - 1, pivot):
                a = self._after_equals(a, b, pivot)
                continue
            middle, partitioned = self._partition(a, b, pivot)
            left, right, least = middle - a, b - middle, (b - a) // 8
            if left < right:
                balanced = left >= least
                self.quick(a, middle, limit)
                a = middle + 1
            else:
                balanced = right >= least
                self.quick(middle + 1, b, limit)
                b = middle
        self._insert(a, b)

    def _insert(self, a: int, b: int) -> None:
        for i in range(a + 1, b):
            self._sink(i, a)

    def _sink(self, i: int, a: int) -> None:
        """Move an item toward `a` past the items that it is less than."""
        while i > a and self._less(i, i - 1):
            self._swap(i, i - 1)
            i -= 1

    def _partition(self, a: int, b: int, pivot: int) -> tuple[int, bool]:
        """Partition around the pivot; return its new index and True if the range was partitioned already."""
        self._swap(a, pivot)
        i, j, moved = a + 1, b - 1, False
        while True:
            while i <= j and self._less(i, a):
                i += 1
            while i <= j and not self._less(j, a):
                j -= 1
            if i > j:
                break
            self._swap(i, j)
            i, j, moved = i + 1, j - 1, True
        self._swap(j, a)
        return j, not moved

    def _after_equals(self, a: int, b: int, pivot: int) -> int:
        """Move the pivot's equals to the left of a range without lesser items; return the index of the rest."""
        self._swap(a, pivot)
        i, j = a + 1, b - 1
        while True:
            while i <= j and not self._less(a, i):
                i += 1
            while i <= j and self._less(a, j):
                j -= 1
            if i > j:
                return i
            self._swap(i, j)
            i, j = i + 1, j - 1

    def _nearly_sorted(self, a: int, b: int) -> bool:
        """Repair a few items that are out of order; return True if the range is sorted then."""
        i = a + 1
        for _ in range(_MOST_STEPS):
            while i < b and not self._less(i, i - 1):
                i += 1
            if i == b:
                return True
            if b - a < _NINTHER:
                return False
            self._swap(i, i - 1)
            if i - a >= 2:
                self._sink(i - 1, 0)
            if b - i >= 2:
                self._rise(i + 1, b)
        return False

    def _rise(self, i: int, b: int) -> None:
        while i < b and self._less(i, i - 1):
            self._swap(i, i - 1)
            i += 1

    def _break_patterns(self, a: int, b: int) -> None:
        length = random = b - a
        for place in range(a + length // 4 * 2 - 1, a + length // 4 * 2 + 2):
            random ^= random << 13 & _UINT64
            random ^= random >> 7
            random ^= random << 17 & _UINT64
            other = random & ((1 << length.bit_length()) - 1)
            self._swap(place, a + (other - length if other >= length else other))

    def _pivot(self, a: int, b: int) -> tuple[int, int]:
        """Return the index of a good pivot and the number of swaps made to find it."""
        quarter = (b - a) // 4
        i, j, k = a + quarter, a + quarter * 2, a + quarter * 3
        self._swaps = 0
        if b - a >= _NINTHER:
            i, j, k = (self._median(place - 1, place, place + 1) for place in (i, j, k))
        return self._median(i, j, k), self._swaps

    def _median(self, a: int, b: int, c: int) -> int:
        a, b = self._ordered(a, b)
        b, c = self._ordered(b, c)
        return self._ordered(a, b)[1]

    def _ordered(self, a: int, b: int) -> tuple[int, int]:
        if self._less(b, a):
            self._swaps += 1
            return b, a
        return a, b

    def _heap(self, a: int, b: int) -> None:
        size = b - a
        for i in range((size - 1) // 2, -1, -1):
            self._sift_down(i, size, a)
        for i in range(size - 1, -1, -1):
            self._swap(a, a + i)
            self._sift_down(0, i, a)

    def _sift_down(self, root: int, size: int, first: int) -> None:
        while (child := 2 * root + 1) < size:
            if child + 1 < size and self._less(first + child, first + child + 1):
                child += 1
            if not self._less(first + root, first + child):
                return
            self._swap(first + root, first + child)
            root = child
