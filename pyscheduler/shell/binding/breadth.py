"""How many bindings to have under way.

The more calls an API server and its store have before them, the less each costs: writes that wait together are put on
disk together. But the more there are, the longer each of them takes, and each wants a connection of its own, which has
to be opened first. Where thousands of pods wait that pays, and a tenth of a second more is nothing beside what they
wait anyway: they are sent wide, until none is left. Shorter bursts are bound nearly as quickly by a few, where it is
the server's own work that takes the time: by fewer in a large cluster, whose server stands still for longer at times,
and whatever is under way then is late. Where each call waits for something else, as for a disk or a long way, it takes
no longer beside others: then there are more and more of them.

Wide begins with a few and has one more under way for each that was quick enough, so that a start does not open a
hundred connections at once, and one less for each that was not.

Pods that mind others go a few at a time. When their turn comes at the kubelet it looks again whether there is room for
them, but never whether their affinities and spreading still hold: what they are decided on should be as new as it can
be. How many keep the API server busy, and let nobody wait, is seen in the calls themselves, as in TCP Vegas: while they
take about as long as the quickest do, there is room for more; once they take several times as long, they wait for each
other.
"""

from __future__ import annotations

FEWEST = 4.0
FEW = 8.0
"""The most for pods that mind others, the least of a short burst of others, and how many a start begins with: whenever
the server stands still, each one under way is a long attempt, and ten of a thousand are the p99: two are left."""
SEVERAL = 32.0
"""The least of a short burst in a small cluster, which is through a fifth sooner than with a few."""
SMALL = 1000
"""The most nodes of a small cluster."""
MANY = 3000
"""How many pods have to wait for a burst to be a long one."""
LONG = 1.0
"""Seconds that a call should not take, however many there are."""
_CROWDED = 6.0
"""How many times as long as the quickest a call takes where there are too many."""
_UNHURRIED = 3.0
"""The same for short bursts of pods that do not mind others."""
_FORGOTTEN = 1.0002
"""By how much the quickest of them is taken to be slower with each call, since servers become so."""
_STEP = 0.125
_RENEWED = 2000
"""Calls after which the quickest is looked for anew, one at a time at first: servers become slower and quicker."""


class Breadth:
    """`most` says how many, `took` is told the seconds of each call that bound a pod."""

    __slots__ = ("_all", "_calls", "_few", "_fewest", "_is_long", "_narrow", "_quick", "_quickest", "_short", "_wide")

    def __init__(self, workers: int) -> None:
        """There are never more than `workers`."""
        self._all = float(workers)
        self._few, self._fewest = min(FEW, self._all), min(FEWEST, self._all)
        self._quick = self._quickest = float("inf")
        self._calls = 0
        self._is_long = False
        self._wide = self._short = self._narrow = self._few

    def most(self, waiting: int, nodes: int, minds_others: bool) -> float:
        """How many to have under way while so many pods wait for their attempt, in a cluster of so many nodes."""
        self._is_long = waiting >= MANY or (self._is_long and waiting > 0)
        if minds_others:
            return self._narrow
        if self._is_long:
            return self._wide
        return min(self._wide, max(self._short, SEVERAL) if nodes <= SMALL else self._short)

    def took(self, seconds: float) -> None:
        self._wide = min(self._all, self._wide + 1) if seconds < LONG else max(self._fewest, self._wide - 1)
        self._quickest = min(self._quickest * _FORGOTTEN, seconds)
        if seconds > self._quickest * _UNHURRIED:
            self._short = max(self._few, self._short - _STEP)
        else:
            self._short = min(self._all, self._short + _STEP)
        self._calls += 1
        if self._calls == _RENEWED:
            self._calls, self._quick, self._narrow = 0, float("inf"), 1.0
        self._quick = min(self._quick, seconds)
        if seconds > self._quick * _CROWDED:
            self._narrow = max(self._fewest, self._narrow - _STEP)
        else:
            self._narrow = min(self._few, self._narrow + _STEP)
