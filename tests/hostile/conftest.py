"""What the tests share that look at memory."""

from __future__ import annotations

import tracemalloc
from collections.abc import Iterator
from sys import intern

import pytest

ROOM = 100_000
"""Texts: more than the tests of a module intern."""
AT_ONCE = 1_000
TABLE = 1 << 20
"""Bytes: less than what a table of so many texts grows by, and more than `AT_ONCE` of them take."""


@pytest.fixture(scope="module")
def room_for_texts() -> None:
    """Python's table of interned texts is made anew, so that this does not come to pass while a test looks.

    A text has its place in the table even when it is gone. When all places are taken, a new table is made, with at
    least as many free ones as there are texts; its megabytes would look like something that a pod has left behind.
    """
    texts: list[str] = []
    grown = 0
    tracemalloc.start()
    while len(texts) < ROOM or grown < TABLE:
        before, _ = tracemalloc.get_traced_memory()
        texts += [intern(f"text {len(texts) + i}") for i in range(AT_ONCE)]
        grown = tracemalloc.get_traced_memory()[0] - before
    tracemalloc.stop()


@pytest.fixture
def traced(room_for_texts: None) -> Iterator[None]:
    """Memory is traced."""
    tracemalloc.start()
    yield
    tracemalloc.stop()
