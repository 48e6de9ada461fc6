"""Bindings that were accepted and that no watch has shown yet: which pods are to be looked up, and when.

An answer is no proof: a proxy may give one for a call that never arrived. kube-scheduler believes it for as long as it
runs (durationToExpireAssumedPod is 0), and the pod keeps a place that it does not take.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Iterator
from typing import Final

LOOK_UP_AFTER: Final = 60.0
"""Seconds. A watch that has died silently is replaced well before (`pyscheduler.kube.deadlines`)."""


class Unconfirmed:
    """UIDs of pods in the order in which their lookups are due."""

    def __init__(self) -> None:
        self._due: OrderedDict[str, float] = OrderedDict()

    def add(self, uid: str, now: float) -> None:
        """The binding was accepted now."""
        self._due[uid] = now + LOOK_UP_AFTER
        self._due.move_to_end(uid)

    def discard(self, uid: str) -> None:
        """The pod is confirmed, or has lost its place."""
        self._due.pop(uid, None)

    def __iter__(self) -> Iterator[str]:
        return iter(self._due)

    def next_due(self) -> float | None:
        """When the next lookup is due."""
        return next(iter(self._due.values()), None)

    def take_due(self, now: float) -> list[str]:
        """Pods to be looked up now. They are due again later, in case no answer comes."""
        taken = []
        while (due := self.next_due()) is not None and due <= now:
            uid, _ = self._due.popitem(last=False)
            taken.append(uid)
        for uid in taken:
            self.add(uid, now)
        return taken
