"""Fixtures of the tests that measure memory."""

from __future__ import annotations

import tracemalloc
from collections.abc import Iterator
from sys import intern

import pytest

ROOM = 100_000
"""Number of strings, more than the tests of a module intern."""
AT_ONCE = 1_000
TABLE = 1 << 20
"""Bytes, less than the growth of a table of that many strings, and more than `AT_ONCE` of them take."""


@pytest.fixture(scope="module")
def room_for_texts() -> None:
    """Let Python's table of interned strings grow now, so that it does not grow during a measurement.

    A deleted string keeps its slot. When all slots are used, a new table is allocated with at least as many free slots
    as there are strings; its megabytes would look like memory that a pod has left behind.
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
    """Trace memory allocations."""
    tracemalloc.start()
    yield
    tracemalloc.stop()
