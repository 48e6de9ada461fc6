"""Progress of a long scenario on standard error."""

from __future__ import annotations

import time
from collections.abc import Iterable, Iterator
from typing import TypeVar

import click

T = TypeVar("T")
EVERY = 5.0
"""Seconds between two lines."""


class Progress:
    """Progress of one scenario: a line every few seconds, none if it is quick."""

    def __init__(self, title: str) -> None:
        self._title = title
        self._shown = time.perf_counter()

    def track(self, items: Iterable[T], what: str, total: int) -> Iterator[T]:
        """Yield the items, and report their number in between."""
        for i, item in enumerate(items):
            if time.perf_counter() - self._shown >= EVERY:
                self._shown = time.perf_counter()
                click.echo(f"{self._title}: {what}, {i:,} of {total:,}", err=True)
            yield item
