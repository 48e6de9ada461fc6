"""How many bindings to have under way.

The more calls an API server and its store have before them, the less each costs: writes that wait together are put on
disk together. So a burst is sent wide. It begins with a few and has one more under way for each that was quick enough,
so that a start does not open a hundred connections at once, and one less for each that was not.

Pods that mind others go a few at a time. When their turn comes at the kubelet it looks again whether there is room for
them, but never whether their affinities and spreading still hold: what they are decided on should be as new as it can
be. How many keep the API server busy, and let nobody wait, is seen in the calls themselves, as in TCP Vegas: while they
take about as long as the quickest do, there is room for more; once they take several times as long, they wait for each
other.
"""

from __future__ import annotations

FEWEST = 4.0
FEW = 16.0
"""The most for pods that mind others."""
LONG = 1.0
"""Seconds that a call should not take, however many there are."""
FIRST = 8
"""How many a burst begins with."""
_CROWDED = 6.0
"""How many times as long as the quickest a call takes where there are too many."""
_STEP = 0.125
_RENEWED = 2000
"""Calls after which the quickest is looked for anew, one at a time at first: servers become slower and quicker."""


class Breadth:
    """`wide` and `narrow` are the numbers; `took` is told the seconds of each call that bound a pod."""

    __slots__ = ("_calls", "_few", "_fewest", "_most", "_quick", "narrow", "wide")

    def __init__(self, most: int) -> None:
        self._most = float(most)
        self._few, self._fewest = min(FEW, self._most), min(FEWEST, self._most)
        self._quick = float("inf")
        self._calls = 0
        self.wide = self.narrow = min(float(FIRST), self._few)

    def took(self, seconds: float) -> None:
        self.wide = min(self._most, self.wide + 1) if seconds < LONG else max(self._fewest, self.wide - 1)
        self._calls += 1
        if self._calls == _RENEWED:
            self._calls, self._quick, self.narrow = 0, float("inf"), 1.0
        self._quick = min(self._quick, seconds)
        if seconds > self._quick * _CROWDED:
            self.narrow = max(self._fewest, self.narrow - _STEP)
        else:
            self.narrow = min(self._few, self.narrow + _STEP)
