"""Which rows have the best total, known without looking at all of them: the best of each block of rows is kept.

Between two pods of a shape one row changes, and finding the best node then costs a look at one place per block.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
from numpy.typing import NDArray

from pyscheduler.api.normalize import Scores

BLOCK = 512
"""Rows of a block: wide enough for NumPy to be quick, and a cluster of 50,000 nodes has 98 of them."""
_UNKNOWN = -1


class Leaders:
    """The best total of each block and how many rows of it have it; a column's place in it is its row."""

    __slots__ = ("_best", "_blocks", "_many", "_picked")

    def __init__(self) -> None:
        self._blocks: NDArray[np.int64] = np.empty((0, BLOCK), np.int64)
        self._best: list[int] = []
        self._many: list[int] = []
        self._picked = False

    @staticmethod
    def room(rows: int) -> int:
        """How long a column of totals must be for so many rows: whole blocks."""
        return -(-rows // BLOCK) * BLOCK

    def follow(self, totals: Scores) -> None:
        """Look at all of a column, as long as `room` says, which is followed from now on."""
        self._blocks = totals.reshape(-1, BLOCK)
        self._best = self._blocks.max(axis=1).tolist()
        self._many = [_UNKNOWN] * len(self._best)
        self._picked = False

    def changed(self, row: int, before: int, now: int) -> None:
        """A row's total has changed in the column that is followed."""
        block = row // BLOCK
        best = self._best[block]
        if now > best:
            self._best[block], self._many[block] = now, 1
        elif before == best != now:
            if self._many[block] > 1:
                self._many[block] -= 1
            else:
                self._best[block], self._many[block] = int(np.maximum.reduce(self._blocks[block])), _UNKNOWN
        elif now == best != before and self._many[block] != _UNKNOWN:
            self._many[block] += 1

    def pick(self, chance: Callable[[], int]) -> int:
        """One of the rows that have the best total: number `chance()` of them in row order, counted round and round."""
        top, many = max(self._best), self._many
        tied = [block for block, best in enumerate(self._best) if best == top]
        unknown = [block for block in tied if many[block] == _UNKNOWN]
        if len(unknown) > 2 and not self._picked:
            # One look at everything is quicker than one at each, and mostly the last before all is new again.
            self._picked = True
            rows = (self._blocks == top).ravel().nonzero()[0]
            return int(rows[chance() % len(rows)])
        for block in unknown:
            many[block] = int(np.count_nonzero(self._blocks[block] == top))
        ties = sum(many[block] for block in tied)
        place = chance() % ties if ties > 1 else 0
        for block in tied:
            if place < many[block]:
                return block * BLOCK + int((self._blocks[block] == top).nonzero()[0][place])
            place -= many[block]
        raise AssertionError("every block was counted")
