"""Exponential backoff with jitter."""

from __future__ import annotations

import random


class ExponentialBackoff:
    """Delays that double from `first` to `longest` seconds with each consecutive failure, shortened by up to half."""

    def __init__(self, rng: random.Random, first: float = 0.5, longest: float = 30.0) -> None:
        self.failures = 0
        self._rng, self._first, self._longest = rng, first, longest

    def reset(self) -> None:
        """Start over after a success."""
        self.failures = 0

    def next_delay(self, at_least: float = 0.0) -> float:
        """Count a failure and return the seconds to wait, `at_least` or more."""
        self.failures += 1
        full = min(self._longest, self._first * 2.0 ** min(self.failures - 1, 20))
        return max(at_least, full * self._rng.uniform(0.5, 1.0))
