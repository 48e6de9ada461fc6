"""Sorting as Go does. Expected orders come from Go's sort.Slice; the longest are given as CRC-32."""

from __future__ import annotations

from zlib import crc32

import pytest

from pyscheduler.intree.preemption.go_sort import go_sort


@pytest.mark.parametrize(
    ("n", "factor", "modulus", "contradicts", "order"),
    [
        (12, 7, 3, True, "0 2 3 5 6 8 9 11 1 4 7 10"),
        (13, 7, 3, False, "6 2 3 5 0 8 9 11 12 1 4 7 10"),
        (30, 3, 5, True, "23 10 28 3 20 5 25 0 15 8 13 18 24 9 14 29 4 19 7 17 16 21 22 12 11 6 26 27 2 1"),
        (60, 7, 1, True, 1641381015),
        (110, 7, 4, False, 544762511),
        (500, 3, 11, True, 1226471844),
        (500, 0, 600, False, 2031269938),
        (1000, 5, 997, False, 745748667),
        (3000, 1, 2, True, 2375749413),
    ],
)
def test_order_of_equal_items_is_gos(n: int, factor: int, modulus: int, contradicts: bool, order: str | int) -> None:
    """Identify items by their first number and compare the second; with `contradicts`, odd ones precede each other."""
    items = [(i, (factor * i * i + i) % modulus) for i in range(n)]
    go_sort(items, lambda a, b: a[1] < b[1] or (a[1] == b[1] and contradicts and a[1] % 2 == 1))
    found = " ".join(str(i) for i, _ in items)
    assert order in (found, crc32(found.encode()))


@pytest.mark.parametrize("n", [0, 1, 2, 13, 49, 51, 300, 5000])
@pytest.mark.parametrize("modulus", [1, 2, 10, 100_000])
def test_result_is_sorted(n: int, modulus: int) -> None:
    for numbers in (range(n), range(n, 0, -1), [i * 7919 % 10007 for i in range(n)], [min(i, n - i) for i in range(n)]):
        items = [number % modulus for number in numbers]
        go_sort(items, lambda a, b: a < b)
        assert items == sorted(number % modulus for number in numbers)
