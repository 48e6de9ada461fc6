"""How long to wait before trying again."""

from __future__ import annotations

import random


class ExponentialBackoff:
    """Seconds that double from `first` to `longest` with every failure in a row, each cut by up to half by chance."""

    def __init__(self, rng: random.Random, first: float = 0.5, longest: float = 30.0) -> None:
        self.failures = 0
        self._rng, self._first, self._longest = rng, first, longest

    def reset(self) -> None:
        """It worked."""
        self.failures = 0

    def next_delay(self, at_least: float = 0.0) -> float:
        """It did not; returns how long to wait now."""
        self.failures += 1
        full = min(self._longest, self._first * 2.0 ** min(self.failures - 1, 20))
        return max(at_least, full * self._rng.uniform(0.5, 1.0))
