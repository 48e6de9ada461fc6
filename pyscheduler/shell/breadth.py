"""How many bindings to have under way: as many as the API server works on at once, not as many as it would let wait.

More of them make each slower and bind no more pods a second, and an attempt is not over before its pod is bound. How
many that are is seen in the calls themselves, as in TCP Vegas: while they take about as long as the quickest do, there
is room for more; once they take several times as long, they wait for each other.
"""

from __future__ import annotations

FEWEST = 4.0
_FIRST = 8.0
_CROWDED = 6.0
"""How many times as long as the quickest a call takes where there are too many."""
_STEP = 0.125
_RENEWED = 2000
"""Calls after which the quickest is looked for anew, one at a time at first: servers become slower and quicker."""


class Breadth:
    """`limit` is the number; `took` is told the seconds of each call that bound a pod."""

    __slots__ = ("_calls", "_most", "_quick", "limit")

    def __init__(self, most: int) -> None:
        self._most = float(most)
        self._quick = float("inf")
        self._calls = 0
        self.limit = min(_FIRST, self._most)

    def took(self, seconds: float) -> None:
        self._calls += 1
        if self._calls == _RENEWED:
            self._calls, self._quick, self.limit = 0, float("inf"), 1.0
        self._quick = min(self._quick, seconds)
        if seconds > self._quick * _CROWDED:
            self.limit = max(FEWEST, self.limit - _STEP)
        else:
            self.limit = min(self._most, self.limit + _STEP)
